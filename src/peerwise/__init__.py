"""Peerwise: learn from each other's models without sharing data, and know for every single case whom to trust."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

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
        FedDESPaper,
        NeighbourhoodAccuracy,
        OwnOnly,
        PriorAdapted,
        TrustLearner,
        UniformAverage,
    )

__version__ = version("peerwise")

# Imported when they are first used, so that `import peerwise` and the command line answer at once.
ROOMS = {
    "data": ("Dataset", "Rows", "Site", "load", "make_sites"),
    "errors": ("PeerwiseError",),
    "evaluate": ("summarise",),
    "exchange": (),
    "methods": ("Centralised", "GlobalEnsemble", "Local", "Method", "OneShot"),
    "metrics": (),
    "models": ("wrap",),
    "parcels": ("Parcel",),
    "run": ("Experiment", "Run", "simulate"),
    "space": ("Pool",),
    "trust": (
        "BestSingle",
        "DecisionMLP",
        "FedDES",
        "FedDESPaper",
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


def __getattr__(name: str) -> Any:
    if name in ROOMS:
        return import_module(f"peerwise.{name}")
    for room, names in ROOMS.items():
        if name in names:
            return getattr(import_module(f"peerwise.{room}"), name)
    raise AttributeError(f"module 'peerwise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
