"""One method over sites, round by round: share, combine, absorb, score on validation rows, keep the best state."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Site, derived_seed, work_anew
from peerwise.errors import BadOutputs, DataError
from peerwise.exchange import Exchange, MemoryExchange
from peerwise.methods import Memory, Method
from peerwise.methods.pool_models import PEERS_LEFT_OUT
from peerwise.metrics import accuracy
from peerwise.models import one_thread
from peerwise.parcels import Keep

RUN = "run"  # the runtime's own record within a site's state


def check_sites(method: Method, sites: Sequence[Site]) -> None:
    """Refuse, before anything is trained, a federation that the method cannot run on."""
    if not sites:
        raise DataError("no sites: expected at least one.")
    first = sites[0]
    for site in sites[1:]:
        if method.needs_same_features and site.features != first.features:
            odd = sorted({f.name for f in {*first.features} ^ {*site.features}}) or ["their order"]
            raise DataError(
                f"sites {first.name!r} and {site.name!r} have different columns (such as {', '.join(odd[:3])}): "
                f"{_called(method)} runs one site's models on another's rows and expects the same columns everywhere. "
                f"Use method 'local'; methods for different columns come with stacking."
            )


def blank_record() -> dict[str, Any]:
    return {"seconds": {}, "sent": 0}


def begin(method: Method, site: Site) -> None:
    """Common initialisation; the same stream of chance at every site of a federation."""
    site.state.clear()
    site.state[RUN] = blank_record()
    method.start(site, np.random.default_rng(derived_seed(site.seed, "common")))


def say(method: Method, site: Site, round: int, exchange: Exchange) -> None:
    """Share, post, and count the bytes sent."""
    started = time.perf_counter()
    parcel = method.share(site, round)
    _clock(site, "share", started)
    if parcel:
        exchange.post(round, site.name, parcel)
    site.state[RUN]["sent"] += parcel.nbytes


def agree(method: Method, round: int, exchange: Exchange, memory: Memory, seed: int) -> tuple[Any, Memory]:
    """What all sites are told, and the memory for the next round."""
    inbox = exchange.collect(round)
    return method.combine(inbox, memory, np.random.default_rng(derived_seed(seed, "combine", round)))


def hear(method: Method, site: Site, round: int, told: Any) -> None:
    """Absorb, score on validation rows, and remember the best round (the earliest among equals)."""
    started = time.perf_counter()
    method.absorb(site, round, told)
    _clock(site, "absorb", started)
    if method.rounds == 1 or not len(site.val):
        return
    score = accuracy(site.val.y, answer(method, site, site.val.X).argmax(axis=1))
    best = site.state[RUN].get("best")
    if best is None or score > best["score"]:
        kept = {key: value for key, value in site.state.items() if key != RUN}
        site.state[RUN]["best"] = {"score": score, "round": round, "state": copy.deepcopy(kept)}


def finish(site: Site) -> None:
    """Go back to the round that did best on this site's validation rows."""
    record = site.state[RUN]
    best = record.pop("best", None)
    if best is not None:
        record |= {"best_round": best["round"], "best_score": best["score"]}
        site.state = {**best["state"], RUN: record}


def answer(method: Method, site: Site, X: Any) -> NDArray[np.float64]:
    """Checked class probabilities of a method, which is never asked about no rows."""
    if not len(X):
        return np.zeros((0, len(site.classes)))
    found = np.asarray(method.predict_proba(site, X), dtype=np.float64)
    expected = (len(X), len(site.classes))
    finite = bool(np.isfinite(found).all())
    if found.shape != expected or not finite:
        raise BadOutputs(
            f"method {_called(method)} at site {site.name!r} answered with shape {found.shape}"
            f"{'' if finite else ' and non-finite values'}: expected finite numbers of shape {expected}."
        )
    return found


def run_method(method: Method, sites: Iterable[Site], exchange: Exchange | None = None) -> None:
    """All rounds in this process; the sites' states are ready to predict afterwards.

    A site that fails stops it, unlike `simulate`: whoever asks the method next would find no answer there, and here
    there are no results to say so. A peer's model that a site has to do without is a warning.
    """
    sites = list(sites)
    check_sites(method, sites)
    exchange, keep = exchange or MemoryExchange(), Keep()
    memory: Memory = {}
    with one_thread():
        for site in sites:
            if site.keep is work_anew:
                site.keep = keep  # so that the next method on these sites finds their models trained
            begin(method, site)
        for round in range(method.rounds):
            for site in sites:
                say(method, site, round, exchange)
            told, memory = agree(method, round, exchange, memory, sites[0].seed)
            for site in sites:
                hear(method, site, round, told)
    for site in sites:
        finish(site)
        for model, why in site.state.get(PEERS_LEFT_OUT, {}).items():
            warnings.warn(f"site {site.name!r} does without {model}: {why}", stacklevel=2)


def _called(method: Method) -> str:
    learner = getattr(method, "learner", None)
    return type(method if learner is None else learner).__name__


def _clock(site: Site, phase: str, started: float) -> None:
    seconds: dict[str, float] = site.state[RUN]["seconds"]
    seconds[phase] = seconds.get(phase, 0.0) + time.perf_counter() - started
