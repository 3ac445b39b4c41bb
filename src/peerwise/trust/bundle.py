"""A fitted learner as a tree, and as a folder without pickle: ``bundle.json`` with its blobs, models as ONNX."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from peerwise.errors import ConfigError, ModelError, ParcelError, PoolError, reason
from peerwise.models import Member, export, wrap
from peerwise.models.member import OnnxMember
from peerwise.parcels import Store
from peerwise.space import Pool
from peerwise.space.ensembles import EnsembleRows
from peerwise.trust.prediction_sets import PredictionSets

if TYPE_CHECKING:
    from peerwise.trust.base import TrustLearner

Learner = TypeVar("Learner", bound="TrustLearner")
SAVED = {"learner", "settings", "own", "names", "classes", "kind", "fitted", "models", "calibration"}
SAVED |= {"row_shape", "row_type", "columns"}


def learner_to_tree(learner: TrustLearner) -> dict[str, Any]:
    """All that a fitted learner needs to answer from pool outputs."""
    check_is_fitted(learner, "classes_")
    settings = {k: v for k, v in learner.get_params(deep=False).items() if k not in ("pool", "own")}
    if isinstance(settings.get("random_state"), np.random.RandomState):
        settings["random_state"] = None  # a stream of chance cannot be kept; what it decided is kept below
    # Nor can an estimator, which is code; what came of fitting it is kept below.
    settings = {name: None if isinstance(value, BaseEstimator) else value for name, value in settings.items()}
    return {
        "learner": type(learner).__name__,
        "settings": settings,
        "own": list(learner.own_),
        "names": list(learner.model_names_),
        "classes": learner.classes_.tolist(),
        "kind": learner.kind_,
        "fitted": learner._fitted_tree(),
    }


def learner_from_tree(kind: type[Learner], tree: dict[str, Any], pool: Pool | None = None) -> Learner:
    if tree["learner"] != kind.__name__:
        raise ParcelError(f"this is a saved {tree['learner']}: expected a {kind.__name__}. Load it with its own class.")
    own = tuple(tree["names"][m] if pool else m for m in tree["own"])
    try:
        learner = kind(**{"pool": pool, "own": own, **tree["settings"]})
        learner.check_settings()
    except (ConfigError, TypeError) as error:
        raise ParcelError(f"the saved settings of {kind.__name__} were changed and cannot be used: {error}") from error
    learner._prepare(tree["names"], tree["own"])
    learner.classes_, learner.kind_ = np.asarray(tree["classes"]), tree["kind"]
    try:
        learner._restore_tree(tree["fitted"])
    except (AttributeError, KeyError, TypeError) as error:
        raise ParcelError(
            f"what the saved {kind.__name__} learned was changed or cut short ({reason(error)}). Fit it again."
        ) from error
    return learner


def save_bundle(
    learner: TrustLearner, folder: str | Path, calibration: tuple[Any, ArrayLike] | None, by_class: bool
) -> None:
    """Write everything the learner needs to answer. A model that cannot travel is written by name, with a warning."""
    tree = learner_to_tree(learner)
    sets = None if calibration is None else _sets(learner, *calibration, by_class).to_tree()
    members: Iterable[Member] = learner.pool_ if hasattr(learner, "pool_") else ()
    models = []
    for member in members:
        models.append({"file": _exported(member, learner), "classes": list(member.classes)})
    example = learner._example
    shape, kind = (list(example.shape[1:]), example.dtype.name) if isinstance(example, np.ndarray) else (None, None)
    rows = {"row_shape": shape, "row_type": kind, "columns": learner._columns}  # never the rows themselves
    Store(folder).save("bundle", {**tree, "models": models, **rows, "calibration": sets})


def check_saved(tree: dict[str, Any], folder: str | Path, kind: str = "PeerwiseClassifier") -> dict[str, Any]:
    """The tree of a saved learner, and of nothing else."""
    if not set(tree) >= SAVED:
        raise ParcelError(
            f"{folder} holds no saved learner of this version: expected a folder written by {kind}.save. Save it again."
        )
    return tree


def learner_class(name: str) -> type[TrustLearner]:
    """The learner of this name, which `save` has written."""
    from peerwise.trust.base import TrustLearner

    room = import_module("peerwise.trust")

    found = getattr(room, name, None) if name in room.__all__ else None
    if not isinstance(found, type) or not issubclass(found, TrustLearner):
        raise ParcelError(f"this is a saved {name!r}: expected a learner of peerwise.trust.")
    return found


def columns_of(X: Any) -> list[dict[str, Any]] | None:
    """Names and types of a data frame's columns, with the values of those that hold no numbers; None of others."""
    if not isinstance(X, pd.DataFrame):
        return None
    found = []
    for name, column in X.items():
        is_number = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
        values = None if is_number else sorted({str(value) for value in column.dropna()})
        found.append({"name": str(name), "type": "str" if values is not None else column.dtype.name, "values": values})
    return found


def _sets(learner: TrustLearner, X: Any, y: ArrayLike, by_class: bool) -> PredictionSets:
    from peerwise.trust.base import encode

    codes = encode(np.asarray(y), learner.classes_, "calibration y")
    said = learner.predict_proba(X)
    return PredictionSets.fit(said, codes, learner.answers(said), by_class=by_class)


def load_bundle(kind: type[Learner], folder: str | Path, pool: Any) -> Learner:
    tree = Store(folder).load("bundle")
    check_saved(tree, folder, kind.__name__)
    models, shape = tree["models"], tree["row_shape"]
    given = Pool(pool, classes=tree["classes"]) if pool is not None else _pool(models, tree, kind.__name__)
    if given is not None and given.names != tree["names"]:
        raise PoolError(f"the pool has the models {given.names}: expected {tree['names']}, in this order.")
    learner = learner_from_tree(kind, tree, given)
    if given is not None:
        learner.pool_ = given
    learner._example = None if shape is None else np.zeros((1, *shape), tree["row_type"])
    learner._columns = tree["columns"]
    if learner._columns is not None:
        learner.feature_names_in_ = np.array([column["name"] for column in learner._columns], dtype=object)
    if shape is not None and len(shape) == 1:
        learner.n_features_in_ = shape[0]
    elif learner._columns is not None:
        learner.n_features_in_ = len(learner._columns)
    return learner


def _pool(models: list[dict[str, Any]], tree: dict[str, Any], kind: str) -> Pool | None:
    if not models:
        return None
    named = dict(zip(tree["names"], models, strict=True))
    lost = [name for name, model in named.items() if model["file"] is None]
    if lost:
        raise PoolError(
            f"model {lost[0]!r} was saved by name only because it could not be exported: pass "
            f"{kind}.load(folder, pool=...) with the models {tree['names']}."
        )
    members = [wrap(model["file"], name=name, classes=model["classes"]) for name, model in named.items()]
    return Pool(members, classes=tree["classes"])


def _exported(member: Member, learner: TrustLearner) -> bytes | None:
    try:
        rows, example = member.transform, learner._example
        if rows is not None and not (isinstance(rows, EnsembleRows) and rows.seen is None):
            raise ModelError("its transform is code and is not part of an ONNX file.")
        if isinstance(member, OnnxMember):
            return member.model.data
        if example is None:
            raise ModelError("there is no row to export it with; fit the learner again before saving it.")
        return export(member, example if rows is None else rows.in_order(example))
    except ModelError as error:
        # here, save_bundle, save: the fourth is the line of the caller
        warnings.warn(f"model {member.name!r} is saved by name only: {error}", stacklevel=4)
        return None
