"""Small pools and settings that the tests of this room share."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from peerwise import (
    BestSingle,
    DecisionMLP,
    FedDES,
    NeighbourhoodAccuracy,
    OwnOnly,
    PeerwiseClassifier,
    PriorAdapted,
    UniformAverage,
)

TINY = {"hidden": 8, "epochs": 4, "fixed_epochs": 4, "batch_size": 64, "random_state": 0}
TINY_GRAPH = {**TINY, "heads": 2}

LEARNERS = {
    "peerwise": PeerwiseClassifier(own=[0]),
    "peerwise_balanced": PeerwiseClassifier(own=[0], features="decision", metric="balanced_accuracy"),
    "feddes": FedDES(own=[0], **TINY_GRAPH),
    "feddes_input": FedDES(own=[0], features="both", membership="soft", min_positives=1, vote="soft", **TINY_GRAPH),
    "feddes_logit": FedDES(own=[0], weights="logit", **TINY_GRAPH),
    "mlp": DecisionMLP(own=[0], **TINY),
    "neighbourhood": NeighbourhoodAccuracy(own=[0]),
    "own": OwnOnly(own=[0]),
    "best": BestSingle(own=[0]),
    "uniform": UniformAverage(own=[0]),
    "prior_adapted": PriorAdapted(own=[0]),
}


def outputs(seed: int, rows: int, models: int = 4, classes: int = 3, skill: float = 2.0):
    """Logits of models that know some classes better than others, labels, and inputs."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    logits = rng.normal(0, 1, (rows, models, classes))
    knows = np.random.default_rng(99).random((models, classes)) * skill
    logits[np.arange(rows), :, y] += knows[:, y].T
    return logits.astype(np.float32), y, rng.normal(size=(rows, 5)).astype(np.float32)


def probabilities(logits):
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


def iris():
    X, codes = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    names = np.array(["setosa", "versicolor", "virginica"])
    return X[order].astype(np.float32), names[codes[order]]


def iris_models():
    """Three models, each of other rows; the logistic one never saw the third class."""
    X, y = iris()
    two = y != "virginica"
    return {
        "logistic": LogisticRegression(max_iter=500).fit(X[two], y[two]),
        "bayes": GaussianNB().fit(X[:40], y[:40]),
        "forest": RandomForestClassifier(10, max_depth=3, random_state=0).fit(X[40:80], y[40:80]),
    }
