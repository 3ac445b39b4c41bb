"""One method over sites, round by round: share, combine, absorb, score on validation rows, keep the best state."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Site, derived_seed, work_anew
from peerwise.errors import BadOutputs, DataError
from peerwise.exchange import Exchange, MemoryExchange, sizes_of
from peerwise.methods import Inbox, Memory, Method
from peerwise.methods.pool_models import PEERS_LEFT_OUT
from peerwise.metrics import accuracy, balanced_accuracy
from peerwise.models import one_thread
from peerwise.parcels import Keep, Parcel
from peerwise.run.participation import Participation

RUN = "run"  # the runtime's own record within a site's state
VALIDATION = "validation accuracy"


def check_sites(method: Method, sites: Sequence[Site]) -> None:
    """Refuse, before anything is trained, a federation that the method cannot run on."""
    if not sites:
        raise DataError("no sites: expected at least one.")
    method.check_sites(sites)


def combines(method: Method) -> bool:
    """Whether sites are told something else than the parcels themselves."""
    return type(method).combine is not Method.combine


def blank_record() -> dict[str, Any]:
    """``heard``: the newest round of which the site knows what was told; ``curves``: (n, 2) rounds and values."""
    return {"seconds": {}, "sent": 0, "received": 0, "took_part": [], "heard": -1, "scored": -1, "curves": {}}


def begin(method: Method, site: Site) -> None:
    """Common initialisation; the same stream of chance at every site of a federation."""
    site.state = {RUN: blank_record()}  # a new one: a copy of the site may hold the old, and would hold the net in it
    method.start(site, np.random.default_rng(derived_seed(site.seed, "common")))


def speak(method: Method, site: Site, round: int) -> Parcel:
    """Share; whoever sends the parcel counts its bytes."""
    started = time.perf_counter()
    parcel = method.share(site, round)
    _clock(site, "share", started)
    record = site.state[RUN]
    record["took_part"] = [*record["took_part"], round]
    return parcel


def say(method: Method, site: Site, round: int, exchange: Exchange) -> None:
    """Share, post, and count the bytes sent."""
    if parcel := speak(method, site, round):
        exchange.post(round, site.name, parcel)
        site.state[RUN]["sent"] += parcel.nbytes


def agree(method: Method, round: int, exchange: Exchange, memory: Memory, seed: int) -> tuple[Any, Memory]:
    """What all sites are told, and the memory for the next round."""
    return combined(method, round, exchange.collect(round), memory, seed)


def combined(method: Method, round: int, inbox: Inbox, memory: Memory, seed: int) -> tuple[Any, Memory]:
    return method.combine(inbox, memory, np.random.default_rng(derived_seed(seed, "combine", round)))


def hear(method: Method, site: Site, round: int, told: Any) -> bool:
    """Absorb, score on validation rows, and tell whether this is the best round so far (the earliest among equals):
    then its state is worth keeping, for `finish`."""
    listen(method, site, round, told)
    return weigh(method, site, round)


def catch_up(method: Method, site: Site, round: int, newest: int, told: Any) -> bool:
    """Hear what was told in the ``newest`` round, unless that was heard before; score where anything has changed by the
    end of this round. Whether this is the best round so far."""
    record = site.state[RUN]
    news = newest > record["heard"] and listen(method, site, newest, told)
    spoke = record["took_part"][-1:] == [round] and record["scored"] < round
    return weigh(method, site, round) if news or spoke else False


def listen(method: Method, site: Site, round: int, told: Any) -> bool:
    """Absorb what is for this site, and count the bytes received; False if there is nothing for it."""
    record = site.state[RUN]
    record["heard"] = round
    mine = told.get(site.name) if method.addresses_sites else told
    if mine is None:
        return False
    record["received"] += _received(method, site.name, mine)
    started = time.perf_counter()
    method.absorb(site, round, mine)
    _clock(site, "absorb", started)
    return True


def _received(method: Method, site: str, told: Inbox | Parcel) -> int:
    """A site need not be told what it said itself."""
    if isinstance(told, Parcel):
        return told.nbytes
    sizes = sizes_of(told)
    return sum(size for sender, size in sizes.items() if combines(method) or sender != site)


def weigh(method: Method, site: Site, round: int) -> bool:
    """Note what is worth a curve; whether the state does better on the validation rows than any before."""
    record = site.state[RUN]
    record["scored"] = round
    noted = method.curves(site)
    best = False
    if method.rounds > 1 and len(site.val):
        measure = balanced_accuracy if site.rare_outcomes else accuracy  # as a pool's models are stopped
        score = measure(site.val.y, answer(method, site, site.val.X).argmax(axis=1))
        noted = {**noted, VALIDATION: score}
        best = method.keeps_last or "best_score" not in record or score > record["best_score"]
        if best:
            record |= {"best_round": round, "best_score": score}
    curves: dict[str, NDArray[np.float64]] = record["curves"]
    for name, value in noted.items():
        point = np.array([[round, value]], dtype=np.float64)
        curves[name] = np.concatenate([curves[name], point]) if name in curves else point
    return best


def finish(site: Site, best: Mapping[str, Any] | None) -> None:
    """Go back to the state that did best on this site's validation rows, where there is one."""
    if best is not None:
        site.state = {**best, RUN: site.state[RUN]}


