"""Pool outputs, calibration, the decision space, class-aware neighbours and the competence graph."""

from peerwise.space.decision import DecisionSpace
from peerwise.space.features import InputFeatures
from peerwise.space.graph import QueryEdges, TrainGraph, query_edges, train_graph
from peerwise.space.outputs import as_logits, check_codes, softmax
from peerwise.space.pool import Pool, column_of

__all__ = [
    "DecisionSpace",
    "InputFeatures",
    "Pool",
    "QueryEdges",
    "TrainGraph",
    "as_logits",
    "check_codes",
    "column_of",
    "query_edges",
    "softmax",
    "train_graph",
]
