"""Session: one method at one site, round by round. The simulator, a real peer and a Flower client all drive it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Site, derived_seed
from peerwise.errors import BadOutputs, DataError, ParcelError
from peerwise.federation.abilities import (
    AbsorbsTogether,
    AnswersTogether,
    HasCurves,
    HasDetails,
    TrainsTogether,
    privacy_of,
)
from peerwise.federation.cleaning import PEERS_LEFT_OUT, full_name, usable
from peerwise.federation.method import Inbox, Memory, Method
from peerwise.metrics import balanced_accuracy, log_losses
from peerwise.parcels import Parcel, frozen, sizes_of, snapshot

RUN = "run"  # the session's own record within a site's state
VALIDATION = "validation accuracy"

State = dict[str, Any]


@dataclass(frozen=True)
class Broadcast:
    """What `combine` returned after ``round``: one parcel for all sites, or parcels by site name; and why other
    senders' parcels are not in it."""

    round: int
    content: Any
    left_out: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """Which step raised at a site, and what."""

    step: str
    error: Exception


class Session:
    """A site's part in a run: absorb the last broadcast, score on validation rows, keep the best state, share.

    ``state`` and ``best`` are what a session of the same run left in ``site.state`` and ``best``; without a state the
    method starts. All that the next step needs is in these two, so a session can be saved after any step and restored
    in another process, with the same numbers. When a call raises, ``site.state`` is undefined: restore a saved copy.

    ``best`` holds what the method had learned in the round with the highest validation score; the lower validation loss
    decides between equal scores, then the earlier round. ``improved`` says whether the last step replaced it.
    """

    def __init__(self, method: Method, site: Site, state: State | None = None, best: State | None = None) -> None:
        self.method, self.site, self.best = method, site, best
        self.improved = False
        if state is not None:
            site.state = state
            return
        site.state = {RUN: blank_record()}  # a new dict: a copy of the site may hold the old one
        method.start(site, np.random.default_rng(derived_seed(site.seed, "common")))  # the same seed at every site

    @property
    def record(self) -> dict[str, Any]:
        return self.site.state[RUN]  # type: ignore[no-any-return]

    def step(self, broadcast: Broadcast | None, round: int, *, shares: bool = True) -> Parcel:
        """Catch up with the rounds before ``round``, then share in it; the parcel is empty if there is none to send."""
        parcels, failures = step_together([self], broadcast, round, {self.site.name} if shares else ())
        for failure in failures.values():
            raise failure.error
        return parcels.get(self.site.name, Parcel())

    def finish(self, broadcast: Broadcast | None = None) -> None:
        """After the last round: absorb the last broadcast, score, and restore the best state."""
        self.step(broadcast, self.method.rounds, shares=False)
        self.restore_best()

    def restore_best(self) -> None:
        """Go back to the best state, if any. Privacy counts all rounds, also those after the best one."""
        self.record["privacy"] = privacy_of(self.method, self.site) if learned(self.site) else None
        if self.best is not None:
            self.site.state = {**self.best, RUN: self.record}

    def _has_absorbed(self, broadcast: Broadcast) -> bool:
        return bool(broadcast.round <= self.record["absorbed"])

    def _absorb(self, broadcast: Broadcast | None) -> bool:
        """Absorb what is for this site unless it was absorbed before, and count its bytes; False if there is nothing
        new for it."""
        record = self.record
        if broadcast is None or self._has_absorbed(broadcast):
            return False
        record["absorbed"] = broadcast.round
        content = broadcast.content
        mine = content.get(self.site.name) if self.method.addresses_sites else content
        if mine is None:
            return False
        record["received"] += self._bytes_of(mine)
        started = time.perf_counter()
        left_out = broadcast.left_out
        if not combines(self.method):
            mine, left_out = usable(self.method, mine, {})
        self.method.absorb(self.site, broadcast.round, mine)
        self._note_left_out(left_out)
        _clock([self], "absorb", started)
        return True

    def _note_left_out(self, left_out: Mapping[str, str]) -> None:
        if left_out:
            named = {full_name("*", sender): why for sender, why in left_out.items()}
            self.site.state[PEERS_LEFT_OUT] = {**self.site.state.get(PEERS_LEFT_OUT, {}), **named}

    def _has_changed(self, round: int) -> bool:
        """Whether the site has shared in ``round``, and nothing has scored it since."""
        record = self.record
        return bool(record["scored"] < round and record["took_part"][-1:] == [round])

    def _judge(self, round: int, score: float, loss: float, known: dict[int, Any]) -> None:
        """Keep the state if it is the best so far."""
        record = self.record
        _add_point(record, VALIDATION, round, score)
        before = (record["best_score"], -record["best_loss"]) if "best_score" in record else (-np.inf, -np.inf)
        if self.method.keeps_last or (score, -loss) > before:
            record |= {"best_round": round, "best_score": score, "best_loss": loss}
            self.best = _copied(self.site, known)
            self.improved = True

    def _bytes_of(self, content: Inbox | Parcel) -> int:
        """A site need not receive the parcel that it sent itself."""
        if isinstance(content, Parcel):
            return content.nbytes
        both_ways = combines(self.method)
        return sum(size for sender, size in sizes_of(content).items() if both_ways or sender != self.site.name)


