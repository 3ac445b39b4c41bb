"""The desk of a folder that a learner's ``save`` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from peerwise.data.rows import Kind
from peerwise.data.task import TaskFeature
from peerwise.errors import BadOutputs, ConfigError, ParcelError, PeerwiseError, reason
from peerwise.models.worker import Worker
from peerwise.parcels import Store, sha256
from peerwise.parcels.tree import unpack
from peerwise.serve.desk import About, Desk, Served, ServedModel
from peerwise.serve.panel import Panel
from peerwise.serve.peer_lines import plain_lines
from peerwise.serve.pool_desk import PoolDesk
from peerwise.serve.saved_checks import check_tree
from peerwise.serve.site_bundle import limits_for
from peerwise.trust.bundle import check_saved, learner_class, learner_from_tree
from peerwise.trust.prediction_sets import PredictionSets

OWN = "own"  # the home of own models, which have no site


def open_saved(folder: Path) -> Desk:
    manifest, blobs = Store(folder).load_packed("bundle")
    tree = check_saved(unpack(manifest, blobs), folder)
    check_tree(tree, folder)
    try:
        made = _opened(folder, tree, sha256(manifest)[:12])
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, PeerwiseError):
            raise
        raise _changed(folder, error) from error
    try:  # what does not fit together shows now, and not to who asks
        said = made.answer(_blank(made.about)).probabilities
    except Exception as error:
        made.close()
        raise _changed(folder, error) from error
    if not np.isfinite(said).all():
        made.close()
        raise _changed(folder, ValueError("its answers are no numbers"))
    return made


def _changed(folder: Path, error: Exception) -> ParcelError:
    return ParcelError(f"{folder} cannot answer: what is saved in it does not fit ({reason(error)}). Save it again.")


def _blank(about: About) -> np.ndarray[Any, Any]:
    return np.zeros((1, *about.inputs["x"]), np.uint8 if about.kind == "image" else np.float32)


def _opened(folder: Path, tree: dict[str, Any], digest: str) -> Desk:
    learner = learner_from_tree(learner_class(tree["learner"]), tree)
    kept, count = tree["calibration"], len(tree["classes"])
    sets = PredictionSets.uncalibrated(count) if kept is None else PredictionSets.from_tree(kept, count)
    about = _about(folder, tree, digest, sets, learner.model_sites_)
    files = {name: model["file"] for name, model in zip(tree["names"], tree["models"], strict=True)}
    worker = Worker(limits_for(files))
    try:
        classes = {label: place for place, label in enumerate(tree["classes"])}
        places = [np.array([classes[label] for label in model["classes"]]) for model in tree["models"]]
        own = [model.name for model in about.models if model.own]
        panel = Panel(files, own, places, len(classes), worker, logits=False)
    except BaseException:
        worker.close()
        raise
    desk = PoolDesk if tree["columns"] is None else _FrameDesk
    made = desk(about, learner, panel, worker, plain_lines(about), sets=sets)
    if isinstance(made, _FrameDesk):
        made.columns = tree["columns"]
    return made


class _FrameDesk(PoolDesk):
    """Of a learner that was fitted to data frames: rows become one again, with its names and types."""

    columns: list[dict[str, Any]]

    def answer(self, X: Any, *, frugal: bool = False) -> Served:
        return super().answer(self._frame(X))

    def explain(self, X: Any) -> dict[str, Any] | None:
        return super().explain(self._frame(X))

    def _frame(self, X: Any) -> pd.DataFrame:
        made = {}
        for column, values in zip(self.columns, np.asarray(X).T, strict=True):
            if column["values"] is None:
                made[column["name"]] = pd.Series(_fitting(column, values)).astype(column["type"])
            else:
                known = [*column["values"], None]
                codes = np.where(np.isnan(values), len(known) - 1, values).astype(int)
                made[column["name"]] = pd.Series([known[code] for code in codes], dtype=column["type"])
        return pd.DataFrame(made)


def _fitting(column: dict[str, Any], values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Columns of whole numbers know neither gaps nor fractions: a 50.7 would be answered as if it were a 50."""
    kind = pd.api.types.pandas_dtype(column["type"])
    if isinstance(kind, np.dtype) and kind.kind in "iu":
        most = np.iinfo(kind.name)
        odd = ~((values == np.round(values)) & (values >= float(most.min)) & (values < float(most.max)))
        if odd.any():
            found = values[odd][0]
            shown = "a gap" if np.isnan(found) else f"{found:g}"
            raise BadOutputs(
                f"{column['name']} has {shown}: expected a whole number in every row, as it was fitted to."
            )
    return values


def _about(folder: Path, tree: dict[str, Any], digest: str, sets: PredictionSets, homes: list[str]) -> About:
    shape, columns = tree["row_shape"], tree["columns"]
    kind = _kind(folder, tree)
    lost = [name for name, model in zip(tree["names"], tree["models"], strict=True) if model["file"] is None]
    if lost or not tree["models"]:
        which = (
            f"model {lost[0]!r} could not be exported" if lost else "the learner was fitted on outputs, without models"
        )
        raise ConfigError(f"{folder} cannot be served: {which}. Expected a pool whose models are all in the folder.")
    texts = [column["name"] for column in columns or () if column["values"] is not None]
    if texts and len(tree["own"]) < len(tree["models"]):
        raise ConfigError(
            f"{folder} cannot be served: column {texts[0]!r} holds text, and models that are not own ones run in a "
            f"process that takes numbers only. Fit the pool on numbers, such as codes of the categories."
        )
    models = [
        ServedModel(name, home, place in tree["own"], "", sha256(model["file"]))
        for place, (name, home, model) in enumerate(zip(tree["names"], homes, tree["models"], strict=True))
    ]
    classes = tuple(str(name) for name in tree["classes"])
    return About(
        digest=digest,
        site=next((model.site for model in models if model.own), OWN),
        method=tree["learner"],
        task=folder.resolve().name,
        kind=kind,
        classes=classes,
        positive=classes[1] if len(classes) == 2 else None,
        target="class",
        inputs={"x": tuple(shape) if columns is None else (len(columns),)},
        features=_features(folder, tree) if kind == "table" else (),
        models=tuple(models),
        made=int((folder / "bundle.json").stat().st_mtime),
        calibration_rows=sets.rows,
        frugal=False,
        sets=sets.kind,
    )


def _kind(folder: Path, tree: dict[str, Any]) -> Kind:
    shape, dtype = tree["row_shape"], tree["row_type"]
    if tree["columns"] is not None or (shape is not None and len(shape) == 1):
        return "table"
    if shape is not None and len(shape) == 3 and dtype == "uint8":
        return "image"
    raise ConfigError(
        f"{folder} was fitted on rows of shape {shape} and type {dtype}: expected a table, or images of uint8 "
        f"(channels, height, width), which can be uploaded. Fit it on such rows, or serve a site's folder."
    )


def _features(folder: Path, tree: dict[str, Any]) -> tuple[TaskFeature, ...]:
    if tree["columns"] is None:
        return tuple(TaskFeature(f"x{place}") for place in range(tree["row_shape"][0]))
    try:
        return tuple(
            TaskFeature(
                column["name"], "number" if column["values"] is None else "category", values=column["values"] or ()
            )
            for column in tree["columns"]
        )
    except PeerwiseError as error:
        raise ConfigError(f"{folder} was fitted on columns that cannot be asked for by name: {error}") from error
