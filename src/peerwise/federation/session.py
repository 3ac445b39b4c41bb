"""Session: one method at one site, round by round. The simulator, a real peer and a Flower client all drive it."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Site, derived_seed
from peerwise.errors import BadOutputs, ConfigError, DataError, ModelError, ParcelError, reason
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
from peerwise.models import one_thread
from peerwise.parcels import Parcel, frozen, sizes_of

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
        self.phase = "share"
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
        return step_together([self], broadcast, round, {self.site.name} if shares else ()).get(self.site.name, Parcel())

    def finish(self, broadcast: Broadcast | None = None) -> None:
        """After the last round: absorb the last broadcast, score, and restore the best state."""
        self.step(broadcast, self.method.rounds, shares=False)
        self.restore_best()

    def restore_best(self) -> None:
        """Go back to the best state, if any. Privacy counts all rounds, also those after the best one."""
        self.record["privacy"] = _fixed("privacy", privacy_of(self.method, self.site)) if learned(self.site) else None
        if self.best is not None:
            self.site.state = {**self.best, RUN: self.record}

    def _absorb(self, broadcast: Broadcast) -> bool:
        """Absorb what is for this site; False if nothing is."""
        content = broadcast.content
        mine = content.get(self.site.name) if self.method.addresses_sites else content
        if mine is None:
            return False
        self.record["received"] += self._bytes_of(mine)
        left_out = broadcast.left_out
        if not combines(self.method):
            mine, left_out = usable(self.method, mine, {})
        self._thaw()
        self.method.absorb(self.site, broadcast.round, mine)
        self._note_left_out(left_out)
        return True

    def _thaw(self) -> None:
        """Let the method change its state in place, which other sites, a checkpoint or a broadcast may share."""
        self.site.state = {RUN: self.record, **{key: _thawed(value) for key, value in learned(self.site).items()}}

    def _note_left_out(self, left_out: Mapping[str, str]) -> None:
        if left_out:
            named = {full_name("*", sender): why for sender, why in left_out.items()}
            self.site.state[PEERS_LEFT_OUT] = {**self.site.state.get(PEERS_LEFT_OUT, {}), **named}

    def _has_changed(self, round: int) -> bool:
        """Whether the site has shared in ``round``, and nothing has scored it since."""
        record = self.record
        return bool(record["scored"] < round and record["took_part"][-1:] == [round])

    def _judge(self, round: int, score: float, loss: float, known: dict[int, Any]) -> None:
        """Keep a copy of the state if it is the best so far."""
        record = self.record
        _add_point(record, VALIDATION, round, score)
        before = record.get("best_score", -math.inf), -record.get("best_loss", math.inf)
        if self.method.keeps_last or (score, -loss) > before:
            self.best = checked_copy(self.site.state, known)
            record["best_round"], record["best_score"], record["best_loss"] = round, score, loss
            self.improved = True

    def _bytes_of(self, content: Inbox | Parcel) -> int:
        """A site need not receive the parcel that it sent itself."""
        if isinstance(content, Parcel):
            return content.nbytes
        both_ways = combines(self.method)
        return sum(size for sender, size in sizes_of(content).items() if both_ways or sender != self.site.name)


def step_together(
    sessions: Sequence[Session], broadcast: Broadcast | None, round: int, sharing: Collection[str]
) -> dict[str, Parcel]:
    """One step of sessions of the same method, in less time where the method can work on many sites at once: what each
    of the sites ``sharing`` has to send. On error all states are undefined; ``phase`` is the verb a session has come
    to."""
    for session in sessions:
        session.improved, session.phase = False, "absorb"
    absorbed = _absorb(sessions, broadcast)
    _score([each for each in sessions if each in absorbed or each._has_changed(round - 1)], round - 1)
    sharers = [session for session in sessions if session.site.name in sharing]
    for session in sharers:
        session.phase = "share"
    return _share(sharers, round)


def _absorb(sessions: Sequence[Session], broadcast: Broadcast | None) -> set[Session]:
    """Absorb the broadcast where that was not done before: the sessions in which there was anything new."""
    found = [] if broadcast is None else [each for each in sessions if each.record["absorbed"] < broadcast.round]
    if broadcast is None or not found:
        return set()
    method, content = found[0].method, broadcast.content
    started = time.perf_counter()
    for session in found:
        session.record["absorbed"] = broadcast.round
    if (
        isinstance(content, Parcel)
        and isinstance(method, AbsorbsTogether)
        and method.absorb_together([session.site for session in found], broadcast.round, content)
    ):
        nbytes = content.nbytes
        for session in found:
            session.record["received"] += nbytes
            session._note_left_out(broadcast.left_out)
    else:
        found = [session for session in found if session._absorb(broadcast)]
    _clock(found, "absorb", started)
    return set(found)


def _share(sessions: Sequence[Session], round: int) -> dict[str, Parcel]:
    """The methods' parcels; their bytes count as sent."""
    started = time.perf_counter()
    parcels: dict[str, Parcel] = {}
    shared: Sequence[Parcel | None] = [None] * len(sessions)
    if len(sessions) > 1 and isinstance(method := sessions[0].method, TrainsTogether):
        shared = method.share_together([session.site for session in sessions], round)
    for session, parcel in zip(sessions, shared, strict=True):
        if parcel is None:
            session._thaw()
            parcel = session.method.share(session.site, round)
        parcels[session.site.name] = parcel = parcel.frozen()
        session.record["took_part"].append(round)
        session.record["sent"] += parcel.nbytes
    _clock(sessions, "share", started)
    return parcels


