"""Trust learners: whom to believe, for every single row. What only some of them need is imported when it is used."""

from typing import TYPE_CHECKING

from peerwise.lazy import lazy
from peerwise.trust.base import Decision, Labelled, TrustLearner
from peerwise.trust.bundle import learner_from_tree, learner_to_tree
from peerwise.trust.competence import CompetenceLearner, NeighbourhoodAccuracy
from peerwise.trust.explanation import Explanation
from peerwise.trust.peerwise import PeerwiseClassifier
from peerwise.trust.simple import BestSingle, OwnOnly, PriorAdapted, UniformAverage

if TYPE_CHECKING:
    from peerwise.trust.decision_mlp import DecisionMLP
    from peerwise.trust.dynamic import DESKNN, DESP, KNOP, KNORAE, KNORAU, LCA, METADES, OLA
    from peerwise.trust.feddes import FedDES
    from peerwise.trust.fedpae import FedPAE
    from peerwise.trust.stacking import Stacking

__all__ = [
    "DESKNN",
    "DESP",
    "KNOP",
    "KNORAE",
    "KNORAU",
    "LCA",
    "LEARNERS",
    "METADES",
    "OLA",
    "BestSingle",
    "CompetenceLearner",
    "Decision",
    "DecisionMLP",
    "Explanation",
    "FedDES",
    "FedPAE",
    "Labelled",
    "NeighbourhoodAccuracy",
    "OwnOnly",
    "PeerwiseClassifier",
    "PriorAdapted",
    "Stacking",
    "TrustLearner",
    "UniformAverage",
    "learner_from_tree",
    "learner_to_tree",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            **dict.fromkeys(("DESKNN", "DESP", "KNOP", "KNORAE", "KNORAU", "LCA", "METADES", "OLA"), "dynamic"),
            "DecisionMLP": "decision_mlp",
            "FedDES": "feddes",
            "FedPAE": "fedpae",
            "Stacking": "stacking",
        },
    )

LEARNERS = {  # those with a name; where each is, imported when it is first asked for
    "peerwise": "peerwise.trust:PeerwiseClassifier",
    "feddes": "peerwise.trust:FedDES",
    "best_single": "peerwise.trust:BestSingle",
    "prior_adapted": "peerwise.trust:PriorAdapted",
    "neighbourhood": "peerwise.trust:NeighbourhoodAccuracy",
    "decision_mlp": "peerwise.trust:DecisionMLP",
    "fedpae": "peerwise.trust.fedpae:FedPAE",
    "knorae": "peerwise.trust.dynamic:KNORAE",
    "knorau": "peerwise.trust.dynamic:KNORAU",
    "ola": "peerwise.trust.dynamic:OLA",
    "lca": "peerwise.trust.dynamic:LCA",
    "desp": "peerwise.trust.dynamic:DESP",
    "desknn": "peerwise.trust.dynamic:DESKNN",
    "knop": "peerwise.trust.dynamic:KNOP",
    "metades": "peerwise.trust.dynamic:METADES",
}
