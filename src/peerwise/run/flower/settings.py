"""The settings of a Flower run, and the folder with them that ``flwr run`` takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_type_hints

import tomli_w

from peerwise.errors import ConfigError, choices
from peerwise.methods import Method, check_settings, make_method
from peerwise.methods.registry import METHOD_KINDS, base_name
from peerwise.models import ZOO
from peerwise.parcels import write_atomic
from peerwise.registry import KINDS, is_registered, registered_names
from peerwise.run.experiment import Experiment, experiment_from

NESTED = ("settings", "research")  # as JSON text, because Flower's configuration is flat
OF_MANY = ("methods", "method", "seeds", "subgroup", "tune", "join", "absent")  # what one run of one method cannot have
LOWEST = {"seed": 0, "nodes": 1, "quorum": 0, "deadline": 0}


@dataclass(frozen=True)
class FlowerSettings:
    """``settings`` are the method's own. ``nodes``: how many sites are waited for before the first round. A round ends
    when ``quorum`` of the sites have answered (0: all of them), or after ``deadline`` seconds with those that have.

    ``research``: keys of an `Experiment` that say which data set is shared out among the nodes, each of which gets
    its place by ``partition-id``; empty where every node holds the folder of a real site. As it is the hub that names
    them, method, data set and partition are registered ones. ``out``: the folder, on the machine of the hub, for what
    is known of the run.
    """

    method: str = "peerwise"
    settings: dict[str, Any] = field(default_factory=dict)
    research: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    nodes: int = 1
    quorum: int = 0
    deadline: float = 3600.0
    out: str = ""

    def __post_init__(self) -> None:
        for key, least in LOWEST.items():
            if getattr(self, key) < least:
                raise ConfigError(f"{key} is {getattr(self, key)}: expected at least {least}.")
        if self.quorum > self.nodes:
            raise ConfigError(f"quorum is {self.quorum}: expected at most {self.nodes}, as there are nodes.")
        for key in OF_MANY:
            if key in self.research:
                raise ConfigError(
                    f"research.{key} is {self.research[key]!r}: a Flower run is of one method. Leave it out."
                )
        if self.research and not self.research.get("dataset"):
            raise ConfigError(f"research is {self.research}, without a data set: expected one, or none of this.")
        _check_registered("method", base_name(self.method), *METHOD_KINDS)
        for key in ("dataset", "partition"):
            if self.research.get(key) is not None:
                _check_registered(key, str(self.research[key]), f"{key}s")
        for name in self.experiment.models:
            if name not in ZOO:
                raise ConfigError(
                    f"research.models names {name!r}: expected models of the zoo, as it is the hub that names them. "
                    f"Models of a site's own are named in its own folder."
                )

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> FlowerSettings:
        """From a run's configuration; what is unknown or of another type is refused."""
        found = {key: _nested(key, value) if key in NESTED else value for key, value in config.items()}
        check_settings(found, get_type_hints(cls), "the run's configuration")
        return cls(**found)

    def config(self) -> dict[str, Any]:
        """As Flower takes it: one level of numbers and texts."""
        return {key: json.dumps(value) if key in NESTED else value for key, value in asdict(self).items()}

    @property
    def experiment(self) -> Experiment:
        asked = {"dataset": "", **self.research, "methods": [self.method]}
        return experiment_from({**asked, **({"method": {self.method: self.settings}} if self.settings else {})})

    def make(self) -> Method:
        """The method as a simulation of the same experiment makes it."""
        experiment = self.experiment
        return make_method(
            self.method,
            {**self.settings, **(experiment.budget(self.method) or {})},
            folds=experiment.folds,
            epochs=experiment.epochs,
            sites=self.nodes,
        )


def _check_registered(key: str, name: str, *kinds: str) -> None:
    """A hub names neither code that a node would import nor a file that it would read."""
    if not is_registered(name, *kinds):
        raise ConfigError(
            f"{key}: {choices(name, registered_names(*kinds), KINDS[kinds[0]].word)} On Flower: expected one that is "
            f"registered on every node, built in or by an entry point of a package that is installed there."
        )


def _nested(key: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise ConfigError(f"{key} is {value[:80]!r}: expected an object in JSON, e.g. '{{}}' ({error}).") from error


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
    components = {"serverapp": "peerwise.run.flower.server:app", "clientapp": "peerwise.run.flower.client:app"}
    app = {"publisher": "peerwise", "components": components, "config": settings.config()}
    return {
        "build-system": {"requires": ["hatchling"], "build-backend": "hatchling.build"},
        "project": {**about, "dependencies": [f"peerwise[flower]=={ours}"]},
        "tool": {"flwr": {"app": app}},
    }