def step_together(
    sessions: Sequence[Session], broadcast: Broadcast | None, round: int, sharing: Collection[str]
) -> tuple[dict[str, Parcel], dict[str, Failure]]:
    """One step of sessions of the same method: the same numbers as one by one, in less time where the method can work
    on many sites at once. What each of ``sharing`` has to send, and the sites where a call raised."""
    failures: dict[str, Failure] = {}
    parcels: dict[str, Parcel] = {}

    def attempt(step: str, session: Session, call: Callable[..., Any], *args: Any) -> Any:
        try:
            return call(*args)
        except Exception as error:
            failures[session.site.name] = Failure(step, error)
            return None

    changed = []
    together = _absorb_together(sessions, broadcast)
    for session in sessions:
        session.improved = False
        unscored = session._has_changed(round - 1)
        absorbed = session in together or attempt("absorb", session, session._absorb, broadcast)
        if (absorbed or unscored) and session.site.name not in failures:
            changed.append(session)
    try:
        _score(changed, round - 1)
    except Exception:  # at one of them
        for session in changed:
            attempt("absorb", session, _score, [session], round - 1)
    sharers = [each for each in sessions if each.site.name in sharing and each.site.name not in failures]
    if len(sharers) > 1 and isinstance(sharers[0].method, TrainsTogether):
        before = _learned_before(sharers)
        try:
            return _share(sharers, round), failures
        except Exception:  # at one of them
            _restore(sharers, before)
    for session in sharers:
        parcels |= attempt("share", session, _share, [session], round) or {}
    return parcels, failures


def _absorb_together(sessions: Sequence[Session], broadcast: Broadcast | None) -> set[Session]:
    """The sessions that have absorbed a parcel for all; none where the method cannot do it for many at once, or where
    it fails at any site."""
    method = sessions[0].method if sessions else None
    if broadcast is None or not isinstance(broadcast.content, Parcel) or not isinstance(method, AbsorbsTogether):
        return set()
    content, nbytes = broadcast.content, broadcast.content.nbytes
    found = [session for session in sessions if not session._has_absorbed(broadcast)]
    before = _learned_before(found)
    started = time.perf_counter()
    try:
        method.absorb_together([session.site for session in found], broadcast.round, content)
    except Exception:
        _restore(found, before)
        return set()
    for session in found:
        record = session.record
        record["absorbed"] = broadcast.round
        record["received"] += nbytes
        session._note_left_out(broadcast.left_out)
    _clock(found, "absorb", started)
    return set(found)


def _learned_before(sessions: Sequence[Session]) -> list[State]:
    """Copies of what the method has learned, to go back to should a call for all of them raise."""
    known: dict[int, Any] = {}
    return [_copied(session.site, known) for session in sessions]


def _copied(site: Site, known: dict[int, Any]) -> State:
    """What the method has learned, as it is now; ``known``: see `snapshot`."""
    return {key: snapshot(value, known) for key, value in site.state.items() if key != RUN}


