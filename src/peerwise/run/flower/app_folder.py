"""The folder that ``flwr run`` takes: what to run, and nothing of how."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import tomli_w

from peerwise.errors import ConfigError
from peerwise.parcels import write_atomic
from peerwise.run.flower.settings import FlowerSettings


def write_app(folder: str | Path, settings: FlowerSettings) -> Path:
    """Write the ``pyproject.toml`` of a Flower app; every value in it can be changed by ``flwr run --run-config``."""
    path = Path(folder) / "pyproject.toml"
    if path.exists() and "[tool.flwr.app]" not in path.read_text(encoding="utf-8"):
        raise ConfigError(f"{path} is there and no Flower app: expected a folder of its own. Name another.")
    if settings.out and not Path(settings.out).is_absolute():
        raise ConfigError(
            f"out is {settings.out!r}: expected an absolute path, as the hub runs in a folder of Flower's."
        )
    write_atomic(path, tomli_w.dumps(_project(settings)).encode())
    return path


def _project(settings: FlowerSettings) -> dict[str, Any]:
    ours = version("peerwise")
    about = {"name": f"peerwise-{settings.method.replace(':', '-').replace('_', '-')}", "version": ours}
    about |= {"description": f"{settings.method} of Peerwise", "license": "Apache-2.0"}
    components = {"serverapp": "peerwise.run.flower:server", "clientapp": "peerwise.run.flower:client"}
    app = {"publisher": "peerwise", "components": components, "config": settings.config()}
    return {
        "build-system": {"requires": ["hatchling"], "build-backend": "hatchling.build"},
        "project": {**about, "dependencies": [f"peerwise[flower]=={ours}"]},
        "tool": {"flwr": {"app": app}},
    }
