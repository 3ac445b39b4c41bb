"""Where a run's numbers come from, noted when they were made: settings, versions, machine, data, times. Nothing in it
names a person, a host or a place on a disk."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from peerwise.data import Dataset
from peerwise.parcels import sha256
from peerwise.run.experiment import Experiment

# What has a part in the numbers; those that are not installed had none.
PACKAGES = ("peerwise", "numpy", "scipy", "scikit-learn", "torch", "numba", "onnx", "onnxruntime", "skl2onnx", "pandas",
            "safetensors", "joblib", "xgboost", "lightgbm", "opacus", "dp-accounting", "deap")  # fmt: skip
HASHED = ("config.toml", "split.json", "results.parquet")
WORK = ("worked", "shared", "absorbed", "predicted", "round", "failed", "tuned")


def provenance(experiment: Experiment, data: Dataset, digest: str, folder: Path) -> dict[str, Any]:
    """What a report says of a run that has just ended in this process:

    * ``configuration``: the experiment's keys; of paths the last part alone
    * ``seeds``; ``data``: ``name``, ``rows``, ``sha256``, ``source``, ``licence``; ``sha256`` by file
    * ``packages`` with their versions, ``python``, ``platform``, ``processor``, ``cores``; ``commit`` of a checkout
    * ``sessions`` that did some work, each with ``started`` and ``ended`` (UTC) and its ``workers``; ``seconds`` of all
    """
    sessions = work_sessions(_events(folder / "events.jsonl"))
    return {
        "configuration": configuration(experiment),
        "seeds": list(range(experiment.seeds)),
        "data": {"name": bare(data.name), "rows": len(data), "sha256": digest, "source": data.source,
                 "licence": data.licence},
        "sha256": {name: sha256((folder / name).read_bytes()) for name in HASHED},
        **environment(),
        "sessions": sessions,
        "seconds": round(sum(each["seconds"] for each in sessions), 1),
    }  # fmt: skip


def configuration(experiment: Experiment) -> dict[str, Any]:
    found: dict[str, Any] = bare({key: value for key, value in asdict(experiment).items() if value is not None})
    return found


def environment() -> dict[str, Any]:
    """The software and the hardware, without a name that tells whose they are."""
    return {
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
        **({"commit": found} if (found := commit()) else {}),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count() or 0,
    }


def commit() -> str | None:
    """The commit that this code was checked out from, with "+" where its files were changed since; None for an
    installed package, also where that lies in somebody else's repository."""
    here = Path(__file__).parents[1]

    def asked(*words: str) -> str | None:
        try:
            found = subprocess.run(["git", "-C", here, *words], capture_output=True, text=True, timeout=10, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return found.stdout.strip() if found.returncode == 0 else None

    if not asked("ls-files", "--error-unmatch", "__init__.py") or not (head := asked("rev-parse", "--short=9", "HEAD")):
        return None
    return head + ("+" if asked("status", "--porcelain", "--untracked-files=no", ".") else "")


def bare(value: Any) -> Any:
    """The same without where a file lies on somebody's disk.

    >>> bare({"dataset": "/home/ann/ward.csv", "models": ("own.models:make",), "k": 3})
    {'dataset': 'ward.csv', 'models': ['own.models:make'], 'k': 3}
    """
    if isinstance(value, Mapping):
        return {key: bare(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [bare(inner) for inner in value]
    if isinstance(value, str) and (value.startswith(("/", "~", "\\\\")) or value[1:3] in (":\\", ":/")):
        return value.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return value


def work_sessions(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """From the log: each time the run was begun or went on and did something."""
    found: list[dict[str, Any]] = []
    session: dict[str, Any] | None = None
    for event in events:
        if event.get("event") == "start":
            session = {"first": event["time"], "workers": event.get("workers")}
        elif session is not None and event.get("event") in WORK:
            if "last" not in session:
                found.append(session)
            session["last"] = event["time"]
    return [
        {"started": _moment(each["first"]), "ended": _moment(each["last"]), "workers": each["workers"],
         "seconds": round(each["last"] - each["first"], 1)}
        for each in found
    ]  # fmt: skip


def _events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    """As Linux calls it; elsewhere as Python does."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()