def _restore(sessions: Sequence[Session], before: Sequence[State]) -> None:
    for session, state in zip(sessions, before, strict=True):
        session.site.state = {**state, RUN: session.record}


def _share(sessions: Sequence[Session], round: int) -> dict[str, Parcel]:
    """The method's parcels, where there is anything to send; their bytes count as sent."""
    started = time.perf_counter()
    method = sessions[0].method
    if len(sessions) > 1 and isinstance(method, TrainsTogether):
        found = method.share_together([session.site for session in sessions], round)
    else:
        found = [method.share(session.site, round) for session in sessions]
    parcels = [parcel.frozen() for parcel in found]
    _clock(sessions, "share", started)
    for session, parcel in zip(sessions, parcels, strict=True):
        session.record["took_part"].append(round)
        session.record["sent"] += parcel.nbytes
    return {session.site.name: parcel for session, parcel in zip(sessions, parcels, strict=True)}


def _score(sessions: Sequence[Session], round: int) -> None:
    """Add a point to each curve, and score the states on the validation rows; each that is its site's best is kept. All
    that may raise comes first."""
    if not sessions:
        return
    method = sessions[0].method
    points: list[dict[str, float]] = [{}] * len(sessions)
    if isinstance(method, HasCurves):
        points = [method.curves(session.site) for session in sessions]
    judged = [session for session in sessions if method.rounds > 1 and len(session.site.val)]
    scores = _scores(method, [session.site for session in judged])
    for session, values in zip(sessions, points, strict=True):
        session.record["scored"] = round
        for name, value in values.items():
            _add_point(session.record, name, round, value)
    known: dict[int, Any] = {}  # what sites share stays shared
    for session, (score, loss) in zip(judged, scores, strict=True):
        session._judge(round, score, loss, known)


def _scores(method: Method, sites: Sequence[Site]) -> list[tuple[float, float]]:
    """Accuracy, or balanced accuracy where classes count alike, and log-loss on each site's validation rows."""
    if not sites:
        return []
    answers = answer_together(method, sites, [site.val.X for site in sites])
    y = np.concatenate([site.val.y for site in sites])
    probabilities = np.concatenate(answers)
    sizes = np.array([len(site.val) for site in sites])
    begins = np.cumsum(sizes) - sizes
    predicted = probabilities.argmax(axis=1)
    scores = np.add.reduceat((predicted == y).astype(np.int64), begins) / sizes
    losses = np.add.reduceat(log_losses(y, probabilities), begins) / sizes
    for place, site in enumerate(sites):
        if site.class_balance == "balanced":
            own = slice(begins[place], begins[place] + sizes[place])
            scores[place] = balanced_accuracy(y[own], predicted[own])
    return list(zip(scores.tolist(), losses.tolist(), strict=True))


def _add_point(record: dict[str, Any], name: str, round: int, value: float) -> None:
    record["curves"].setdefault(name, []).append([round, float(value) if np.isfinite(value) else None])


def _clock(sessions: Sequence[Session], phase: str, started: float) -> None:
    """Each has its part of the seconds since."""
    elapsed = (time.perf_counter() - started) / max(len(sessions), 1)
    for session in sessions:
        seconds: dict[str, float] = session.record["seconds"]
        seconds[phase] = seconds.get(phase, 0.0) + elapsed


def blank_record() -> dict[str, Any]:
    """``absorbed``: the round of the newest broadcast that was absorbed; ``curves``: by name, [round, value] after each
    round, None for a value that is not finite."""
    return {"seconds": {}, "sent": 0, "received": 0, "took_part": [], "absorbed": -1, "scored": -1, "curves": {}}


def copied_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Apart from what a session changes in it; the points of its curves are never changed."""
    curves = {name: list(points) for name, points in record["curves"].items()}
    return {**record, "curves": curves, "took_part": list(record["took_part"]), "seconds": dict(record["seconds"])}


def checked_copy(state: State, known: dict[int, Any]) -> State:
    """A copy of what a method has learned, which nobody can change; ParcelError for what cannot be saved. ``known``:
    the copies made before, by the id of the original, as sites may share most of it."""
    copies: State = {}
    for key, value in state.items():
        if not isinstance(value, dict | list):
            copies |= frozen({key: value})
            continue
        if id(value) not in known:
            known[id(value)] = value, frozen(value, key)  # held with the original, so that nothing else gets its id
        copies[key] = known[id(value)][1]
    return copies


def learned(site: Site) -> State:
    """What the method holds at this site, without the session's record."""
    return {key: value for key, value in site.state.items() if key != RUN}


