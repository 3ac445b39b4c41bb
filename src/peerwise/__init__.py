"""Peerwise: learn from each other's models without sharing data, and know for every single case whom to trust."""

from importlib.metadata import version

from peerwise.data import Dataset, Rows, Site, load, make_sites
from peerwise.errors import PeerwiseError
from peerwise.evaluate import summarise
from peerwise.methods import Centralised, GlobalEnsemble, Local, Method, OneShot
from peerwise.models import wrap
from peerwise.parcels import Parcel
from peerwise.run import Experiment, Run, simulate
from peerwise.space import Pool
from peerwise.trust import (
    BestSingle,
    DecisionMLP,
    FedDES,
    FedDESPaper,
    NeighbourhoodAccuracy,
    OwnOnly,
    PriorAdapted,
    TrustLearner,
    UniformAverage,
)

__version__ = version("peerwise")

__all__ = [
    "BestSingle",
    "Centralised",
    "Dataset",
    "DecisionMLP",
    "Experiment",
    "FedDES",
    "FedDESPaper",
    "GlobalEnsemble",
    "Local",
    "Method",
    "NeighbourhoodAccuracy",
    "OneShot",
    "OwnOnly",
    "Parcel",
    "PeerwiseError",
    "Pool",
    "PriorAdapted",
    "Rows",
    "Run",
    "Site",
    "TrustLearner",
    "UniformAverage",
    "__version__",
    "load",
    "make_sites",
    "simulate",
    "summarise",
    "wrap",
]
