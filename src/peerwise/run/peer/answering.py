"""Answer new rows from the bundle: whom to believe, how sure, and what is worth knowing of each answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Inputs, Site
from peerwise.data.task import Cases, read_inputs
from peerwise.errors import ParcelError
from peerwise.methods import Method, OneShot
from peerwise.models import one_thread
from peerwise.models.worker import Worker
from peerwise.run.peer.fitting import read_bundle
from peerwise.run.peer.folder import PeerFolder
from peerwise.run.rounds import answer
from peerwise.trust.explanation import remark

SURE = 0.2  # an answer is called unsure where its probability is not so much above that of the next class


@dataclass(frozen=True)
class Answers:
    """``probabilities`` (n, classes); ``answers`` (n,), class codes; ``own`` the own model's probabilities, None where
    the method has none; ``trust`` by site and ``notes`` for each row; ``reading`` what was odd in the file."""

    classes: tuple[str, ...]
    probabilities: NDArray[np.float64]
    answers: NDArray[np.int64]
    own: NDArray[np.float64] | None
    trust: list[dict[str, float]]
    notes: list[str]
    reading: list[str]


def predict(peer: PeerFolder, file: str | Path, worker: Worker, explain: int = 0) -> Answers:
    """Answers to all rows of a file; trust and notes for the first ``explain`` of them."""
    cases = read_inputs(peer.task, file, peer.mapping)
    try:
        return _answered(peer, cases, worker, explain)
    except ParcelError:  # the bundle may have been replaced meanwhile; what is damaged stays so
        return _answered(peer, cases, worker, explain)


def _answered(peer: PeerFolder, cases: Cases, worker: Worker, explain: int) -> Answers:
    method, site = read_bundle(peer, worker)
    X = cases.X
    with one_thread():
        found = answer(method, site, X)
        answers = method.answers(site, found)
        first = min(explain, len(X))
        details = method.details(site, X[:first]) if first else {}
        trust = _by_site(details, first)
        notes = [
            _note(method, site, X[row : row + 1], found[row], int(answers[row]), details, row) for row in range(first)
        ]
        own = details.get("own")
    return Answers(site.classes, found, answers, own, trust, notes, list(cases.notes))


def _by_site(details: dict[str, Any], rows: int) -> list[dict[str, float]]:
    """Trust summed over each site's models; a method without trust has none."""
    if "trust" not in details:
        return [{} for _ in range(rows)]
    senders = [name.rpartition("@")[2] for name in details["models"]]
    found = []
    for row in np.asarray(details["trust"]):
        total: dict[str, float] = {}
        for sender, weight in zip(senders, row, strict=True):
            total[sender] = total.get(sender, 0.0) + float(weight)
        found.append(dict(sorted(total.items(), key=lambda item: -item[1])))
    return found


def _note(
    method: Method, site: Site, x: Inputs, said: NDArray[np.float64], code: int, details: dict[str, Any], row: int
) -> str:
    """One remark a row, the weightiest that there is."""
    if "fallback" in details and bool(details["fallback"][row]):
        return "unsure: no model is reliable here"
    opened = method.explain(site, x) if isinstance(method, OneShot) else None
    if opened is not None and (said_of_own := remark(opened)):
        return said_of_own
    first, second = np.sort(said)[::-1][:2]
    if first - second < SURE:
        return "unsure: the models disagree"
    if "own" in details and int(np.argmax(details["own"][row])) != code:
        return f"own models say {site.classes[int(np.argmax(details['own'][row]))]}"
    return ""
