"""A finished run read back from its folder alone: no data set is needed, and every number is the same."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from peerwise.errors import BrokenFile, ConfigError, ParcelError
from peerwise.parcels import sha256
from peerwise.run.experiment import Experiment, experiment_from
from peerwise.run.finished import Run, results_of
from peerwise.run.folder import RunFolder
from peerwise.run.opened import in_order
from peerwise.run.score import Predictions

INDEX = "index"
FORMAT = 1
AGAIN = (
    "Run the same 'peerwise simulate' again with this folder: it goes on where it stopped, and what is done is quick."
)
CHECKED = ("split.json", "results.parquet")

Places = Mapping[tuple[int, str, str], str]


def save_index(
    folder: RunFolder, experiment: Experiment, about: Mapping[str, Any], places: Places, predictions: Predictions
) -> None:
    """Written last: a folder that has one for its configuration is finished. ``places``: by (seed, method, site) what
    the files of that run are called; ``about``: the rest of a `Run`."""
    entries, groups = [], {}
    for (seed, label, site), run in places.items():
        tree = predictions[seed, label, site]
        entries.append([seed, label, site, run, tree["rounds"], tree["lr"]])
        if tree["subgroup"] is not None:
            groups[f"{seed} {site}"] = tree["subgroup"]
    tree = {"format": FORMAT, "experiment": asdict(experiment), "entries": entries, "subgroups": groups}
    folder.store.save(INDEX, {**tree, **about})


def kept_provenance(folder: RunFolder, fresh: dict[str, Any]) -> dict[str, Any]:
    """What was noted when the numbers were made, if nothing was worked on since."""
    try:
        kept: dict[str, Any] = folder.store.load(INDEX)["provenance"] if folder.store.has(INDEX) else {}
    except (ParcelError, KeyError):  # running again writes it anew
        return fresh
    same = all(kept.get(key) == fresh[key] for key in ("configuration", "sessions", "data"))
    return {**kept, "sha256": fresh["sha256"]} if same else fresh


def load_run(folder: str | Path) -> Run:
    """The run that `simulate` finished in this folder, as it returned it. One that is unfinished, damaged or was never
    a run is refused, with what to do."""
    path = Path(folder)
    found = _index(path)
    experiment = _experiment(found["experiment"], path)
    _check_unchanged(path, experiment, found["provenance"])
    store = RunFolder(path)
    predictions: Predictions = {}
    loaded: dict[str, dict[str, dict[str, Any]]] = {}
    for seed, label, site, run, rounds, lr in found["entries"]:
        if run not in loaded:
            loaded[run] = _predictions(store, run)
        tree = loaded[run][site]
        predictions[seed, label, site] = tree | {
            "subgroup": found["subgroups"].get(f"{seed} {site}"),
            "rounds": rounds,
            "lr": lr,
        }
    opened = found["opened"]
    return Run(
        experiment,
        results_of(predictions),
        path,
        predictions,
        classes=tuple(found["classes"]),
        features=tuple(found["features"]),
        kind=found["kind"],
        opened=None if opened is None else in_order(opened, found["classes"], found["features"]),
        provenance=found["provenance"],
    )


def is_run(folder: Path) -> bool:
    """Whether `simulate` has written there, finished or not."""
    return (folder / "events.jsonl").is_file() and (folder / "config.toml").is_file()


def _index(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        what = "is a file" if path.exists() else "is not there"
        raise ConfigError(f"{path} {what}: expected the folder of a run, as 'peerwise simulate' prints it.")
    if not is_run(path):
        raise ConfigError(f"{path} is no run: expected a folder that 'peerwise simulate' wrote, with its config.toml.")
    store = RunFolder(path).store
    if not store.has(INDEX):
        raise ConfigError(f"{path} holds a run that is not finished: expected its {INDEX}.json. {AGAIN}")
    try:
        found = store.load(INDEX)
    except (ParcelError, OSError) as error:
        raise BrokenFile(f"{path}/{INDEX}.json is damaged ({error}): expected what simulate wrote. {AGAIN}") from error
    if found.get("format") != FORMAT:
        raise ConfigError(f"{path} was written by another Peerwise (format {found.get('format')!r}): {AGAIN}")
    return found


def _experiment(settings: dict[str, Any], path: Path) -> Experiment:
    """As it was run, though its data may be gone from where they were."""
    name = settings["dataset"]
    try:
        experiment = experiment_from({**settings, "dataset": ""})
    except ConfigError as error:
        raise ConfigError(f"{path} holds a run that is not understood here: {error}") from error
    object.__setattr__(experiment, "dataset", name)  # a name or path was checked when it was read
    return experiment


def _check_unchanged(path: Path, experiment: Experiment, provenance: Mapping[str, Any]) -> None:
    try:
        begun = tomllib.loads((path / "config.toml").read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BrokenFile(f"{path}/config.toml is damaged ({error}): expected TOML. {AGAIN}") from error
    if begun != tomllib.loads(experiment.to_toml()):
        raise ConfigError(f"{path} was begun again with other methods or seeds and is not finished. {AGAIN}")
    for name in CHECKED:
        found = (path / name).read_bytes() if (path / name).is_file() else None
        if found is None or sha256(found) != provenance["sha256"][name]:
            what = "is not there" if found is None else "was changed"
            raise BrokenFile(f"{path}/{name} {what}: expected it as the run wrote it. {AGAIN}")


def _predictions(folder: RunFolder, run: str) -> dict[str, dict[str, Any]]:
    file = folder.predictions_file(run)
    try:
        found = folder.load_predictions(run)
    except (ParcelError, OSError) as error:
        raise BrokenFile(
            f"{file} is damaged ({error}): expected what simulate wrote. Remove that file. {AGAIN}"
        ) from error
    if found is None:
        raise BrokenFile(f"{file} is not there: expected it as the run wrote it. {AGAIN}")
    return found
