"""Class-aware L1 neighbours: ours against scikit-learn's brute force, on the same rows, in one run.

python benchmarks/neighbours.py [--rows 2000] [--queries 1000] [--models 20] [--classes 10]
python benchmarks/neighbours.py --approximate    # also faiss's HNSW, one index a class, with its recall
"""

from __future__ import annotations

import argparse

import measure
import numpy as np
from numpy.typing import NDArray
from pools import decision_vectors
from sklearn.neighbors import NearestNeighbors

from peerwise.space.neighbours import neighbourhood

Found = tuple[NDArray[np.float32], NDArray[np.int64]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = {"rows": 2000, "queries": 1000, "models": 20, "classes": 10, "k": 5, "repeats": 3}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--approximate", action="store_true")
    a = parser.parse_args()
    vectors, labels = decision_vectors(a.rows + a.queries, a.models, a.classes)
    train, queries, labels = vectors[: a.rows], vectors[a.rows :], labels[: a.rows]

    def ours() -> Found:
        near = neighbourhood(queries, train, labels, a.k)
        return near.distance, near.index

    def sklearn() -> Found:
        parts = []
        for label in range(a.classes):
            rows = np.flatnonzero(labels == label)
            search = NearestNeighbors(n_neighbors=a.k, metric="manhattan", algorithm="brute", n_jobs=1)
            distance, place = search.fit(train[rows]).kneighbors(queries)
            parts.append((distance, rows[place]))
        return np.concatenate([d for d, _ in parts], axis=1), np.concatenate([i for _, i in parts], axis=1)

    exact = ours()
    assert np.allclose(exact[0], sklearn()[0], rtol=1e-4)  # also compiles the kernel before the clock starts
    seconds = {f.__name__: measure.fastest(f, a.repeats) for f in (ours, sklearn)}
    for name, value in seconds.items():
        print(f"{name:>8} {1000 * value:8.1f} ms")
    print(f"   ratio {seconds['sklearn'] / seconds['ours']:8.1f} x (ours also computes the edge weights)")
    if a.approximate:
        _approximate(train, queries, labels, a, exact[1], seconds["ours"])


def _approximate(
    train: NDArray[np.float32],
    queries: NDArray[np.float32],
    labels: NDArray[np.int64],
    a: argparse.Namespace,
    exact: NDArray[np.int64],
    seconds: float,
) -> None:
    try:
        import faiss
    except ImportError:
        print("approximate neighbours are not measured: faiss is not there (pip install faiss-cpu)")
        return
    faiss.omp_set_num_threads(1)

    def build() -> list[tuple[NDArray[np.int64], object]]:
        indices = []
        for label in range(a.classes):
            rows = np.flatnonzero(labels == label)
            index = faiss.IndexHNSWFlat(train.shape[1], 16, faiss.METRIC_L1)
            index.add(train[rows])
            indices.append((rows, index))
        return indices

    building, indices = measure.timed(build)
    for breadth in (16, 64):

        def search(breadth: int = breadth) -> NDArray[np.int64]:
            found = []
            for rows, index in indices:
                index.hnsw.efSearch = breadth
                found.append(rows[index.search(queries, a.k)[1]])
            return np.concatenate(found, axis=1)

        asking, found = measure.timed(search)
        recall = np.mean([len(set(x) & set(y)) / len(y) for x, y in zip(found.tolist(), exact.tolist(), strict=True)])
        # as a graph is built: an index of all rows, then every row asked
        whole = (building + asking * len(train) / len(queries)) / (seconds * len(train) / len(queries))
        print(
            f"HNSW, {breadth} candidates: index {building:.2f} s, queries {1000 * asking:.1f} ms, recall {recall:.3f}; "
            f"a whole graph takes {whole:.2f} of our exact time"
        )


if __name__ == "__main__":
    main()