def _score(sessions: Sequence[Session], round: int) -> None:
    """Add a point to each curve, and score the states on the validation rows; each that is its site's best is kept."""
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
            _add_point(session.record, name, round, float(value))
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
    points = record["curves"].setdefault(name, [])
    while points and points[-1][0] >= round:  # of a step that was interrupted and is taken again
        points.pop()
    points.append([round, value if math.isfinite(value) else None])


def _clock(sessions: Collection[Session], phase: str, started: float) -> None:
    """Add an equal part of the time since to each record."""
    elapsed = (time.perf_counter() - started) / max(len(sessions), 1)
    for session in sessions:
        seconds: dict[str, float] = session.record["seconds"]
        seconds[phase] = seconds.get(phase, 0.0) + elapsed


def blank_record() -> dict[str, Any]:
    """``absorbed``: the round of the newest broadcast that was absorbed; ``curves``: by name, [round, value] after each
    round, None for a value that is not finite."""
    return {"seconds": {}, "sent": 0, "received": 0, "took_part": [], "absorbed": -1, "scored": -1, "curves": {}}


def copied_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """A copy for a session to change. Curves, which are long, are shared: a step taken again replaces its points."""
    return {**record, "took_part": list(record["took_part"]), "seconds": dict(record["seconds"])}


def checked_copy(state: State, known: dict[int, Any]) -> State:
    """What a method has learned, in a copy that nobody can change. ``known``: the copies made before, by the id of the
    original, as sites may share most of it."""
    copies: State = {}
    for key, value in state.items():
        if key == RUN:
            continue
        if id(value) not in known:
            known[id(value)] = value, _fixed(key, value)  # held, so that nothing else gets its id
        copies[key] = known[id(value)][1]
    return copies


def _fixed(key: str, value: Any) -> Any:
    try:
        return frozen({key: value})[key]
    except ParcelError as error:
        raise ModelError(f"its state cannot be saved: {error}") from error


def _thawed(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, dict):
        return {key: _thawed(inner) for key, inner in value.items()}
    return list(map(_thawed, value)) if isinstance(value, list) else value


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


def next_broadcast(
    method: Method, round: int, inbox: Mapping[str, Any], last: Broadcast | None, memory: Memory, seed: int
) -> tuple[Broadcast | None, Memory]:
    """The hub's part of a round: what the sites absorb next, and the memory. Where the method does not combine, these
    are the parcels, unread; where there is nothing to combine, the ``last`` broadcast. ModelError if combining them
    fails."""
    if not combines(method):
        return Broadcast(round, inbox), memory
    if not inbox:
        return last, memory
    try:
        with one_thread():
            return combine(method, round, inbox, memory, seed)
    except (ConfigError, OSError, MemoryError):
        raise
    except Exception as error:
        raise ModelError(
            f"{method.called}: the parcels of round {round} cannot be combined: {reason(error)} If the values are not "
            f"finite, lower the learning rate."
        ) from error


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
