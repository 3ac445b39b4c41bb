"""Peerwise: learn from each other's models without sharing data, and know for every single case whom to trust."""

import os
from importlib.metadata import version
from typing import TYPE_CHECKING

from peerwise.lazy import lazy

if TYPE_CHECKING:
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
        NeighbourhoodAccuracy,
        OwnOnly,
        PeerwiseClassifier,
        PriorAdapted,
        TrustLearner,
        UniformAverage,
    )

# Nothing phones home: where this is not set before it is first imported, ONNX Runtime makes an identifier for this
# machine and sends it off with facts about the models that it opens.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

__version__ = version("peerwise")

# Imported when they are first used, so that `import peerwise` and the command line answer at once.
_ROOMS = {
    "data": ("Dataset", "Rows", "Site", "load", "make_sites"),
    "errors": ("PeerwiseError",),
    "evaluate": ("summarise",),
    "transport": (),
    "methods": ("Centralised", "GlobalEnsemble", "Local", "Method", "OneShot"),
    "metrics": (),
    "models": ("wrap",),
    "parcels": ("Parcel",),
    "run": ("Experiment", "Run", "simulate"),
    "space": ("Pool",),
    "trust": (
        "BestSingle",
        "DecisionMLP",
        "PeerwiseClassifier",
        "FedDES",
        "NeighbourhoodAccuracy",
        "OwnOnly",
        "PriorAdapted",
        "TrustLearner",
        "UniformAverage",
    ),
}

__all__ = [
    "BestSingle",
    "Centralised",
    "Dataset",
    "DecisionMLP",
    "Experiment",
    "FedDES",
    "GlobalEnsemble",
    "Local",
    "Method",
    "NeighbourhoodAccuracy",
    "OneShot",
    "OwnOnly",
    "Parcel",
    "PeerwiseClassifier",
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

if not TYPE_CHECKING:  # a type checker would take any name for one of ours
    __getattr__, __dir__ = lazy(__name__, {name: room for room, names in _ROOMS.items() for name in (room, *names)})
