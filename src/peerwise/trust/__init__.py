"""Trust learners: whom to believe, for every single row. Those that need torch are imported when they are used."""

from typing import TYPE_CHECKING

from peerwise.lazy import lazy
from peerwise.trust.base import Decision, Labelled, TrustLearner
from peerwise.trust.bundle import learner_from_tree, learner_to_tree
from peerwise.trust.competence import CompetenceLearner, NeighbourhoodAccuracy
from peerwise.trust.explanation import Explanation
from peerwise.trust.feddes import FedDES
from peerwise.trust.simple import BestSingle, OwnOnly, PriorAdapted, UniformAverage

if TYPE_CHECKING:
    from peerwise.trust.decision_mlp import DecisionMLP
    from peerwise.trust.feddes_paper import FedDESPaper

__all__ = [
    "BestSingle",
    "CompetenceLearner",
    "Decision",
    "DecisionMLP",
    "Explanation",
    "FedDES",
    "FedDESPaper",
    "Labelled",
    "NeighbourhoodAccuracy",
    "OwnOnly",
    "PriorAdapted",
    "TrustLearner",
    "UniformAverage",
    "learner_from_tree",
    "learner_to_tree",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {"DecisionMLP": "decision_mlp", "FedDESPaper": "feddes_paper"},
    )
