"""The competence graph of one site: sample-sample and classifier-sample edges, as arrays.

Only train rows send messages. Between train rows edges are undirected (weights of a pair that chose each other add
up); a validation row or query only receives, so an answer never depends on which other queries share its batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from peerwise.space.competence import Competence, classifier_features, top_models
from peerwise.space.decision import DecisionSpace
from peerwise.space.neighbours import Neighbourhood
from peerwise.space.outputs import Array


@dataclass(frozen=True)
class Incoming:
    """Edges into some destinations, sorted by destination: those of j are ``start[j]:start[j + 1]``."""

    start: NDArray[np.int64]
    source: NDArray[np.int64]
    weight: Array


@dataclass(frozen=True)
class TrainGraph:
    """Edges among the train rows (``samples``), from models to train rows and back, and the models' features."""

    samples: Incoming
    classifiers: Incoming
    back: Incoming
    classifier_features: Array


@dataclass(frozen=True)
class QueryEdges:
    """Edges into rows outside the graph, and the local competence they rest on."""

    near: Neighbourhood
    local: Competence
    samples: Incoming
    classifiers: Incoming


def train_graph(space: DecisionSpace, classifiers: int) -> TrainGraph:
    near = space.around()
    chosen, weight = top_models(space.competence(near), classifiers)
    n, models = len(space.y), space.models
    directed = _csr(near.index, near.weight, n)
    forward = _csr(chosen, weight, models)
    return TrainGraph(
        samples=_incoming(_undirected(directed)),
        classifiers=_incoming(forward),
        back=_incoming(forward.T),
        classifier_features=classifier_features(space.probabilities, space.correct, space.y),
    )


def query_edges(space: DecisionSpace, logits: Array, classifiers: int) -> QueryEdges:
    near = space.around(space.project(logits))
    local = space.competence(near)
    chosen, weight = top_models(local, classifiers)
    return QueryEdges(
        near,
        local,
        _incoming(_csr(near.index, near.weight, len(space.y))),
        _incoming(_csr(chosen, weight, space.models)),
    )


def _csr(index: NDArray[np.int64], weight: Array, columns: int) -> sparse.csr_array:
    """Destinations by sources. A slot that is -1 is no edge; an edge of weight zero is one."""
    there = index >= 0
    start = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    return sparse.csr_array((weight[there], index[there], start), shape=(len(index), columns))


def _undirected(edges: sparse.csr_array) -> sparse.csr_array:
    one = edges.tocoo()
    there, back = np.concatenate([one.row, one.col]), np.concatenate([one.col, one.row])
    # Through coordinates, because adding two matrices would drop edges whose weight underflowed to zero.
    return sparse.coo_array((np.tile(one.data, 2), (there, back)), shape=edges.shape).tocsr()


def _incoming(edges: Any) -> Incoming:
    rows = edges.tocsr()
    return Incoming(rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data.astype(np.float32))
