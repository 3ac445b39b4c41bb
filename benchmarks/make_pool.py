"""Train a federation's models and write what every one of them says of every site's rows: a pool file.

python benchmarks/make_pool.py heart 0 pools/heart_s0.npz [--data-dir DATA] [--workers 2]

The file holds for each site k train_logits_k (n, models, classes; own columns out of fold), train_y_k, train_x_k (the
inputs, flat), val_*_k, test_*_k, and ``home``, the site of each model. `accuracy.py` runs trust learners on such files.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from peerwise import Experiment, Site, load
from peerwise.methods.own_models import OwnModels, own_models
from peerwise.models import OnnxModel, one_thread
from peerwise.run.simulate import federation

TABLE = ("logistic", "forest", "boosting")
IMAGE: dict[str, Any] = {"models": ("lenet", "small_cnn")}
EXDIR: dict[str, Any] = {"partition": "exdir", "sites": 20, "rows": 8000, "assign": "cycle", **IMAGE}
MILD: dict[str, Any] = {"partition": "dirichlet", "sites": 6, "rows": 3000, "assign": "cycle",
                        "partition_settings": {"alpha": 5.0}, "models": TABLE}  # fmt: skip
QUANTITY: dict[str, Any] = {"partition": "quantity", "partition_settings": {"exponent": 1.0, "min_rows": 60}}
SETTINGS: dict[str, dict[str, Any]] = {
    "C3": {"dataset": "fashion_mnist", **EXDIR, "partition_settings": {"classes_per_site": 3, "alpha": 1.0}},
    "C7": {"dataset": "fashion_mnist", **EXDIR, "partition_settings": {"classes_per_site": 7, "alpha": 10.0}},
    "cifar": {"dataset": "cifar10", "partition": "dirichlet", "sites": 10, "rows": 6000, "assign": "cycle",
              "partition_settings": {"alpha": 0.3}, **IMAGE},
    "adult": {"dataset": "adult", "partition": "natural", "rows": 8000, "models": TABLE},
    "adult_dirichlet": {"dataset": "adult", "partition": "dirichlet", "sites": 10, "rows": 4000, "assign": "cycle",
                        "partition_settings": {"alpha": 0.5}, "models": ("logistic", "boosting")},
    "covertype": {"dataset": "covertype", "partition": "natural", "rows": 6000, "models": TABLE},
    "adult_mild": {"dataset": "adult", **MILD},
    "adult_quantity": {"dataset": "adult", **MILD, **QUANTITY},
    "credit_mild": {"dataset": "credit_default", **MILD},
    "credit_quantity": {"dataset": "credit_default", **MILD, **QUANTITY},
    "covertype_mild": {"dataset": "covertype", **MILD},
    "covertype_quantity": {"dataset": "covertype", **MILD, **QUANTITY},
    "heart_mild": {"dataset": "heart_disease", **MILD, "rows": None},
    "digits_mild": {"dataset": "digits", **MILD, "rows": None},
    "office_mild": {"dataset": "office_caltech10", **MILD, "rows": None, "models": ("logistic", "forest")},
    "digits": {"dataset": "digits", "partition": "dirichlet", "sites": 10, "partition_settings": {"alpha": 0.5},
               "models": TABLE},
    "heart": {"dataset": "heart_disease", "partition": "natural", "models": TABLE},
    "office": {"dataset": "office_caltech10", "partition": "natural", "models": ("logistic", "forest")},
    "pacs": {"dataset": "pacs", "partition": "natural", "rows": 4000, "assign": "all", **IMAGE},
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("setting", choices=SETTINGS)
    parser.add_argument("seed", type=int)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--folds", type=int, default=3)
    a = parser.parse_args()
    experiment = Experiment(**SETTINGS[a.setting])
    data = load(experiment.dataset, a.data_dir)
    sites = federation(experiment.filled(data), data, a.seed)
    trained = Parallel(a.workers)(delayed(_train)(site, a.folds) for site in sites)
    a.out.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(a.out, **tables(sites, trained))


def tables(sites: list[Site], trained: list[OwnModels]) -> dict[str, Any]:
    home = [place for place, own in enumerate(trained) for _ in own.files]
    models = [OnnxModel(file, name=name) for own in trained for name, file in own.files.items()]
    found: dict[str, Any] = {"home": np.array(home)}
    for k, site in enumerate(sites):
        for part in ("train", "val", "test"):
            rows = getattr(site, part)
            logits = np.stack([model.predict_logits(rows.X) for model in models], axis=1).astype(np.float32)
            if part == "train":
                logits[:, found["home"] == k] = trained[k].held_out
            inputs = np.asarray(rows.X).reshape(len(rows), -1)
            found |= {f"{part}_logits_{k}": logits, f"{part}_y_{k}": rows.y, f"{part}_x_{k}": inputs}
    return found


def _train(site: Site, folds: int) -> OwnModels:
    with one_thread():
        return own_models(site, folds=folds)


if __name__ == "__main__":
    main()
