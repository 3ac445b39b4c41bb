"""Several models asked about the same rows in one turn: a turn for each would cost more than the models themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.errors import STOPS_A_RUN, PeerwiseError
from peerwise.models.outputs import count_rows
from peerwise.models.worker.parent import Worker, WorkerModel
from peerwise.models.worker.replies import Refused, Reply, array

Outcome = NDArray[np.float64] | Exception


def logits_together(worker: Worker, models: Sequence[WorkerModel], X: Any) -> list[Outcome]:
    """What each model's ``predict_logits`` gives for these rows, or how it fails; bit for bit the same."""
    return _together(worker, models, X, logits=True)


def probabilities_together(worker: Worker, models: Sequence[WorkerModel], X: Any) -> list[Outcome]:
    return _together(worker, models, X, logits=False)


def _together(worker: Worker, models: Sequence[WorkerModel], X: Any, *, logits: bool) -> list[Outcome]:
    replies = _asked(worker, models, X)
    return [_outcome(model, X, None if replies is None else replies[at], logits) for at, model in enumerate(models)]


def _asked(worker: Worker, models: Sequence[WorkerModel], X: Any) -> list[Reply] | None:
    feeds = []
    for model in models:
        try:
            slices = list(model.feeds(X))
        except PeerwiseError:
            return None
        if len(slices) != 1 or any(value.dtype == np.object_ for value in slices[0].values()):
            return None
        feeds.append({name: np.ascontiguousarray(value) for name, value in slices[0].items()})
    asked = [model.question(feed) for model, feed in zip(models, feeds, strict=True)]
    return worker.ask_together(models, asked) if asked else None


def _outcome(model: WorkerModel, X: Any, reply: Reply | None, logits: bool) -> Outcome:
    """From the reply; without one, or where it tells of a failure, the model is asked again by itself."""
    if reply is not None:
        try:
            said = [array(reply)]
            return (model.logits_of if logits else model.probabilities_of)(said, count_rows(X))
        except (Refused, PeerwiseError):
            pass
    try:
        return model.predict_logits(X) if logits else model.predict_proba(X)
    except STOPS_A_RUN:
        raise
    except Exception as error:
        return error
