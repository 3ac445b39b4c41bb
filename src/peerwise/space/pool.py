"""A pool: named models over one common label set, asked once for every row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from numbers import Integral
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from peerwise.data import Sequences, digest
from peerwise.errors import ClassMismatch, ModelError, PeerwiseError, PoolError, choices, reason
from peerwise.models import Member, wrap
from peerwise.models.outputs import count_rows
from peerwise.space.ensembles import default_name, is_ensemble, members_of
from peerwise.space.outputs import as_logits

Missing = Literal["zero", "error"]
KEPT = 16  # answers a pool remembers: the train and validation parts of a few folds


class Pool:
    """Models that answer over ``classes`` (default: all classes any of them knows), matched by name.

    A class a model does not know gets probability zero (``missing="zero"``) or is an error (``missing="error"``).
    ``models``: fitted models, wrapped or not, in a list or as a mapping from names; or a fitted ensemble of
    scikit-learn (bagging, a forest, voting, stacking), whose estimators are then the models.
    """

    def __init__(self, models: Any, *, classes: Iterable[Any] | None = None, missing: Missing = "zero") -> None:
        if missing not in ("zero", "error"):
            raise PoolError(f"missing={missing!r}: expected 'zero' or 'error'.")
        if classes is None and isinstance(models, Pool):
            classes = models.classes
        self.members: list[Member] = _members(models)
        self.missing = missing
        names = self.names
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise PoolError(f"two models are called {twice[0]!r}: names must differ. Use wrap(model, name=...).")
        self.classes: NDArray[Any] = _labels(classes if classes is not None else _union(self.members))
        if len(set(self.classes.tolist())) < len(self.classes):
            raise PoolError(f"classes={self.classes.tolist()}: expected every class once.")
        self._columns = [self._match(member) for member in self.members]
        self._kept: dict[str, NDArray[np.float32]] = {}

    @property
    def names(self) -> list[str]:
        return [member.name for member in self.members]

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members)

    def __repr__(self) -> str:
        return f"Pool({self.names}, classes={list(self.classes)})"

    def __sklearn_clone__(self) -> Pool:
        """A pool is already fitted: scikit-learn's ``clone`` keeps it as it is."""
        return self

    def column(self, own: str | int) -> int:
        """The column of a model, by name or number."""
        return column_of(own, self.names)

    def outputs(self, X: Any) -> NDArray[np.float32]:
        """Probabilities ``(n, models, classes)``; non-finite or improper ones are refused with the model's name. No
        rows are answered without asking.

        The last few answers are kept by the content of ``X``, so that a search over settings asks each model once.
        """
        if not count_rows(X):
            return np.zeros((0, len(self), len(self.classes)), np.float32)
        key = _content(X)
        if key is not None and key in self._kept:
            return self._kept[key].copy()
        stacked = self._asked(X)
        if key is not None:
            self._kept[key] = stacked.copy()
            while len(self._kept) > KEPT:
                self._kept.pop(next(iter(self._kept)))
        return stacked

    def _asked(self, X: Any) -> NDArray[np.float32]:
        columns = [self._spread(_answers(member, X), at) for member, at in zip(self, self._columns, strict=True)]
        stacked = np.stack(columns, axis=1)
        as_logits(stacked, "probabilities", names=self.names)
        return stacked

    def _match(self, member: Member) -> NDArray[np.int64]:
        known = {label: place for place, label in enumerate(self.classes.tolist())}
        labels = _labels(member.classes).tolist()
        foreign = [label for label in labels if label not in known]
        if foreign:
            raise ClassMismatch(
                f"model {member.name!r} predicts {foreign[0]!r}, which is not among the classes "
                f"{self.classes.tolist()}. Add it to Pool(..., classes=...) or leave the model out."
            )
        absent = [label for label in known if label not in labels]
        if absent and self.missing == "error":
            raise ClassMismatch(
                f"model {member.name!r} predicts {len(labels)} classes, this site has {len(known)} (missing: "
                f'{", ".join(map(repr, absent))}). Use Pool(..., missing="zero") or leave the model out.'
            )
        return np.array([known[label] for label in labels])

    def _spread(self, probabilities: NDArray[Any], at: NDArray[np.int64]) -> NDArray[np.float32]:
        full = np.zeros((len(probabilities), len(self.classes)), np.float32)
        full[:, at] = probabilities
        return full


def _answers(member: Member, X: Any) -> NDArray[Any]:
    try:
        return member.predict_proba(X)
    except (PeerwiseError, OSError, MemoryError):
        raise
    except Exception as error:
        raise ModelError(
            f"model {member.name!r} cannot answer these rows ({reason(error)}): expected rows as it was fitted on. "
            f"Pass X with the same columns, wrap(model, transform=...) to make them from X, or leave the model out."
        ) from error


def column_of(own: Any, names: list[str]) -> int:
    """The column of an own model among ``names``, by name or number."""
    if isinstance(own, str):
        if own not in names:
            raise PoolError(choices(own, names, "own model"))
        return names.index(own)
    if not isinstance(own, Integral) or not -len(names) <= int(own) < len(names):
        raise PoolError(f"own model {own!r}: expected a column from 0 to {len(names) - 1}, or a name of {names}.")
    return int(own) % len(names)


def _content(X: Any) -> str | None:
    """Stands for the rows of X whatever object holds them; None for what cannot be told apart by its bytes."""
    if isinstance(X, pd.DataFrame):
        try:
            values = pd.util.hash_pandas_object(X, index=False).to_numpy()
        except TypeError:
            return None
        return digest(values) + repr([(str(name), str(kind)) for name, kind in X.dtypes.items()])
    if isinstance(X, Sequences) or (isinstance(X, np.ndarray) and X.dtype != object):
        return digest(X)
    return None


def _members(models: Any) -> list[Member]:
    if isinstance(models, Pool):
        return list(models.members)
    if is_ensemble(models):
        found = members_of(models)
    elif isinstance(models, Mapping):
        found = [wrap(model, name=str(name)) for name, model in models.items()]
    elif isinstance(models, Iterable) and not isinstance(models, str | bytes):
        listed = list(models)
        found = [m if isinstance(m, Member) else wrap(m, name=default_name(m, i)) for i, m in enumerate(listed)]
    else:
        raise PoolError(
            f"a pool is made of a list or a mapping of models, got {type(models).__name__}. If it is a model, put "
            f"it into a list: Pool([model])."
        )
    if not found:
        raise PoolError("the pool is empty: expected at least one fitted model.")
    return found


def _union(members: list[Member]) -> list[Any]:
    labels = {label for member in members for label in _labels(member.classes).tolist()}
    try:
        return sorted(labels)
    except TypeError as error:
        raise ClassMismatch(
            f"the models' classes {sorted(map(repr, labels))} are of different types: name them alike, "
            f"or wrap(model, classes=...) with the common names."
        ) from error


def _labels(classes: Iterable[Any]) -> NDArray[Any]:
    return np.asarray(list(classes))
