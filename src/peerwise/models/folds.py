"""Out-of-fold predictions: what a site's own model says of rows it has not seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    train_test_split,
)

from peerwise.data.rows import Feature, Indices, Rows
from peerwise.models.recipe import Recipe

INNER_VALIDATION = 0.2


@dataclass(frozen=True)
class OutOfFold:
    """Logits ``(n, C)``, each row from a model that never saw it, and the best epoch of every fold's training."""

    logits: NDArray[np.float32]
    best_epochs: list[int]

    @property
    def max_epochs(self) -> int | None:
        """How long a final training without validation rows should run: the integer mean of the folds, at least 1."""
        return max(1, int(np.mean(self.best_epochs))) if self.best_epochs else None


def out_of_fold(
    recipe: Recipe,
    rows: Rows,
    *,
    classes: int,
    features: tuple[Feature, ...] = (),
    folds: int = 5,
    seed: int,
    device: str = "cpu",
    max_epochs: int | None = None,
    epochs: int | None = None,
) -> OutOfFold:
    """Train on all folds but one, predict that one, for every fold.

    Folds are stratified unless some class has fewer rows than folds. The held-out fold never stops a training: a
    fifth of the fitting rows does. A single row has nothing to be learned from: its logits are zero.

    ``epochs``: after how many epochs other rows (the site's validation rows) stopped a training on all these rows.
    Each fold then learns from all its fitting rows for as many steps, and nothing has to stop it. Only this number
    is taken over: weights that have seen a held-out row never are.
    """
    logits = np.zeros((len(rows), classes), dtype=np.float32)
    best_epochs: list[int] = []
    for number, (fitting, held_out) in enumerate(fold_rows(rows.y, folds, seed, rows.group)):
        fold_seed = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
        val: Rows | None = None
        train, longest = rows.take(fitting), max_epochs
        if recipe.by_epochs and epochs is not None:
            as_many_steps = max(1, round(epochs * len(rows) / len(train)))
            longest = min(as_many_steps, max_epochs or as_many_steps)
        elif recipe.by_epochs:
            kept, inner = inner_validation(train.y, fold_seed, train.group)
            train, val = train.take(kept), train.take(inner) if len(inner) else None
        fitted = recipe.fit(
            train, val, classes=classes, features=features, seed=fold_seed, device=device, max_epochs=longest
        )
        logits[held_out] = fitted.predict_logits(rows.X[held_out])
        if fitted.best_epoch is not None:
            best_epochs.append(fitted.best_epoch)
    return OutOfFold(logits, best_epochs)


def fold_rows(
    y: NDArray[Any], folds: int, seed: int, group: NDArray[Any] | None = None
) -> list[tuple[Indices, Indices]]:
    """(fitting rows, held-out rows) of each fold; none when there is only one row, or one group."""
    folds = min(folds, len(y) if group is None else len(np.unique(group)))
    if folds < 2:
        return []
    stratify = np.unique(y, return_counts=True)[1].min() >= folds
    if group is None:
        splitter = (StratifiedKFold if stratify else KFold)(folds, shuffle=True, random_state=seed)
        return list(splitter.split(np.zeros(len(y)), y))
    splitter = (StratifiedGroupKFold if stratify else GroupKFold)(folds, shuffle=True, random_state=seed)
    found = splitter.split(np.zeros(len(y)), y, group)
    return [(rest, held_out) for rest, held_out in found if len(rest) and len(held_out)]


def inner_validation(y: NDArray[np.int64], seed: int, group: NDArray[Any] | None = None) -> tuple[Indices, Indices]:
    """(rows to train on, rows that stop the training): a fifth of them, stratified where possible, whole groups."""
    everything = np.arange(len(y))
    if len(y) < 2 or (group is not None and len(np.unique(group)) < 2):
        return everything, everything[:0]
    if group is not None:
        split = GroupShuffleSplit(1, test_size=INNER_VALIDATION, random_state=seed)
        found: tuple[Indices, Indices] = next(split.split(y, groups=group))
        return found
    size = max(1, round(INNER_VALIDATION * len(y)))
    counts = np.unique(y, return_counts=True)[1]
    possible = counts.min() >= 2 and min(size, len(y) - size) >= len(counts)
    kept, inner = train_test_split(everything, test_size=size, random_state=seed, stratify=y if possible else None)
    return np.sort(kept), np.sort(inner)
