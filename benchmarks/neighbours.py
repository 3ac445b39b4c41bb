"""Class-aware L1 neighbours: ours against scikit-learn's brute force, on the same rows, in one run.

python benchmarks/neighbours.py [--rows 2000] [--queries 1000] [--width 200] [--classes 10]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.neighbors import NearestNeighbors

from peerwise.space.neighbours import neighbourhood


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, default in {"rows": 2000, "queries": 1000, "width": 200, "classes": 10, "k": 5, "repeats": 5}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    a = parser.parse_args()
    rng = np.random.default_rng(0)
    train = rng.random((a.rows, a.width), dtype=np.float32)
    queries = rng.random((a.queries, a.width), dtype=np.float32)
    labels = rng.integers(0, a.classes, a.rows)

    def ours() -> np.ndarray:
        return neighbourhood(queries, train, labels, a.k).distance

    def sklearn() -> np.ndarray:
        found = []
        for label in range(a.classes):
            search = NearestNeighbors(n_neighbors=a.k, metric="manhattan", algorithm="brute", n_jobs=1)
            found.append(search.fit(train[labels == label]).kneighbors(queries)[0])
        return np.concatenate(found, axis=1)

    assert np.allclose(ours(), sklearn(), rtol=1e-4)  # also compiles the kernel before the clock starts
    seconds = {f.__name__: min(_timed(f) for _ in range(a.repeats)) for f in (ours, sklearn)}
    for name, value in seconds.items():
        print(f"{name:>8} {1000 * value:8.1f} ms")
    print(f"   ratio {seconds['sklearn'] / seconds['ours']:8.1f} x (ours also computes the edge weights)")


def _timed(work) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


if __name__ == "__main__":
    main()
