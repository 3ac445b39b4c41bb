"""Trust learners: whom to believe, for every single row."""

from peerwise.trust.base import Decision, Labelled, TrustLearner
from peerwise.trust.bundle import learner_from_tree, learner_to_tree
from peerwise.trust.competence import CompetenceLearner, NeighbourhoodAccuracy
from peerwise.trust.decision_mlp import DecisionMLP
from peerwise.trust.explanation import Explanation
from peerwise.trust.feddes import FedDES
from peerwise.trust.feddes_paper import FedDESPaper
from peerwise.trust.simple import BestSingle, OwnOnly, PriorAdapted, UniformAverage

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
