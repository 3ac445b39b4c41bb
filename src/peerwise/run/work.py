"""Steps at a group of sites (train, score, predict), run in this process or in a worker."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from peerwise.data import Site, SiteContext, SiteData
from peerwise.errors import STOPS_A_RUN, PeerwiseError, reason
from peerwise.federation import (
    FELL_BACK,
    PEERS_LEFT_OUT,
    RUN,
    AnswersTogether,
    Broadcast,
    HasDetails,
    Method,
    Session,
    State,
    answer_codes,
    answer_together,
    answer_with_details,
    checked_copy,
    copied_record,
    step_together,
)
from peerwise.methods.own_models import LEFT_OUT
from peerwise.metrics import balanced_accuracy
from peerwise.parcels import Parcel, Store, frozen, pack, unpack
from peerwise.parcels.store import kept_key, kept_name
from peerwise.run.fallback import OWN, simpler_answer

UNTRAINED = "an untrained model"
NO_ROUND = "took part in no round and received nothing"

Packed = tuple[bytes, dict[str, bytes]]


class Kept(NamedTuple):
    """A result of work for a site, and what it was made from."""

    site: str
    key: str
    made_from: dict[str, Any]
    packed: Packed


@dataclass(slots=True)
class Part:
    """A site's part of a step, and the state that its session left behind. ``failure``: why the method cannot answer
    here. On the way to a worker a part has no site: its data and context are sent once for all steps."""

    site: Any
    state: State
    shares: bool = False
    failure: Mapping[str, str] | None = None


@dataclass(slots=True)
class Outcome:
    """How a step ended at a site. ``best`` where the step replaced it; ``kept``: results of work to be kept by content,
    those of all sites of a task with the first."""

    site: str
    state: State | None = None
    best: State | None = None
    parcel: Parcel | None = None
    value: Any = None
    failure: dict[str, str] | None = None
    error: Exception | None = None
    trace: str = ""
    kept: list[Kept] = field(default_factory=list)


@dataclass(frozen=True)
class Job:
    """What all steps of a run need. ``folder``: where results are kept by content, if workers can read it."""

    method: Method
    folder: Path | None = None


class WorkerKeep:
    """Results kept by content, in a worker: read where they are at hand, and sent back when they are new."""

    def __init__(self, folder: Path | None, known: Mapping[str, Packed]) -> None:
        self._store = None if folder is None else Store(folder)
        self._known = dict(known)
        self.new: list[Kept] = []

    def __call__(self, site: str, parts: Mapping[str, Any], work: Any) -> dict[str, Any]:
        key = kept_key(parts)
        if key not in self._known:
            if self._store is not None and self._store.has(kept_name(key)):
                return self._store.load(kept_name(key))
            self._known[key] = pack(work())
            made_from = {name: parts.get(name) for name in ("what", "recipe")}
            self.new.append(Kept(site, key, made_from, self._known[key]))
        return unpack(*self._known[key])


def in_worker(
    work: Any,
    data: Sequence[SiteData],
    contexts: Sequence[SiteContext],
    parts: Sequence[Part],
    known: Mapping[str, Packed],
    job: Job,
    *rest: Any,
) -> list[Outcome]:
    """``work`` in a worker process: its parts get their sites here, and what it kept goes back with its outcomes."""
    keep = WorkerKeep(job.folder, known)
    for part, rows, context in zip(parts, data, contexts, strict=True):
        part.site = Site.of(rows, replace(context, keep=partial(keep, rows.name)), {})
    outcomes: list[Outcome] = work(job.method, parts, *rest)
    for outcome in outcomes:
        outcome.error = None  # which may be of any kind; its description travels
    outcomes[0].kept = keep.new
    return outcomes


def step_sites(method: Method, parts: Sequence[Part], broadcast: Broadcast | None, round: int) -> list[Outcome]:
    """One step of the sites' sessions: of all at once, or, where that fails at any of them, one by one."""
    if len(parts) > 1:
        sharing = {part.site.name for part in parts if part.shares}
        try:
            sessions = [_session(method, part) for part in parts]
            return _stepped(sessions, step_together(sessions, broadcast, round, sharing))
        except Exception as error:
            _warn_of(parts, "take a step", error)
    return [_stepped_alone(method, part, broadcast, round) for part in parts]


def _warn_of(parts: Sequence[Part], what: str, error: Exception) -> None:
    """What fails at one site is found when each is tried alone; else the error is in the code for many sites."""
    names = ", ".join(part.site.name for part in parts[:3])
    warnings.warn(f"sites {names} and others {what} one by one: {reason(error)}", stacklevel=3)


def _stepped_alone(method: Method, part: Part, broadcast: Broadcast | None, round: int) -> Outcome:
    """A site that fails keeps its record, and its best state so far."""
    outcome, session = Outcome(part.site.name), None
    try:
        session = _session(method, part)
        parcel = session.step(broadcast, round, shares=part.shares)
        return _stepped([session], {outcome.site: parcel})[0]
    except Exception as error:
        _describe(outcome, session.phase if session else "share", error)
    if session is not None:
        outcome.state, outcome.best = {RUN: session.record}, session.best
    return outcome


def _session(method: Method, part: Part, best: State | None = None) -> Session:
    """Its state is shared with the checkpoint; what a session changes is its record."""
    state = {**part.state, RUN: copied_record(part.state[RUN])} if part.state else None
    return Session(method, Site.of(part.site.data, part.site.context, {}), state, best)


