"""A federation of many small peers on real images: who has which rows, what their cards say, what models answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from peerwise import load
from peerwise.parcels.egress import rows_bucket

CLASSES_OF_A_SITE = (2, 6)  # of ten, least and most
TYPICAL_ROWS, SPREAD, FEWEST, MOST = 35, 0.8, 10, 300  # of a peer: log-normal
TRAIN, VALIDATION, TEST = 60, 40, 150  # rows of an asking site
PUBLIC, PROBES, COMPONENTS = 2000, 200, 40
USELESS, FLIPPED = 0.1, 0.1  # shares of the peers
HELD_OUT = 0.25  # of a peer's rows, from which it has the accuracy on its card
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Cards:
    """What is known of every peer before anything is fetched. ``counts`` (peers, classes) are rows by label, of which
    today's card tells which are above zero and their rough sum; ``claimed`` is the accuracy that a peer found itself;
    ``answers`` (peers, probes) are its model's to public rows. No card of today has the last two."""

    counts: Array
    claimed: Array
    answers: Array

    def today(self) -> list[dict[str, Any]]:
        """What of it a parcel's card has."""
        told = [", ".join(map(str, np.flatnonzero(counts))) for counts in self.counts]
        models = [{"m": {"training": {"classes_trained_on": text}}} for text in told]
        rows = [rows_bucket(int(counts.sum())) for counts in self.counts]
        return [{"rows": bucket, "models": model} for bucket, model in zip(rows, models, strict=True)]


@dataclass(frozen=True)
class Asking:
    """A site with rows of its own: inputs, labels and all outputs (rows, 1 + peers, classes), the own model's first
    (out of fold on its training rows); and that model's answers to the probes."""

    X: Array
    y: Array
    outputs: Array
    probes: Array

    def rows(self, part: str) -> slice:
        """ "train", "validation" or "test"; "learn" are the first two."""
        known = TRAIN + VALIDATION
        ends = {"train": (0, TRAIN), "validation": (TRAIN, known), "learn": (0, known), "test": (known, None)}
        return slice(*ends[part])


def share_out(y: Array, sizes: Array, rng: np.random.Generator) -> list[Array]:
    """Row numbers for every size: a few classes each, in shares drawn evenly (Dirichlet 1); no row twice. Where a class
    has run out, the site gets fewer rows."""
    classes = int(y.max()) + 1
    left = [list(rng.permutation(np.flatnonzero(y == label))) for label in range(classes)]
    parts = []
    for size in sizes:
        known = rng.choice(classes, rng.integers(CLASSES_OF_A_SITE[0], CLASSES_OF_A_SITE[1] + 1), replace=False)
        wanted = rng.multinomial(size, rng.dirichlet(np.ones(len(known))))
        rows = [
            left[label].pop() for label, count in zip(known, wanted, strict=True) for _ in range(count) if left[label]
        ]
        parts.append(rng.permutation(np.array(rows, dtype=np.int64)))
    return parts


def federation(peers: int, asking: int, seed: int, name: str = "fashion_mnist") -> tuple[Cards, list[Asking]]:
    """Asking sites draw their rows first, so that the number of peers does not change them."""
    rng = np.random.default_rng([seed, 7])
    data = load(name)
    order = rng.permutation(len(data.y))
    pixels, y = data.X.reshape(len(data.y), -1)[order] / 255.0, data.y[order]
    public = min(PUBLIC, len(y) // 8)
    shown = PCA(COMPONENTS, random_state=0).fit(pixels[:public])
    X = StandardScaler().fit(shown.transform(pixels[:public])).transform(shown.transform(pixels)).astype(np.float32)
    probes, X, y = X[: min(PROBES, public)], X[public:], y[public:]
    sizes = np.clip(rng.lognormal(np.log(TYPICAL_ROWS), SPREAD, peers).astype(int), FEWEST, MOST)
    parts = share_out(y, np.concatenate([np.full(asking, TRAIN + VALIDATION + TEST), sizes]), rng)
    classes = len(data.classes)
    models = [trained(X[rows], y[rows], number, rng) for number, rows in enumerate(parts[asking:])]
    counts = np.array([np.bincount(y[rows], minlength=classes) for rows in parts[asking:]])
    answers = np.array([model.predict(probes) for model, _ in models])
    cards = Cards(counts, np.array([claim for _, claim in models]), answers)
    all_models = [model for model, _ in models]
    return cards, [asked(X[rows], y[rows], probes, all_models, classes) for rows in parts[:asking]]


def trained(X: Array, y: Array, number: int, rng: np.random.Generator) -> tuple[Any, float]:
    """A peer's model, of one of four kinds in turn, and the accuracy it had on the rows held out. What the labels mean
    is shifted at some peers, and at some they mean nothing; neither knows."""
    fate = rng.random()
    if fate < USELESS:
        y = rng.permutation(y)
    elif fate < USELESS + FLIPPED:
        known = np.unique(y)
        y = np.roll(known, 1)[np.searchsorted(known, y)]
    held = max(1, int(HELD_OUT * len(y)))
    kinds = [LogisticRegression(), GaussianNB(), RandomForestClassifier(10, min_samples_leaf=2, random_state=0)]
    model: Any = [*kinds, DecisionTreeClassifier(max_depth=6, random_state=0)][number % 4]
    if len(np.unique(y[held:])) == 1:
        model = DecisionTreeClassifier()
    model.fit(X[held:], y[held:])
    return model, float((model.predict(X[:held]) == y[:held]).mean())


def asked(X: Array, y: Array, probes: Array, models: list[Any], classes: int) -> Asking:
    own = logistic(X[:TRAIN], y[:TRAIN])
    mine = said(own, X, classes)
    for rest, held in KFold(5).split(X[:TRAIN]):
        mine[held] = said(logistic(X[rest], y[rest]), X[held], classes)
    return Asking(X, y, np.stack([mine, *(said(model, X, classes) for model in models)], axis=1), own.predict(probes))


def logistic(X: Array, y: Array) -> Any:
    return (LogisticRegression() if len(np.unique(y)) > 1 else DecisionTreeClassifier()).fit(X, y)


def said(model: Any, X: Array, classes: int) -> Array:
    """Probabilities over all classes; none for those the model does not know."""
    found = np.zeros((len(X), classes), np.float32)
    found[:, model.classes_] = model.predict_proba(X)
    return found