def learned(site: Site) -> dict[str, Any]:
    """What the method holds at this site, without the runtime's record."""
    return {key: value for key, value in site.state.items() if key != RUN}


def answer(method: Method, site: Site, X: Any) -> NDArray[np.float64]:
    """Checked class probabilities of a method, which is never asked about no rows."""
    if not len(X):
        return np.zeros((0, len(site.classes)))
    found = np.asarray(method.predict_proba(site, X), dtype=np.float64)
    expected = (len(X), len(site.classes))
    finite = bool(np.isfinite(found).all())
    if found.shape != expected or not finite:
        raise BadOutputs(
            f"method {method.called} at site {site.name!r} answered with shape {found.shape}"
            f"{'' if finite else ' and non-finite values'}: expected finite numbers of shape {expected}."
        )
    return found


def run_method(
    method: Method,
    sites: Iterable[Site],
    exchange: Exchange | None = None,
    participation: Participation | None = None,
) -> None:
    """All rounds in this process; the sites' states are ready to predict afterwards.

    A site that fails stops it, unlike `simulate`: whoever asks the method next would find no answer there, and here
    there are no results to say so. A peer's model that a site has to do without is a warning.
    """
    sites = list(sites)
    check_sites(method, sites)
    exchange, keep = exchange or MemoryExchange(), Keep()
    with one_thread():
        for site in sites:
            if site.keep is work_anew:
                site.keep = keep  # so that the next method on these sites finds their models trained
            begin(method, site)
        _all_rounds(method, {site.name: site for site in sites}, exchange, participation or Participation())
    for site in sites:
        for model, why in site.state.get(PEERS_LEFT_OUT, {}).items():
            warnings.warn(f"site {site.name!r} does without {model}: {why}", stacklevel=2)


def _all_rounds(method: Method, sites: dict[str, Site], exchange: Exchange, participation: Participation) -> None:
    told: Any = None
    newest = -1
    memory: Memory = {}
    best: dict[str, dict[str, Any]] = {}

    def catch_up_at(names: Iterable[str], round: int) -> None:
        for name in names:
            if catch_up(method, sites[name], round, newest, told):
                best[name] = copy.deepcopy(learned(sites[name]))

    for round in range(method.rounds):
        present = participation.present(sites, round)
        catch_up_at(present, round - 1)  # those who were away
        sharing = participation.sharing(present, round)
        for name in sharing:
            say(method, sites[name], round, exchange)
        if inbox := exchange.collect(round):
            (told, memory), newest = combined(method, round, inbox, memory, next(iter(sites.values())).seed), round
        elif sharing and not combines(method):
            told, newest = inbox, round
        catch_up_at(present, round)
    for name, site in sites.items():
        finish(site, best.get(name))


def _clock(site: Site, phase: str, started: float) -> None:
    seconds: dict[str, float] = site.state[RUN]["seconds"]
    seconds[phase] = seconds.get(phase, 0.0) + time.perf_counter() - started
