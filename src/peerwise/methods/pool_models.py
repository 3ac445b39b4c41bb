"""The models of a pool at one site: those of peers that can be used there, and what all of them answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Inputs, Site, digest
from peerwise.errors import STOPS_A_RUN, ClassMismatch, ParcelError, WorkerError, reason
from peerwise.federation.cleaning import full_name
from peerwise.federation.method import Inbox
from peerwise.models import OnnxModel
from peerwise.models.onnx_model import OnnxAnswers
from peerwise.models.outputs import checked
from peerwise.parcels import Parcel, sha256
from peerwise.parcels.later import joined, picked, renamed

Array = NDArray[np.float32]
Ask = Callable[[Any], Array]


@dataclass(frozen=True)
class PoolLogits:
    """``logits`` (n, models, classes), NaN on the rows that a model has no answer to; which models these are and why
    they ``failed``; and the seconds it took."""

    logits: Array
    failed: dict[str, str]
    seconds: float


@contextmanager
def at_its_cost(name: str, left_out: dict[str, str]) -> Iterator[None]:
    """Whatever may be wrong with what a peer has sent is noted under this name, and is no loss but of that peer."""
    try:
        yield
    except Exception as error:
        left_out[name] = reason(error)


def received_models(inbox: Inbox, site: Site) -> tuple[Mapping[str, bytes], dict[str, str]]:
    """The peers' models as ``model@site``; and those that this site cannot use, with the reason, ``*@site`` being all
    that a site has sent."""
    files: Mapping[str, bytes] = {}
    left_out: dict[str, str] = {}
    for sender in sorted(set(inbox) - {site.name}):
        with at_its_cost(full_name("*", sender), left_out):
            models = _models_in(inbox[sender], sender, site)
            files = joined(files, renamed(models, {full_name(model, sender): model for model in models}))
    return files, left_out


def in_order(files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """By site, then by model, so that columns are the same at every site."""
    return picked(files, sorted(files, key=lambda name: name.partition("@")[::-1]))


def pool_logits(site: Site, files: Mapping[str, bytes], X: Inputs, may_fail: Collection[str] = ()) -> PoolLogits:
    """What every model says of these rows, asked once and kept.

    One of ``may_fail`` that fails on all rows together is asked about each of them alone, so that a row's answer does
    not depend on the rows beside it; but not one that hangs, or dies of them. The failure of any other is raised.
    """
    classes = len(site.classes)

    def work() -> dict[str, Any]:
        started = time.perf_counter()
        logits = np.empty((len(X), len(files), classes), np.float32)
        failed: dict[str, str] = {}
        died = False
        for place, (name, data) in enumerate(files.items()):
            if name in may_fail:
                logits[:, place], error = _said_at_best(site, data, name, X, classes)
                if error is not None:
                    failed[str(place)] = reason(error)
                    died = died or isinstance(error, WorkerError)
            else:
                logits[:, place] = _said(_runtime(data, name), X, classes)
        tree = {"logits": logits, "failed": failed, "seconds": time.perf_counter() - started}
        if died:
            raise _NotKept(tree)
        return tree

    names = list(files)
    key = {"what": "outputs", "models": [sha256(data) for data in files.values()], "rows": digest(X)}
    try:
        tree = site.keep({**key, "may_fail": [name in may_fail for name in names]}, work)
    except _NotKept as found:
        tree = found.tree
    failed = {names[int(place)]: why for place, why in tree["failed"].items()}
    return PoolLogits(tree["logits"], failed, float(tree["seconds"]))


def _models_in(parcel: Parcel, sender: str, site: Site) -> Mapping[str, bytes]:
    if not {"models", "classes"} <= set(parcel) or not isinstance(parcel["models"], Mapping):
        raise ParcelError(f"site {sender!r} sent {sorted(parcel)}: expected models by name, and classes.")
    if tuple(parcel["classes"]) != tuple(site.classes):
        raise ClassMismatch(
            f"site {sender!r} answers over {parcel['classes']}, this site over {list(site.classes)}: expected the "
            f"same classes in the same order."
        )
    models: Mapping[str, bytes] = parcel["models"]
    for model, data in models.items():
        # Without '@', so that no two sites' models can have one name.
        if "@" in model or not isinstance(data, bytes):
            raise ParcelError(
                f"site {sender!r} sent {type(data).__name__} called {model!r}: expected an ONNX file as bytes, and a "
                f"name without '@'."
            )
    return models


class _NotKept(Exception):
    """What was found on a machine that may have been too busy, or too small: it is asked again another time."""

    def __init__(self, tree: dict[str, Any]) -> None:
        super().__init__()
        self.tree = tree


def peers_model(site: Site, data: bytes, name: str) -> OnnxAnswers:
    """A model from elsewhere: where the site has an opener, that one opens it, and this process never does."""
    if site.opener is None:
        return _runtime(data, name)
    model: OnnxAnswers = site.opener(data, name)
    return model


@lru_cache(maxsize=64)
def _runtime(data: bytes, name: str) -> OnnxModel:
    # Starting a session costs more than asking it about a site's few rows, and every site asks the same models.
    return OnnxModel(data, name=name)


def _said(model: OnnxAnswers, X: Inputs, classes: int) -> Array:
    if not len(X):
        return np.zeros((0, classes), np.float32)
    with np.errstate(over="ignore"):  # what float32 cannot hold is refused as infinite
        said = model.predict_logits(X).astype(np.float32)
    return checked(said, len(X), classes, model.name).astype(np.float32)


def _said_at_best(site: Site, data: bytes, name: str, X: Inputs, classes: int) -> tuple[Array, Exception | None]:
    """NaN on the rows that the model has no answer to, and why it has none."""
    try:
        model = peers_model(site, data, name)
        return said_by_row(lambda rows: _said(model, rows, classes), X, classes)
    except STOPS_A_RUN:
        raise
    except Exception as error:
        return no_answer(len(X), classes), error


def said_by_row(ask: Ask, X: Any, classes: int) -> tuple[Array, Exception | None]:
    """What is said of these rows; where asking about all together fails, of each of them alone, NaN where that fails
    too, and why. A worker that hangs, or dies, is not asked about each."""
    try:
        return ask(X), None
    except (*STOPS_A_RUN, WorkerError):
        raise
    except Exception as error:  # one row may have spoiled it for all, so each is asked again
        rows = X.iloc if hasattr(X, "iloc") else X
        found = np.concatenate([_said_alone(ask, rows[row : row + 1], classes) for row in range(len(X))])
        return found, error if np.isnan(found).any() else None


def _said_alone(ask: Ask, row: Any, classes: int) -> Array:
    try:
        return ask(row)
    except (*STOPS_A_RUN, WorkerError):
        raise
    except Exception:  # what is wrong was said of all rows together
        return no_answer(1, classes)


def no_answer(rows: int, classes: int) -> Array:
    return np.full((rows, classes), np.nan, np.float32)
