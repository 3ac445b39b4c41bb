"""What each peer's model would bring here: asked in the worker about this site's own validation rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Rows, Site
from peerwise.federation import full_name
from peerwise.methods.own_models import mean_probabilities
from peerwise.methods.pool_models import pool_logits
from peerwise.metrics import scores
from peerwise.models import one_thread
from peerwise.models.worker import Worker
from peerwise.run.peer.arrivals import Arrival, Decided, arrivals, decide, newest, parcel_of
from peerwise.run.peer.folder import PeerFolder
from peerwise.run.peer.training import trained
from peerwise.space import softmax

NEARLY_ALL = 0.98  # of a model's answers


def review(peer: PeerFolder, worker: Worker, site_name: str | None = None) -> dict[str, Any]:
    """Every model that is here: accuracy and the task's metric on own validation rows, whether nearly all its
    answers are one, how many of the rows that the own models get wrong it gets right, the classes it never answers with
    there, its size and card, and what was decided."""
    with peer.held():
        wanted = [newest(peer, site_name)] if site_name is not None else arrivals(peer)
        site = peer.site().replace(opener=worker.open)
        rows = site.val if len(site.val) else site.train
        with one_thread():
            own = trained(site)
            own_said = mean_probabilities(site, own.files, rows.X)
            own_says = own_said.argmax(axis=1)
            found = [_reviewed(peer, arrival, site, rows, own_says) for arrival in wanted]
        return {
            "rows": len(rows),
            "rows_are": "validation" if len(site.val) else "train (there are no validation rows)",
            "metric": peer.task.metric,
            "own_metric": _by_metric(peer, rows.y, own_said),
            "own_accuracy": float(np.mean(own_says == rows.y)) if len(rows) else None,
            "own_wrong": int((own_says != rows.y).sum()),
            "arrivals": found,
        }


def _reviewed(peer: PeerFolder, arrival: Arrival, site: Site, rows: Rows, own_says: NDArray[Any]) -> dict[str, Any]:
    models = parcel_of(peer, arrival).get("models", {})  # none where its method sends arrays
    files = {full_name(model, arrival.site): data for model, data in sorted(models.items())}
    asked = pool_logits(site, files, rows.X, may_fail=files)
    judged = {}
    for place, (model, data) in enumerate(sorted(models.items())):
        failed = asked.failed.get(full_name(model, arrival.site))
        judged[model] = {
            "bytes": len(data),
            **({} if failed else _judged(asked.logits[:, place].argmax(axis=1), rows.y, own_says, site.classes)),
            "metric": None if failed else _by_metric(peer, rows.y, softmax(asked.logits[:, place])),
            "failed": failed,
            "facts": arrival.facts.get(model, {}),
        }
    return {
        "site": arrival.site,
        "version": arrival.version,
        "created": arrival.created,
        "expires": arrival.expires,
        "decided": arrival.decided,
        "by": arrival.by,
        "why": arrival.why,
        "models": judged,
        "left_out": arrival.left_out,
        "card": arrival.card,
    }


def _by_metric(peer: PeerFolder, y: NDArray[Any], said: NDArray[Any]) -> float | None:
    """The task's metric; None where it is not defined on these rows."""
    found = scores(y, said, positive=peer.task.positive_code)[peer.task.metric] if len(y) else float("nan")
    return found if np.isfinite(found) else None


def _near_constant(says: NDArray[Any], y: NDArray[Any]) -> bool:
    """Whether a model gives one answer to nearly all rows, and the rows are not nearly all of one class."""
    if not len(y):
        return False
    most = (np.unique(codes, return_counts=True)[1].max() / len(codes) for codes in (says, y))
    return bool(next(most) >= NEARLY_ALL > next(most))


def _judged(says: NDArray[Any], y: NDArray[Any], own_says: NDArray[Any], classes: tuple[str, ...]) -> dict[str, Any]:
    wrong = own_says != y
    there = np.unique(y)
    return {
        "accuracy": float(np.mean(says == y)) if len(y) else None,
        "near_constant": _near_constant(says, y),
        "right_where_own_fails": int((says == y)[wrong].sum()),
        "never_answers": [classes[code] for code in there if not (says == code).any()],
    }


def decided(peer: PeerFolder, site_name: str, version: int | None, what: Decided, why: str) -> dict[str, Any]:
    """Record a person's decision."""
    with peer.held():
        arrival = decide(peer, site_name, version, what, why)
        return {"site": arrival.site, "version": arrival.version, "decided": what, "by": arrival.by, "why": why}
