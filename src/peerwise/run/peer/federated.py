"""A method with rounds between real sites. The founder is the hub: it ends a round by quorum or deadline, combines, and
tells all; every site is told by the same signed parcel, so nobody can drift.

run               the hub: which run it is, by which method
run-R-round-K     every site: what it says in a round; taken back when the next one is said
told              the hub: the newest round that has ended, who was heard (the hash of each parcel), what came of it

A site that was away, or comes late, hears what was told last and takes part from the next round on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from peerwise.data import Site
from peerwise.errors import ConfigError, ExchangeError, ParcelError
from peerwise.exchange.shelf import Shelf
from peerwise.exchange.signed import SignedExchange
from peerwise.methods import Inbox, Memory, Method
from peerwise.models.worker import Worker
from peerwise.parcels import Parcel, Store
from peerwise.parcels.signed import unseal
from peerwise.run.one_turn import take_turn
from peerwise.run.peer.fitting import compared, own_answers, save_bundle
from peerwise.run.peer.folder import PeerFolder
from peerwise.run.peer.pulling import note_once, take_list
from peerwise.run.rounds import combined

PAUSE = 0.2
GRACE = 60.0  # seconds after its deadline in which the hub may still tell of a round
AT, HUB = "at", "hub"

Tell = Callable[[str], None]


def fit_by_rounds(
    peer: PeerFolder, method: Method, shelf: Shelf, worker: Worker, *, again: bool = False, tell: Tell
) -> dict[str, Any]:
    """All rounds that are left, then the bundle. Killed at any moment, the same command goes on where it stopped."""

    def refused(site: str, topic: str, why: str) -> None:
        note_once(peer, site, topic, why)

    with peer.held():
        take_list(peer, shelf)
        site = peer.site()
        site.opener = worker.open
        federated = _Federated(peer, method, peer.exchange(shelf, refused), tell, Store(peer.path / "rounds"))
        federated.run = federated.agreed_run(again)
        heard = federated.all_rounds(site)
        found = own = None
        if len(site.val):
            found, own = method.predict_proba(site, site.val.X), own_answers(site)
        report = {
            "validation": None if found is None or own is None else compared(peer, site, found, own),
            "peers": dict.fromkeys(sorted(set(heard) - {peer.name}), federated.run),
            "left_out": {},
            "fell_back": None,
            "instability": None,
            "chosen_on_validation": True,
        }
        save_bundle(peer, site, report, by_rounds=True)
        return report


@dataclass
class _Federated:
    """``store``: "at", where this site stands (run, newest round it has shared in, state, best state, what it said);
    "hub", at the hub, the newest round that it has ended, with the memory and what it told."""

    peer: PeerFolder
    method: Method
    exchange: SignedExchange
    tell: Tell
    store: Store
    run: int = 0

    @property
    def hub(self) -> str:
        return self.peer.federation.founder

    def agreed_run(self, again: bool) -> int:
        """The number of the run that the hub has announced; the hub announces the next one when it begins anew."""
        wanted = {"method": self.peer.settings.method, "settings": self.peer.settings.method_settings}
        if self.peer.is_founder:
            last = self._said("run")
            if last is not None and not again and {key: last[key] for key in wanted} == wanted:
                return int(last["run"])
            number = 1 if last is None else int(last["run"]) + 1
            self.exchange.say("run", Parcel(run=number, rounds=self.method.rounds, **wanted))
            return number
        done = self._kept(AT).get("run", 0) if again else 0
        told = self._waited("run", lambda parcel: int(parcel["run"]) > done, "begin the rounds")
        if {key: told[key] for key in wanted} != wanted or told["rounds"] != self.method.rounds:
            raise ConfigError(
                f"the founder runs {told['method']} with {told['settings']}, this site {wanted['method']} with "
                f"{wanted['settings']}: expected the same. Change peerwise.toml."
            )
        return int(told["run"])

    def all_rounds(self, site: Site) -> list[str]:
        """Everybody who was heard in the last round; the site is ready to answer afterwards."""
        at = self._kept(AT)
        if at.get("run") != self.run:
            at = {"run": self.run, "round": -1, "state": None, "best": None, "parcel": {}}
        told = self._newest()
        while told["round"] < self.method.rounds - 1:
            round = told["round"] + 1
            if at["round"] < round:
                at = self._turn(site, at, round, told)
            self._post(round, at)
            if self.peer.is_founder:
                self._end_round(round, site)
            told = self._after(round)
            heard = ", ".join(sorted(told["heard"])) or "nobody"
            self.tell(f"round {told['round'] + 1} of {self.method.rounds}: heard {heard}")
        take_turn(self.method, site, at["state"], None, _as_told(told), best=at["best"])
        return sorted(told["heard"])

    def _turn(self, site: Site, at: dict[str, Any], round: int, told: Parcel) -> dict[str, Any]:
        """Kept before it is said: what a site has said it never says otherwise."""
        before = at["round"]
        turn = take_turn(self.method, site, at["state"], round, _as_told(told))
        best = at["best"] if turn.best is None else turn.best
        now = {"run": self.run, "round": round, "state": turn.state, "best": best, "parcel": dict(turn.parcel)}
        self._keep(AT, now)
        if before >= 0 and self.exchange.shelf.manifest(self.peer.name, self._topic(before)):
            self.exchange.withdraw(self._topic(before), "the round has ended")
        return now

    def _post(self, round: int, at: dict[str, Any]) -> None:
        if at["parcel"] and self.exchange.shelf.manifest(self.peer.name, self._topic(round)) is None:
            self.exchange.say(self._topic(round), Parcel(**at["parcel"]))

    def _end_round(self, round: int, site: Site) -> None:
        """At the hub; what it tells is kept first, so that it can be told again."""
        kept = self._kept(HUB)
        ours = kept.get("run") == self.run
        if not ours or kept["round"] < round:
            quorum = self.peer.settings.quorum or len(self.exchange.roster.names)
            inbox = self.exchange.gather(self._topic(round), quorum, self.peer.settings.deadline)
            memory = kept["memory"] if ours else {}
            kept = {"run": self.run, "round": round, **self._combined(round, inbox, memory, site.seed)}
            self._keep(HUB, kept)
        if self._newest()["round"] < round:
            self.exchange.say("told", Parcel(run=self.run, round=round, **kept["told"]))

    def _combined(self, round: int, inbox: Inbox, memory: Memory, seed: int) -> dict[str, Any]:
        heard = {name: self._digest(name, round) for name in inbox}
        one = named = None
        if inbox:
            told, memory = combined(self.method, round, inbox, memory, seed)
            one = dict(told) if isinstance(told, Parcel) else None
            named = None if isinstance(told, Parcel) else {name: dict(parcel) for name, parcel in told.items()}
        return {"memory": memory, "told": {"heard": heard, "one": one, "named": named}}

    def _digest(self, name: str, round: int) -> str:
        found = self.exchange.fetch(name, self._topic(round))
        return found[0].digest if found else ""

    def _newest(self) -> Parcel:
        """What the hub told last in this run."""
        told = self._said("told") if self.peer.is_founder else self._heard("told")
        if told is not None and told["run"] == self.run:
            return told
        return Parcel(run=self.run, round=-1, heard={}, one=None, named=None)

    def _after(self, round: int) -> Parcel:
        return self._waited("told", lambda told: told["run"] == self.run and told["round"] >= round, "end the round")

    def _said(self, topic: str) -> Parcel | None:
        found = self.exchange.fetch(self.hub, topic)
        return None if found is None else unseal(found[0], self.exchange.blobs(found[0]))

    def _heard(self, topic: str) -> Parcel | None:
        """As far as the hub can be reached now."""
        try:
            return self._said(topic)
        except ExchangeError:
            return None

    def _waited(self, topic: str, right: Callable[[Parcel], bool], what: str) -> Parcel:
        """What the hub says on a topic, as soon as it does."""
        patience = self.peer.settings.deadline + GRACE
        until = time.monotonic() + patience
        why = "it has said nothing yet"
        while True:
            try:
                parcel = self._said(topic)
                if parcel is not None and right(parcel):
                    return parcel
            except (ParcelError, ExchangeError) as error:
                why = str(error)
            if time.monotonic() > until:
                raise ExchangeError(
                    f"the hub {self.hub!r} did not {what} within {patience:.0f} seconds ({why}): expected it to take "
                    f"part. Run 'peerwise fit' there too, and here again: it goes on where it stopped."
                )
            time.sleep(PAUSE)

    def _topic(self, round: int) -> str:
        return f"run-{self.run}-round-{round}"

    def _kept(self, name: str) -> dict[str, Any]:
        return self.store.load(name) if self.store.has(name) else {}

    def _keep(self, name: str, tree: dict[str, Any]) -> None:
        self.store.save(name, tree)
        self.store.remove_unused()


def _as_told(told: Parcel) -> tuple[int, Any] | None:
    """As a turn takes it: the newest round with what came of it, which is nothing where nobody was heard."""
    if told["one"] is not None:
        return told["round"], Parcel(**told["one"])
    if told["named"] is not None:
        return told["round"], {name: Parcel(**items) for name, items in told["named"].items()}
    return None
