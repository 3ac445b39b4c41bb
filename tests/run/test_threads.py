"""The number of cores, threads and workers never changes a number."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
import numpy as np
from sklearn.datasets import make_classification
from peerwise import Dataset, simulate
from peerwise.run import RunFolder

if __name__ == "__main__":
    X, y = make_classification(6000, 60, n_informative=30, n_classes=3, random_state=0)
    data = Dataset("made", "table", X.astype(np.float32), y.astype(np.int64), ("a", "b", "c"))
    found = []
    for workers in (1, 2):
        out = f"{sys.argv[1]}/{workers}"
        simulate(data, sites=2, models=["logistic"], methods=["local", "peerwise", "feddes"], seeds=1, folds=2,
                 method={"feddes": {"epochs": 1, "hidden": 8, "batch_size": 4096}}, workers=workers, out=out)
        files = sorted(RunFolder(out).path.glob("predictions/*"))
        trees = [tree for file in files for tree in RunFolder(out).load_predictions(file.name).values()]
        found.append([tree["probabilities"] for tree in trees])
    assert len(found[0]) == 6
    print(all(np.array_equal(one, two) for one, two in zip(*found)))
"""


@pytest.mark.slow
def test_one_and_two_workers_agree_with_all_cores_open(tmp_path: Path) -> None:
    free = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    script = tmp_path / "run.py"
    script.write_text(SCRIPT)
    found = subprocess.run([sys.executable, script, tmp_path], env=free, capture_output=True, text=True, timeout=300)
    assert found.stdout.strip() == "True", found.stderr[-2000:]
