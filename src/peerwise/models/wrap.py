"""Put any fitted classifier behind the one face of a `Member`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from peerwise.errors import BadOutputs, BrokenFile, ClassMismatch, ModelError
from peerwise.models.member import (
    BoosterMember,
    CallableMember,
    EstimatorMember,
    FittedMember,
    Member,
    OnnxMember,
    TorchMember,
)
from peerwise.models.onnx_model import OnnxAnswers, OnnxModel
from peerwise.models.recipe import Fitted


def wrap(
    model: Any,
    *,
    name: str | None = None,
    classes: Sequence[Any] | None = None,
    transform: Callable[[Any], Any] | None = None,
    device: str = "cpu",
) -> Member:
    """A `Member` from a fitted classifier.

    ``model``: a fitted sklearn classifier or pipeline, an xgboost or lightgbm classifier or Booster, a torch module
    that returns logits, an ONNX file (path or bytes), or any function of X that returns probabilities.
    ``classes``: the labels of the model's columns, in order; needed where the model does not know them.
    ``transform``: applied to X first; for a torch module it makes the input tensor (or a tuple of them).

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> member = wrap(LogisticRegression(max_iter=1000).fit(X, y), name="mine")
    >>> member.name, len(member.classes), member.predict_proba(X).shape
    ('mine', 3, (150, 3))
    """
    if isinstance(model, Member):
        return _renamed(model, name, classes)
    if isinstance(model, str | Path | bytes | OnnxAnswers):
        return _wrap_onnx(model, name, classes, transform)
    label = name or _default_name(model)
    if isinstance(model, type):
        raise ModelError(f"{label!r} is a class, not a fitted model: wrap({label}(...).fit(X, y)).")
    from torch import nn

    if isinstance(model, nn.Module):
        return TorchMember(model, label, _needed(classes, label), transform, device)
    if isinstance(model, Fitted):
        return FittedMember(model, label, _needed(classes, label), transform)
    if type(model).__name__ == "Booster" and type(model).__module__.split(".")[0] in ("xgboost", "lightgbm"):
        return BoosterMember(model, label, _needed(classes, label), transform)
    if isinstance(model, BaseEstimator) or hasattr(model, "predict_proba"):
        return _wrap_estimator(model, label, classes, transform)
    if callable(model):
        return CallableMember(model, label, _needed(classes, label), transform)
    raise ModelError(
        f"cannot wrap {label!r} of type {type(model).__name__}: expected a fitted classifier with predict_proba, a "
        "torch module, an ONNX file or a function of X that returns probabilities."
    )


def _renamed(member: Member, name: str | None, classes: Sequence[Any] | None) -> Member:
    if name is None and classes is None:
        return member
    twin = copy.copy(member)
    twin.name = name or member.name
    twin.classes = _needed(member.classes if classes is None else classes, twin.name)
    return twin


def _wrap_estimator(
    model: Any, name: str, classes: Sequence[Any] | None, transform: Callable[[Any], Any] | None
) -> Member:
    try:
        if isinstance(model, BaseEstimator):
            check_is_fitted(model)
    except NotFittedError as error:
        raise ModelError(f"{name!r} is not fitted: call its fit(X, y) first, then wrap it.") from error
    if not hasattr(model, "predict_proba"):
        raise ModelError(
            f"{name!r} has no predict_proba: expected a classifier with probabilities. Wrap it in "
            "sklearn.calibration.CalibratedClassifierCV and fit that."
        )
    own = getattr(model, "classes_", None)
    labels = _needed(classes if classes is not None else own, name)
    if own is not None and len(own) != len(labels):
        raise ClassMismatch(
            f"{name!r} was fitted on {len(own)} classes, classes= names {len(labels)}: give one name a class, in the "
            "order of the model's classes_, or leave classes= out."
        )
    return EstimatorMember(model, name, labels, transform)


def _wrap_onnx(
    source: str | Path | bytes | OnnxAnswers,
    name: str | None,
    classes: Sequence[Any] | None,
    transform: Callable[[Any], Any] | None,
) -> Member:
    if isinstance(source, str | Path):
        path = Path(source)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise BrokenFile(
                f"cannot read {str(source)!r} ({error.strerror}): expected the path of an ONNX file."
            ) from error
        name = name or path.stem
        model: OnnxAnswers = OnnxModel(data, name=name)
    elif isinstance(source, bytes):
        model = OnnxModel(source, name=name or "onnx model")
    else:
        model = source
    label = name or model.name
    labels = _needed(classes if classes is not None else model.classes, label)
    if model.width is not None and model.width != len(labels):
        raise BadOutputs(
            f"{label!r} has {model.width} output columns and {len(labels)} classes: expected one class a column. Pass "
            "classes=[...] in the order of the columns."
        )
    return OnnxMember(model, label, labels, transform)


def _needed(classes: Sequence[Any] | None, name: str) -> tuple[Any, ...]:
    if classes is None:
        raise ModelError(
            f"{name!r} does not say what its output columns mean: pass classes=[...], one label a column in order."
        )
    labels = tuple(getattr(label, "item", lambda label=label: label)() for label in classes)
    if len(set(labels)) != len(labels) or not labels:
        raise ModelError(f"{name!r} has classes {list(labels)}: expected at least one, each once.")
    return labels


def _default_name(model: Any) -> str:
    if isinstance(model, Pipeline):
        model = model.steps[-1][1]
    return str(getattr(model, "__name__", None) or type(model).__name__)
