"""What one site does in one step of a simulation, in whichever process; each step leaves its state in the folder.

A step that was done already returns False and does nothing, so a run goes on wherever it was ended.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Site
from peerwise.methods import Inbox, Method
from peerwise.methods.base import FELL_BACK
from peerwise.methods.own_models import LEFT_OUT
from peerwise.methods.pool_models import PEERS_LEFT_OUT
from peerwise.parcels import Parcel
from peerwise.run.fallback import OWN, simpler_answer
from peerwise.run.folder import RunFolder
from peerwise.run.rounds import RUN, answer, begin, blank_record, combines, hear, learned, say

UNTRAINED = "an untrained model"
NO_ROUND = "took part in no round and heard nothing"


def share(site: Site, method: Method, folder: RunFolder, run: str, round: int) -> bool:
    state = folder.load_state(site.name, run)
    if state is None:
        begin(method, site)
    else:
        site.state = state
    if site.state[RUN].get("shared", -1) >= round:
        return False
    say(method, site, round, folder.exchange(run))
    site.state[RUN]["shared"] = round
    folder.save_state(site.name, run, site.state)
    return True


def absorb(site: Site, method: Method, folder: RunFolder, run: str, round: int) -> bool:
    state = folder.load_state(site.name, run)
    assert state is not None, "share comes first"
    site.state = state
    if site.state[RUN].get("absorbed", -1) >= round:
        return False
    told: Inbox | Parcel = folder.load_told(run, round)[0] if combines(method) else folder.exchange(run).collect(round)
    hear(method, site, round, told)
    site.state[RUN]["absorbed"] = round
    folder.save_state(site.name, run, site.state)
    return True


def predict(site: Site, method: Method, folder: RunFolder, run: str) -> bool:
    """Answer the test rows: with the method, or where it failed here before, with something simpler."""
    if folder.has_predictions(site.name, run):
        return False
    failure = folder.load_failure(site.name, run)
    site.state = folder.load_state(site.name, run) or {RUN: blank_record()}
    record = site.state[RUN]
    started = time.perf_counter()
    also: list[str] = []
    if failure is None or (failure["step"] != "predict" and "best_round" in record):
        probabilities = answer(method, site, site.test.X)
        elapsed = time.perf_counter() - started
        details = method.details(site, site.test.X) if len(site.test) else {}
        details["answers"] = method.answers(site, probabilities)
        left_out = {**site.state.get(PEERS_LEFT_OUT, {}), **details.pop("left_out", {})}
        to = _instead(site, failed=failure is not None)
        also = [NO_ROUND] if to == UNTRAINED else [told["why"]] if (told := site.state.get(FELL_BACK)) else []
    else:
        simpler = simpler_answer(site, method, partial(folder.exchange(run).collect, 0), site.test.X)
        probabilities, to, also, left_out = simpler.probabilities, simpler.what, simpler.failed, simpler.left_out
        # The bar stays in place where the method failed: such a site is tied with its own models, not left out.
        elapsed, details = time.perf_counter() - started, {"own": probabilities} if to in OWN else {}
    phases = {"train": record["seconds"].get("share", 0.0), "fit": record["seconds"].get("absorb", 0.0)}
    tree = {
        "y": site.test.y,
        "probabilities": probabilities,
        "details": details,
        "label_counts": np.bincount(site.train.y, minlength=len(site.classes)),
        "fell_back": {"to": to, "why": _why(site, failure, also)} if to else None,
        "peers_left_out": left_out,
        "sent": record["sent"],
        "received": record["received"],
        "took_part": record["took_part"],
        "curves": {name: _points(values) for name, values in record["curves"].items()},
        "privacy": record["privacy"] if "privacy" in record else _privacy(method, site),
        "best_round": record.get("best_round"),
        "seconds": {**phases, **site.state.get("seconds", {}), "predict": elapsed},
    }
    folder.save_predictions(site.name, run, tree)
    return True


def judge(site: Site, method: Method, folder: RunFolder, run: str) -> bool:
    """Note how well the site answers its validation rows."""
    state = folder.load_state(site.name, run)
    if state is None or "best_score" in state[RUN] or not len(site.val):
        return False
    site.state = state
    right = method.answers(site, answer(method, site, site.val.X)) == site.val.y
    site.state[RUN]["best_score"] = float(right.mean())
    folder.save_state(site.name, run, site.state)
    return True


def _points(values: NDArray[np.float64]) -> list[list[float | None]]:
    return [[int(round), float(value) if np.isfinite(value) else None] for round, value in values]


def _privacy(method: Method, site: Site) -> dict[str, Any] | None:
    return method.privacy(site) if learned(site) else None


def _instead(site: Site, *, failed: bool) -> str:
    """What the method itself made do with, or nothing."""
    if failed:
        return f"round {site.state[RUN]['best_round']} of the same method"
    if not site.state[RUN]["took_part"] and not site.state[RUN]["received"]:
        return UNTRAINED
    if FELL_BACK in site.state:
        return str(site.state[FELL_BACK]["to"])
    return "other own models" if LEFT_OUT in site.state else ""


def _why(site: Site, failure: dict[str, Any] | None, also: list[str]) -> str:
    """What failed first, then what failed otherwise among that which should have answered instead."""
    if failure is not None:
        others = [why for why in dict.fromkeys(also) if why != failure["why"]]
        return "; then ".join([f"{failure['step']}: {failure['why']}", *others])
    return "; ".join([*also, *(f"{model}: {why}" for model, why in site.state.get(LEFT_OUT, {}).items())])
