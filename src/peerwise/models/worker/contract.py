"""What every model must keep to, whoever made it."""

from __future__ import annotations

from typing import Any

import numpy as np

from peerwise.errors import BadOutputs
from peerwise.models.outputs import checked, checked_probabilities, softmax


def contract(model: Any, X: Any, classes: int, unknown: bool = False) -> None:
    """`BadOutputs` where a model does not say the same twice, of every row, as finite numbers that become probabilities
    over ``classes``, and one more for what it does not know where it has that (``unknown``)."""
    width = classes + int(unknown)
    said = checked(model.predict_logits(X), len(X), width, model.name)
    checked_probabilities(softmax(said), len(X), width, model.name)
    again = checked(model.predict_logits(X), len(X), width, model.name)
    other = np.flatnonzero((said != again).any(axis=1))
    if len(other):
        raise BadOutputs(
            f"model {model.name!r} answered {len(other)} of {len(X)} rows in another way when asked twice (first: row "
            f"{other[0]}): expected the same answer every time. Export it without drop-out or random numbers."
        )
