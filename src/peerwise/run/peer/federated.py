"""A method with rounds between real sites. The founder is the hub: it ends a round by quorum or deadline, combines, and
tells all; every site is told by the same signed parcel, so nobody can drift.

run               the hub: which run it is, by which method
run-R-round-K     every site: what it says in a round, if only that it has nothing to say; taken back afterwards
told              the hub: the newest round that has ended, who was heard (the hash of each parcel), what was told last

A site that was away, or comes late, hears what was told last and takes part from the next round on.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peerwise.data import Site
from peerwise.errors import ConfigError, ExchangeError, ParcelError, reason
from peerwise.exchange.lazy import LazyParcels
from peerwise.exchange.shelf import Shelf
from peerwise.exchange.signed import SignedExchange
from peerwise.methods import Method
from peerwise.methods.pool_models import PEERS_LEFT_OUT
from peerwise.models.worker import Worker
from peerwise.parcels import Parcel, Store
from peerwise.run.one_turn import Turn, take_turn
from peerwise.run.peer.fitting import compared, own_answers, saved
from peerwise.run.peer.folder import PeerFolder
from peerwise.run.peer.hub import GRACE, NOTHING, PAUSE, Hub
from peerwise.run.peer.pulling import note_once, take_list
from peerwise.run.peer.record import Seen
from peerwise.run.rounds import check_sites, combined, combines

AT, HUB, FETCHED = "at", "hub", "fetched"
BLANK: dict[str, Any] = {"round": -1, "state": None, "best": None, "parcel": {}, "topic": "", "before": ""}

Tell = Callable[[str], None]


def fit_by_rounds(
    peer: PeerFolder,
    method: Method,
    shelf: Shelf,
    worker: Worker,
    *,
    again: bool = False,
    use_peers: bool = False,
    tell: Tell,
) -> dict[str, Any]:
    """All rounds that are left, then the bundle. Killed at any moment, the same command goes on where it stopped.
    ``use_peers``: see `fit`."""

    def refused(site: str, topic: str, why: str) -> None:
        note_once(peer, site, topic, why)

    with peer.held():
        take_list(peer, shelf)
        site = peer.site()
        site.opener = worker.open
        check_sites(method, [site])
        store, fetched = Store(peer.path / "rounds"), peer.path / FETCHED
        exchange = peer.exchange(shelf, refused, have=fetched)
        hub = Hub(peer, exchange)
        run = hub.agreed_run(method.rounds, again=again, done=_kept(store, AT).get("run", 0))
        heard = _Federated(peer, method, exchange, hub, run, tell, store, fetched).all_rounds(site)
        seen, validation = Seen(), None
        if len(site.val):
            seen.ours, seen.own = method.predict_proba(site, site.val.X), own_answers(site)
            validation = compared(peer, site, seen.ours, method.answers(site, seen.ours), seen.own)
        report = {
            "validation": validation,
            "peers": dict.fromkeys(sorted(set(heard) - {peer.name}), run),
            "left_out": dict(site.state.get(PEERS_LEFT_OUT, {})),
            "fell_back": None,
            "instability": None,
            "chosen_on_validation": True,
        }
        return saved(peer, method, site, seen, report, use_peers=use_peers, by_rounds=True)


@dataclass
class _Federated:
    """``store``: "at", where this site stands (run, newest round it has shared in, state, best state, what it said and
    on which topic, and on which one before); "hub", at the hub, the newest round that it has ended, with the memory
    and what it told."""

    peer: PeerFolder
    method: Method
    exchange: SignedExchange
    hub: Hub
    run: int
    tell: Tell
    store: Store
    fetched: Path

    def all_rounds(self, site: Site) -> list[str]:
        """Everybody who was heard in any round; the site is ready to answer afterwards."""
        at = _kept(self.store, AT)
        if at.get("run") != self.run:
            at = {**BLANK, "run": self.run, "topic": at.get("topic", "")}
        told = self.hub.newest(self.run)
        while told["round"] < self.method.rounds - 1:
            round = told["round"] + 1
            if at["round"] < round:
                at = self._turn(site, at, round, told)
            self._take_back(at["before"])
            self._post(at)
            if self.peer.is_founder:
                self._end_round(round, site)
            told = self.hub.after(self.run, round)
            heard = ", ".join(sorted(told["heard"])) or "nobody"
            self.tell(f"round {told['round'] + 1} of {self.method.rounds}: heard {heard}")
            self._note(told)
            shutil.rmtree(self.fetched, ignore_errors=True)  # nobody needs it any more
        self._take_back(at["topic"])
        if self.peer.is_founder and self.peer.settings.meeting.is_live:
            self._until_heard(told)
        self._taken(site, at, None, told)
        return list(told["ever"])

    def _turn(self, site: Site, at: dict[str, Any], round: int, told: Parcel) -> dict[str, Any]:
        """Kept before it is said: what a site has said it never says otherwise."""
        turn = self._taken(site, at, round, told)
        best = at["best"] if turn.best is None else turn.best
        now = {"run": self.run, "round": round, "state": turn.state, "best": best, "parcel": dict(turn.parcel)}
        now |= {"topic": self._topic(round), "before": at["topic"]}
        self._keep(AT, now)
        return now

    def _taken(self, site: Site, at: dict[str, Any], round: int | None, told: Parcel) -> Turn:
        """One turn; without what was told where that cannot be used here, or carries the own net away."""
        try:
            return take_turn(self.method, site, at["state"], round, _as_told(told), best=at["best"])
        except (ConfigError, OSError, MemoryError):
            raise
        except Exception as error:
            if _as_told(told) is None:
                raise
            self._complain(told, f"what was told cannot be used here: {reason(error)}")
            state = None if at["state"] is None else _kept(self.store, AT)["state"]  # the other may be in pieces
            return take_turn(self.method, site, state, round, None, best=at["best"])

    def _complain(self, told: Parcel | dict[str, Any], why: str) -> None:
        self.tell(why)
        note_once(self.peer, self.hub.name, self._topic(told["of"]), why)

    def _post(self, at: dict[str, Any]) -> None:
        if not self._is_shown(at["topic"], spoilt=False):
            self.exchange.say(at["topic"], Parcel(**at["parcel"]))

    def _take_back(self, topic: str) -> None:
        """What was said in a round that has ended is of no use to anybody."""
        if topic and self._is_shown(topic, spoilt=True):
            self.exchange.withdraw(topic, "the round has ended")

    def _is_shown(self, topic: str, *, spoilt: bool) -> bool:
        """Whether the others see what this site says there; ``spoilt`` where it has ended, or somebody has changed what
        lies there."""
        try:
            found = self.exchange.fetch(self.peer.name, topic)
        except ParcelError:
            return spoilt
        return found is not None and found[0].withdrawn is None

    def _end_round(self, round: int, site: Site) -> None:
        """At the hub; what it tells is kept first, so that it can be told again."""
        kept = _kept(self.store, HUB)
        if kept.get("run") != self.run:
            kept = {"run": self.run, "round": -1, "memory": {}, "told": NOTHING}
        if kept["round"] < round:
            quorum = self.peer.settings.quorum or len(self.exchange.roster.names)
            inbox = self.exchange.gather(self._topic(round), quorum, self.peer.settings.deadline)
            kept = {"run": self.run, "round": round, **self._combined(round, inbox, kept, site.seed)}
            self._keep(HUB, kept)
        if self.hub.newest(self.run)["round"] < kept["round"]:
            self.exchange.say("told", Parcel(run=self.run, round=kept["round"], **kept["told"]))

    def _combined(self, round: int, inbox: LazyParcels, kept: dict[str, Any], seed: int) -> dict[str, Any]:
        """The new memory, and what is told; after a round in which nobody had anything to say, the same as before."""
        said = LazyParcels({name: size for name, size in inbox.sizes.items() if inbox[name]}, inbox.__getitem__)
        memory, told = kept["memory"], {**kept["told"], "heard": dict(inbox.digests)}
        told["ever"] = sorted({*told["ever"], *inbox})
        if said or not combines(self.method):
            try:
                found, memory = combined(self.method, round, said, memory, seed)
            except (ConfigError, OSError, MemoryError):
                raise
            except Exception as error:  # it would be so again, and everybody waits
                self._complain({"of": round}, f"what was said cannot be combined: {reason(error)}")
                return {"memory": memory, "told": told}
            one = dict(found) if isinstance(found, Parcel) else None
            named = None if isinstance(found, Parcel) else {name: dict(parcel) for name, parcel in found.items()}
            told |= {"of": round, "one": one, "named": named}
        return {"memory": memory, "told": told}

    def _note(self, told: Parcel) -> None:
        """Whom the hub could not use in a round, and why."""
        for name, why in dict((told["one"] or {}).get("left_out", {})).items():
            note_once(self.peer, name.rpartition("@")[2], self._topic(told["of"]), why)

    def _until_heard(self, told: Parcel) -> None:
        """Where nobody else shows what the hub says, it stays until the others have taken back their last words, or
        are gone."""
        left, until = set(told["heard"]) - {self.hub.name}, time.monotonic() + GRACE
        while left and time.monotonic() < until:
            left = {name for name in left if self._still_waits(name)}
            time.sleep(PAUSE if left else 0)

    def _still_waits(self, name: str) -> bool:
        try:
            found = self.exchange.fetch(name, self._topic(self.method.rounds - 1))
        except (ParcelError, ExchangeError):
            return False
        return found is not None and found[0].withdrawn is None

    def _topic(self, round: int) -> str:
        return f"run-{self.run}-round-{round}"

    def _keep(self, name: str, tree: dict[str, Any]) -> None:
        self.store.save(name, tree)
        self.store.remove_unused()


def _as_told(told: Parcel) -> tuple[int, Any] | None:
    """As a turn takes it: the newest round of which anything was told, and that."""
    if told["one"] is not None:
        return told["of"], Parcel(**told["one"])
    if told["named"] is not None:
        return told["of"], {name: Parcel(**items) for name, items in told["named"].items()}
    return None


def _kept(store: Store, name: str) -> dict[str, Any]:
    return store.load(name) if store.has(name) else {}
