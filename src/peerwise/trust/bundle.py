"""A fitted learner as a tree, and as a folder without pickle: ``bundle.json`` with its blobs, models as ONNX."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from peerwise.errors import ConfigError, ModelError, ParcelError, PoolError, reason
from peerwise.models import Member, export, wrap
from peerwise.models.member import OnnxMember
from peerwise.parcels import Store
from peerwise.space import Pool
from peerwise.space.ensembles import EnsembleRows

if TYPE_CHECKING:
    from peerwise.trust.base import TrustLearner

Learner = TypeVar("Learner", bound="TrustLearner")


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


def save_bundle(learner: TrustLearner, folder: str | Path) -> None:
    """Write everything the learner needs to answer. A model that cannot travel is written by name, with a warning."""
    tree = learner_to_tree(learner)
    members: Iterable[Member] = learner.pool_ if hasattr(learner, "pool_") else ()
    models = []
    for member in members:
        models.append({"file": _exported(member, learner), "classes": list(member.classes)})
    example = learner._example
    shape = list(example.shape[1:]) if isinstance(example, np.ndarray) else None  # never the rows themselves
    Store(folder).save("bundle", {**tree, "models": models, "row_shape": shape})


def load_bundle(kind: type[Learner], folder: str | Path, pool: Any) -> Learner:
    tree = Store(folder).load("bundle")
    if not {"learner", "settings", "own", "names", "classes", "kind", "fitted", "models", "row_shape"} <= set(tree):
        raise ParcelError(f"{folder} holds no saved learner: expected a folder written by {kind.__name__}.save.")
    models, shape = tree.pop("models"), tree.pop("row_shape")
    given = Pool(pool, classes=tree["classes"]) if pool is not None else _pool(models, tree, kind.__name__)
    if given is not None and given.names != tree["names"]:
        raise PoolError(f"the pool has the models {given.names}: expected {tree['names']}, in this order.")
    learner = learner_from_tree(kind, tree, given)
    if given is not None:
        learner.pool_ = given
    learner._example = None if shape is None else np.zeros((1, *shape), np.float32)
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