def concluded(method: Method, part: Part, best: State | None) -> Outcome:
    """After the last round: the state that answers. A site that fails keeps its record."""
    session = _session(method, part, best)
    outcome = Outcome(part.site.name)
    try:
        session.restore_best()
        outcome.state = session.site.state
    except Exception as error:
        _describe(outcome, "absorb", error)
        outcome.state = {**(best or {}), RUN: {**session.record, "privacy": None}}
    return outcome


def _stepped(sessions: Sequence[Session], parcels: Mapping[str, Parcel]) -> list[Outcome]:
    known: dict[int, Any] = {}
    outcomes = []
    for session in sessions:
        name = session.site.name
        state = {RUN: session.record, **checked_copy(session.site.state, known)}
        outcomes.append(Outcome(name, state, session.best, parcels.get(name)))
    return outcomes


def judge_sites(method: Method, parts: Sequence[Part]) -> list[Outcome]:
    """How well each site answers its validation rows."""
    return [_judged(method, part) for part in parts]


def _judged(method: Method, part: Part) -> Outcome:
    site = Site.of(part.site.data, part.site.context, dict(part.state))
    outcome = Outcome(site.name)
    try:
        found = answer_codes(method, site, answer_together(method, [site], [site.val.X])[0])
        balanced = site.class_balance == "balanced"
        outcome.value = balanced_accuracy(site.val.y, found) if balanced else float((found == site.val.y).mean())
    except Exception as error:
        _describe(outcome, "score", error)
    return outcome


def predict_sites(method: Method, parts: Sequence[Part], inbox: Mapping[str, Parcel]) -> list[Outcome]:
    """Answer the test rows: with the method, or where it failed, with something simpler."""
    for part in parts:
        part.site = Site.of(part.site.data, part.site.context, dict(part.state))
    able = [part for part in parts if _can_answer(part)]
    started = time.perf_counter()
    answers: list[Any] = [None] * len(able)
    if len(able) > 1 and isinstance(method, AnswersTogether) and not isinstance(method, HasDetails):
        try:
            sites = [part.site for part in able]
            answers = answer_together(method, sites, [site.test.X for site in sites])
        except Exception as error:
            _warn_of(able, "answer", error)
    elapsed = (time.perf_counter() - started) / max(len(able), 1)
    known = {part.site.name: found for part, found in zip(able, answers, strict=True)}
    outcomes = []
    for part in parts:
        outcome = Outcome(part.site.name)
        try:
            outcome.value = _predictions(method, part, inbox, known.get(part.site.name), elapsed)
        except Exception as error:
            _describe(outcome, "predict", error)
        outcomes.append(outcome)
    return outcomes


def _can_answer(part: Part) -> bool:
    failure = part.failure
    return failure is None or (failure["step"] != "predict" and "best_round" in part.site.state[RUN])


def _predictions(method: Method, part: Part, inbox: Mapping[str, Parcel], known: Any, elapsed: float) -> dict[str, Any]:
    site, failure = part.site, part.failure
    record = site.state[RUN]
    started = time.perf_counter()
    also: list[str] = []
    if _can_answer(part):
        if known is None:
            probabilities, details = answer_with_details(method, site, site.test.X)
            elapsed = time.perf_counter() - started
        else:
            probabilities, details = known, {}
        details["answers"] = answer_codes(method, site, probabilities)
        left_out = {**site.state.get(PEERS_LEFT_OUT, {}), **details.pop("left_out", {})}
        to = _instead(site, failed=failure is not None)
        also = [NO_ROUND] if to == UNTRAINED else [made["why"]] if (made := site.state.get(FELL_BACK)) else []
    else:
        simpler = simpler_answer(site, method, inbox, site.test.X)
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
        "curves": record["curves"],
        "privacy": record["privacy"],
        "best_round": record.get("best_round"),
        "seconds": {**phases, **site.state.get("seconds", {}), "predict": elapsed},
    }
    found: dict[str, Any] = frozen(tree)
    return found


def _instead(site: Site, *, failed: bool) -> str:
    """What the method itself made do with, or nothing."""
    record = site.state[RUN]
    if failed:
        return f"round {record['best_round']} of the same method"
    if not record["took_part"] and not record["received"]:
        return UNTRAINED
    if FELL_BACK in site.state:
        return str(site.state[FELL_BACK]["to"])
    return "other own models" if LEFT_OUT in site.state else ""


def _why(site: Site, failure: Mapping[str, str] | None, also: list[str]) -> str:
    """What failed first, then what failed otherwise among that which should have answered instead."""
    if failure is not None:
        others = [why for why in dict.fromkeys(also) if why != failure["why"]]
        return "; then ".join([f"{failure['step']}: {failure['why']}", *others])
    return "; ".join([*also, *(f"{model}: {why}" for model, why in site.state.get(LEFT_OUT, {}).items())])


def _describe(outcome: Outcome, step: str, error: Exception) -> None:
    """Write the failure into the outcome. What is not the site's own failure ends the run."""
    site = outcome.site
    if isinstance(error, MemoryError):
        raise PeerwiseError(
            f"site {site!r}: out of memory ({error}). Run again with fewer workers or smaller models: it goes on "
            f"where it stopped."
        ) from error
    if isinstance(error, STOPS_A_RUN):
        if isinstance(error, PeerwiseError):
            raise type(error)(f"site {site!r}: {error}") from error
        raise error
    outcome.failure = {"step": step, "why": reason(error)}
    outcome.error, outcome.trace = error, "".join(traceback.format_exception(error))
