"""Data sets that need no download: heart disease (in this package) and digits (in scikit-learn)."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd

from peerwise.data.dataset import Dataset
from peerwise.data.loaders.table import named, table_inputs
from peerwise.data.rows import Feature

HOSPITALS = {"cleveland": "cleveland", "hungarian": "hungarian", "switzerland": "switzerland", "long_beach": "va"}
COLUMNS = (
    "age",
    "sex",
    "cp",
    "trestbps",
    "chol",
    "fbs",
    "restecg",
    "thalach",
    "exang",
    "oldpeak",
    "slope",
    "ca",
    "thal",
)
CODES = {
    "sex": {0: "female", 1: "male"},
    "cp": {1: "typical angina", 2: "atypical angina", 3: "non-anginal pain", 4: "asymptomatic"},
    "fbs": {0: "up to 120 mg/dl", 1: "above 120 mg/dl"},
    "restecg": {0: "normal", 1: "ST-T abnormality", 2: "left ventricular hypertrophy"},
    "exang": {0: "no", 1: "yes"},
    "slope": {1: "up", 2: "flat", 3: "down"},
    "thal": {3: "normal", 6: "fixed defect", 7: "reversible defect"},
}


def heart_disease(data_dir: str | Path | None = None) -> Dataset:
    """Heart disease at four hospitals, 920 patients x 13, 2 classes, sites: the hospitals; comes with Peerwise."""
    folder = files("peerwise.data") / "heart_disease"
    tables = []
    for hospital, stem in HOSPITALS.items():
        with (folder / f"processed.{stem}.data").open("r", encoding="ascii") as file:
            table = pd.read_csv(file, header=None, names=[*COLUMNS, "num"], na_values="?", dtype=float)
        tables.append(table.assign(hospital=hospital))
    frame = pd.concat(tables, ignore_index=True)
    for column in ("chol", "trestbps"):  # nobody has none: a zero was written where it was not measured
        frame[column] = frame[column].where(frame[column] != 0)
    X, features = table_inputs(named(frame[list(COLUMNS)], CODES))
    return Dataset(
        name="heart_disease",
        kind="table",
        X=X,
        y=(frame["num"].to_numpy() > 0).astype(np.int64),
        classes=("healthy", "disease"),
        features=features,
        site=frame["hospital"].to_numpy(dtype=str),
        columns={"severity": frame["num"].to_numpy(dtype=np.int64)},
        source="https://archive.ics.uci.edu/dataset/45/heart+disease",
        licence="CC BY 4.0; Janosi, Steinbrunn, Pfisterer, Detrano",
    )


def digits(data_dir: str | Path | None = None) -> Dataset:
    """Handwritten digits as 8 x 8 grey values, 1,797 rows x 64, 10 classes; comes with scikit-learn."""
    from sklearn.datasets import load_digits

    content = load_digits()
    return Dataset(
        name="digits",
        kind="table",
        X=np.asarray(content.data, dtype=np.float32),
        y=np.asarray(content.target, dtype=np.int64),
        classes=tuple("0123456789"),
        features=tuple(Feature(f"pixel_{row}_{column}") for row in range(8) for column in range(8)),
        source="https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits",
        licence="CC BY 4.0; Alpaydin, Kaynak",
    )
