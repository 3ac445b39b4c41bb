"""Real rows for the tests of this room."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from peerwise.data.rows import Feature, Rows, Sequences

DATA = os.environ.get("PEERWISE_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="set PEERWISE_DATA to the folder of the data sets")

HEART = ["age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak", "slope", "ca", "thal"]
CATEGORIES = {"sex": 2, "cp": 5, "fbs": 2, "restecg": 3, "exang": 2, "slope": 4, "thal": 8}


def cancer_with_gaps() -> tuple[Rows, tuple[Feature, ...]]:
    """Breast cancer with missing values, an all-missing column and a category."""
    X, y = load_breast_cancer(return_X_y=True)
    X = X.astype(np.float32)
    X[:, 2] = np.digitize(X[:, 2], np.quantile(X[:, 2], [0.3, 0.6]))
    X[::7, 3] = X[::9, 2] = X[:, 5] = np.nan
    features = tuple(Feature(f"f{i}", ("low", "mid", "high") if i == 2 else ()) for i in range(X.shape[1]))
    return Rows(X, y.astype(np.int64)), features


def wine() -> Rows:
    X, y = load_wine(return_X_y=True)
    return Rows(X.astype(np.float32), y.astype(np.int64))


def heart(hospital: str = "cleveland") -> tuple[Rows, tuple[Feature, ...]]:
    text = (Path(str(DATA)) / "heart_disease" / f"processed.{hospital}.data").read_text()
    table = np.array([[np.nan if v == "?" else float(v) for v in line.split(",")] for line in text.split()])
    features = tuple(Feature(name, tuple(str(i) for i in range(CATEGORIES.get(name, 0)))) for name in HEART)
    return Rows(table[:, :13].astype(np.float32), (table[:, 13] > 0).astype(np.int64)), features


def fashion(rows: int) -> Rows:
    folder = Path(str(DATA)) / "fashion-mnist"
    with gzip.open(folder / "train-images-idx3-ubyte.gz") as file:
        X = np.frombuffer(file.read(16 + rows * 784), np.uint8, offset=16).reshape(rows, 1, 28, 28)
    with gzip.open(folder / "train-labels-idx1-ubyte.gz") as file:
        y = np.frombuffer(file.read(8 + rows), np.uint8, offset=8).astype(np.int64)
    return Rows(X, y)


def digit_images(size: int = 28, channels: int = 1) -> Rows:
    """Handwritten digits of 8 px, enlarged without interpolation and padded."""
    X, y = load_digits(return_X_y=True)
    small = (X.reshape(-1, 1, 8, 8) * 15.9).astype(np.uint8)
    big = np.repeat(np.repeat(small, size // 8, axis=2), size // 8, axis=3)
    edge = size - big.shape[2]
    padded = np.pad(big, ((0, 0), (0, 0), (edge // 2, edge - edge // 2), (edge // 2, edge - edge // 2)))
    return Rows(np.repeat(padded, channels, axis=1), y.astype(np.int64))


def digit_sequences() -> Rows:
    """Handwritten digits read line by line: 8 steps of 8 pixels, the corner means as static inputs; some missing."""
    X, y = load_digits(return_X_y=True)
    series = X.reshape(-1, 8, 8).astype(np.float32)
    static = series.reshape(-1, 2, 4, 8).mean(axis=(2, 3)).astype(np.float32)
    series[::5, 3, 2] = static[::6, 1] = np.nan
    return Rows(Sequences(static, series), y.astype(np.int64))