def check_sites(method: Method, sites: Sequence[Site]) -> None:
    """Refuse, before anything is trained, a federation that the method cannot run on."""
    if not sites:
        raise DataError("no sites: expected at least one.")
    method.check_sites(sites)


def combines(method: Method) -> bool:
    """Whether sites absorb something else than the parcels themselves."""
    return type(method).combine is not Method.combine


def combine(method: Method, round: int, inbox: Inbox, memory: Memory, seed: int) -> tuple[Broadcast, Memory]:
    """The broadcast of a round, and the memory for the next one; the same wherever it is computed. Where a method does
    not combine, each site checks the parcels itself."""
    if not combines(method):
        return Broadcast(round, inbox), memory
    parcels, left_out = usable(method, inbox, memory)
    if inbox and not parcels:
        why = "; ".join(dict.fromkeys(left_out.values())).rstrip(".")
        raise ParcelError(f"none of the parcels of {len(left_out)} sites can be used: {why}.")
    content, memory = method.combine(parcels, memory, np.random.default_rng(derived_seed(seed, "combine", round)))
    return Broadcast(round, content, left_out), memory


def answer(method: Method, site: Site, X: Any) -> NDArray[np.float64]:
    """Checked class probabilities of a method, which is never asked about no rows."""
    return answer_together(method, [site], [X])[0]


def answer_together(method: Method, sites: Sequence[Site], inputs: Sequence[Any]) -> list[NDArray[np.float64]]:
    """Checked class probabilities at each site for its rows; a site without rows is not asked."""
    counts = [len(X) for X in inputs]
    if not all(counts):
        asked = [place for place, count in enumerate(counts) if count]
        answers = answer_together(method, [sites[place] for place in asked], [inputs[place] for place in asked])
        found = [np.zeros((0, len(site.classes))) for site in sites]
        for place, probabilities in zip(asked, answers, strict=True):
            found[place] = probabilities
        return found
    if len(sites) < 2 or not isinstance(method, AnswersTogether):
        together = [method.predict_proba(site, X) for site, X in zip(sites, inputs, strict=True)]
    else:
        together = list(method.predict_proba_together(sites, inputs))
    found = [np.asarray(probabilities, dtype=np.float64) for probabilities in together]
    expected = [(count, len(site.classes)) for site, count in zip(sites, counts, strict=True)]
    if [each.shape for each in found] != expected or (found and not np.isfinite(np.concatenate(found)).all()):
        for site, probabilities, count in zip(sites, found, counts, strict=True):
            _checked(method, site, probabilities, count)
    return found


def answer_with_details(method: Method, site: Site, X: Any) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Checked class probabilities, and what else the method knows of these answers, decided once."""
    if not len(X) or not isinstance(method, HasDetails):
        return answer(method, site, X), {}
    probabilities, details = method.predict_with_details(site, X)
    kinds = type(method).__mro__
    owners = [
        next(place for place, kind in enumerate(kinds) if name in vars(kind))
        for name in ("predict_proba", "predict_with_details")
    ]
    if owners[0] < owners[1]:  # a subclass answers otherwise, and inherits the details
        probabilities = method.predict_proba(site, X)
    return _checked(method, site, probabilities, len(X)), details


def _checked(method: Method, site: Site, probabilities: Any, rows: int) -> NDArray[np.float64]:
    found = np.asarray(probabilities, dtype=np.float64)
    expected = (rows, len(site.classes))
    finite = bool(np.isfinite(found).all())
    if found.shape != expected or not finite:
        raise BadOutputs(
            f"method {method.called} at site {site.name!r} answered with shape {found.shape}"
            f"{'' if finite else ' and non-finite values'}: expected finite numbers of shape {expected}."
        )
    return found
