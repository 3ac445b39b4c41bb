"""The models of a parcel before any of them is looked at: how many there may be, and what they may be called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from peerwise.errors import ParcelError, PeerwiseError, WorkerError
from peerwise.parcels.signed.fields import plain_text

MOST_MODELS = 100
LONGEST_NAME = 100  # letters: the names of all models fit into one line of a ledger


def checked_models(models: Any, sender: str) -> Mapping[str, bytes]:
    """The files by name, if they are files, not too many of them, with names that can be shown, kept and logged."""
    if not isinstance(models, Mapping) or not all(isinstance(data, bytes) for data in models.values()):
        raise ParcelError(f"site {sender!r} sent a {type(models).__name__}: expected models by name, as ONNX files.")
    if len(models) > MOST_MODELS:
        raise ParcelError(f"site {sender!r} sent {len(models)} models: expected at most {MOST_MODELS}.")
    for name in models:
        plain_text(name, LONGEST_NAME, f"the name of a model of site {sender!r}", least=1)
        # '@' parts a model from its site; '$' has a meaning of its own where trees are kept.
        if "@" in name or name.startswith("$"):
            raise ParcelError(f"site {sender!r} sent a model called {name!r}: expected a name without '@' and '$'.")
    return models


def broke_the_worker(error: PeerwiseError) -> bool:
    """Whether the process of peers' models hung or died of a file: a site's other files may do so too, each for as
    long as is allowed."""
    return isinstance(error, WorkerError) or isinstance(error.__cause__, WorkerError)
