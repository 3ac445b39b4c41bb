"""A method with rounds between real sites. The founder is the hub: it ends a round by quorum or deadline, combines the
parcels and broadcasts the result. All sites, the hub too, absorb the same signed broadcast.

run-R-round-K     by every site: its parcel of a round, be it empty; withdrawn after the round
broadcast         by the hub: the run and its settings, the newest round that has ended, and what was combined last

A site that was away, or comes late, absorbs the newest broadcast and takes part from the next round on.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from peerwise.data import Site
from peerwise.errors import ConfigError, ExchangeError, ParcelError, reason
from peerwise.federation import PEERS_LEFT_OUT, Broadcast, Method, Session, answer_codes, check_sites, next_broadcast
from peerwise.federation.cleaning import LONGEST_REASON
from peerwise.models import one_thread
from peerwise.models.worker import Worker
from peerwise.parcels import LazyParcels, Parcel, Store
from peerwise.parcels.signed.fields import NAME
from peerwise.run.peer.arrivals import note_once
from peerwise.run.peer.fitting import compared, own_answers, saved
from peerwise.run.peer.folder import PeerFolder
from peerwise.run.peer.pulling import take_list
from peerwise.run.peer.record import Seen
from peerwise.transport import Transport

BROADCAST = "broadcast"
PAUSE = 0.2
GRACE = 60.0  # seconds after its deadline in which the hub may still broadcast a round
LONGEST_WAIT = 30 * 24 * 3600.0
MOST = 10**9  # runs, and rounds
ALL = "*"  # no site's name
# ``parcels``: digests by site; ``sites``: all whose parcels were in any round; ``content``: what was combined last, in
# round ``combined``: the items of a parcel by the name of the site, or for ALL; ``left_out``: why others are not in it.
BLANK: dict[str, Any] = {"round": -1, "parcels": {}, "sites": [], "combined": -1, "content": None, "left_out": {}}

Tell = Callable[[str], None]
Result = TypeVar("Result")


def fit_by_rounds(
    peer: PeerFolder,
    method: Method,
    transport: Transport,
    worker: Worker,
    *,
    again: bool = False,
    use_peers: bool = False,
    tell: Tell,
) -> dict[str, Any]:
    """All rounds that are left, then the bundle. Killed at any moment, the same command goes on where it stopped.
    ``use_peers``: see `fit`."""
    with peer.held():
        take_list(peer, transport)
        site = peer.site().replace(opener=worker.open)
        check_sites(method, [site])
        rounds = _Rounds(peer, method, site, transport, tell)
        sites = rounds.all_rounds(again=again)
        seen, validation = Seen(), None
        if len(site.val):
            seen.ours, seen.own = method.predict_proba(site, site.val.X), own_answers(site)
            validation = compared(peer, site, seen.ours, answer_codes(method, site, seen.ours), seen.own)
        report = {
            "validation": validation,
            "peers": dict.fromkeys(sorted(set(sites) - {peer.name}), rounds.run),
            "left_out": dict(site.state.get(PEERS_LEFT_OUT, {})),
            "fell_back": None,
            "instability": None,
            "chosen_on_validation": True,
        }
        return saved(peer, method, site, seen, report, use_peers=use_peers, by_rounds=True)


class _Rounds:
    """One site's part in a run. All that it needs to go on is kept in two trees: "site" (run, the newest round it has
    shared in, state, best state, its parcel and on which topic, the topic before) and, at the hub, "hub" (run, the
    newest round it has ended, memory, broadcast). Both are kept before they are published, so that what is published
    never changes."""

    def __init__(self, peer: PeerFolder, method: Method, site: Site, transport: Transport, tell: Tell) -> None:
        self.peer, self.method, self.site, self.tell = peer, method, site, tell
        self.run = 0
        self._hub, self._patience = peer.federation.founder, peer.settings.deadline + GRACE
        self._store, self._fetched = Store(peer.path / "rounds"), peer.path / "fetched"
        self._signed = peer.signed(transport, self._note, cache=self._fetched)
        self._newest = "", Parcel()  # digest and content

    def _begun(self, *, again: bool) -> Parcel:
        """The newest broadcast of the run that goes on, or of the next one; another run than before if ``again``."""
        settings, before = self.peer.settings, self._kept("site").get("run", 0)
        ours = {"method": settings.method, "settings": settings.method_settings, "seed": settings.seed}
        ours["rounds"] = self.method.rounds
        if not self.peer.is_founder:
            newest = self._wait_for(lambda one: bool(one) and (not again or one["run"] > before), "begin the rounds")
            if theirs := {key: newest[key] for key in ours if newest[key] != ours[key]}:
                raise ConfigError(
                    f"the founder runs {newest['method']} with {_listed(theirs)}, this site with "
                    f"{_listed({key: ours[key] for key in theirs})}: expected the same. Change peerwise.toml."
                )
            self._patience = max(self._patience, newest["deadline"] + GRACE)
            return newest
        try:
            newest = self._broadcast()
        except ParcelError:  # expired, or somebody has changed it: the others would wait for one that can be read
            newest = Parcel()
        if newest and not again and {key: newest[key] for key in ours} == ours:
            return newest
        number = max(before, int(newest.get("run", 0))) + 1
        newest = Parcel(**BLANK, **ours, run=number, deadline=settings.deadline)
        self._signed.publish(BROADCAST, newest)
        return newest

    def all_rounds(self, *, again: bool) -> list[str]:
        """The names of all whose parcels were combined; the site is ready to answer afterwards."""
        newest = self._begun(again=again)
        self.run = int(newest["run"])
        while newest["round"] < self.method.rounds - 1:
            round = newest["round"] + 1
            at = self._shared(round, newest)
            self._withdraw(at["before"])
            if self._is_public(self.peer.name, at["topic"]) is not True:
                self._signed.publish(at["topic"], Parcel(**at["parcel"]))
            if self.peer.is_founder:
                self._end_round(round, newest)
            newest = self._wait_for(partial(self._has_ended, round), "end the round")
            names = ", ".join(sorted(newest["parcels"])) or "nothing"
            self.tell(f"round {newest['round'] + 1} of {self.method.rounds}: combined {names}")
            for name, why in newest["left_out"].items():  # of a parcel that the hub could not use
                self._note(name, self._topic(newest["combined"]), why)
            shutil.rmtree(self._fetched, ignore_errors=True)  # nobody needs it any more
        self._withdraw(self._kept("site").get("topic", ""))
        if self.peer.is_founder and self.peer.settings.meeting.is_live:
            self._stay(set(newest["parcels"]) - {self.peer.name})
        self._step(None, newest)
        return list(newest["sites"])

    def _has_ended(self, round: int, broadcast: Parcel) -> bool:
        return bool(broadcast) and broadcast["run"] == self.run and broadcast["round"] >= round

    def _shared(self, round: int, newest: Parcel) -> dict[str, Any]:
        """What this site shares in a round, as it is kept."""
        before = self._kept("site")
        if before.get("run") == self.run and before["round"] >= round:
            return before
        session, parcel = self._step(round, newest)
        now = {"run": self.run, "round": round, "state": self.site.state, "best": session.best, "parcel": dict(parcel)}
        return self._keep("site", {**now, "topic": self._topic(round), "before": before.get("topic", "")})

    def _step(self, round: int | None, newest: Parcel) -> tuple[Session, Parcel]:
        """One session step (``round`` None finishes); repeated without the broadcast if absorbing it raises."""
        done, broadcast = None, _content(newest)
        if broadcast is not None:
            step = partial(self._stepped, round, broadcast)
            done = self._tried(step, newest["combined"], "the broadcast cannot be used here")
        return done or self._stepped(round, None)

    def _stepped(self, round: int | None, broadcast: Broadcast | None) -> tuple[Session, Parcel]:
        kept = self._kept("site")  # read anew: a step that failed may have left the state in pieces
        states = (kept["state"], kept["best"]) if kept.get("run") == self.run else (None, None)
        with one_thread():
            session = Session(self.method, self.site, *states)
            if round is not None:
                return session, session.step(broadcast, round)
            session.finish(broadcast)
            return session, Parcel()

    def _end_round(self, round: int, newest: Parcel) -> None:
        kept = self._kept("hub")
        if kept.get("run") != self.run:
            kept = {"run": self.run, "round": -1, "memory": {}, "broadcast": dict(newest)}
        if kept["round"] < round:
            quorum = self.peer.settings.quorum or len(self._signed.roster.names)
            inbox = self._signed.gather(self._topic(round), quorum, self.peer.settings.deadline)
            memory, broadcast = self._combined(round, inbox, kept["memory"], kept["broadcast"])
            kept = self._keep("hub", {"run": self.run, "round": round, "memory": memory, "broadcast": broadcast})
        if newest["round"] < kept["round"]:
            self._signed.publish(BROADCAST, Parcel(**kept["broadcast"]))

    def _combined(
        self, round: int, inbox: LazyParcels, memory: dict[str, Any], last: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The new memory, and the broadcast; its content is the last one's where no site had anything to share."""
        shared = LazyParcels({name: size for name, size in inbox.sizes.items() if inbox[name]}, inbox.__getitem__)
        names = sorted({*last["sites"], *inbox})
        broadcast = {**last, "round": round, "parcels": dict(inbox.digests), "sites": names}
        work = partial(next_broadcast, self.method, round, shared, None, memory, self.site.seed)
        found, memory = self._tried(work, round, "the last broadcast stands") or (None, memory)
        if found is None:  # or after an error: a retry would fail again while all sites wait
            return memory, broadcast
        by_site = {ALL: found.content} if isinstance(found.content, Parcel) else found.content
        content = {name: dict(parcel) for name, parcel in by_site.items()}
        return memory, {**broadcast, "combined": round, "content": content, "left_out": dict(found.left_out)}

    def _stay(self, others: set[str]) -> None:
        """Where the hub alone serves its broadcast: until the others have withdrawn their last parcels, or are gone."""
        until, topic = time.monotonic() + GRACE, self._topic(self.method.rounds - 1)
        while others and time.monotonic() < until:
            others = {name for name in others if self._is_public(name, topic)}
            time.sleep(PAUSE if others else 0)

    def _wait_for(self, right: Callable[[Parcel], bool], what: str) -> Parcel:
        """The hub's broadcast, as soon as it is right."""
        until = time.monotonic() + self._patience
        why = "it has published nothing yet"
        while True:
            try:
                newest = self._broadcast()
                if right(newest):
                    return newest
            except (ParcelError, ExchangeError) as error:
                why = str(error)
            if time.monotonic() > until:
                raise ExchangeError(
                    f"the hub {self._hub!r} did not {what} within {self._patience:.0f} seconds ({why}): expected it to "
                    f"take part. Run 'peerwise fit' there too, and here again: it goes on where it stopped."
                )
            time.sleep(PAUSE)

    def _broadcast(self) -> Parcel:
        """What the hub broadcasts now, empty for nothing; the same one is read once."""
        found = self._signed.fetch(self._hub, BROADCAST)
        if found is None:
            return Parcel()
        if found.manifest.digest != self._newest[0]:
            newest = found.read()
            if set(newest) != set(FIELDS) or not all(right(newest[name]) for name, right in FIELDS.items()):
                raise ParcelError(
                    f"what the hub broadcasts makes no sense ({repr(dict(newest))[:200]}): ask its founder."
                )
            self._newest = found.manifest.digest, newest
        return self._newest[1]

    def _is_public(self, name: str, topic: str) -> bool | None:
        """True if published; False if missing, withdrawn or, at another site, unreachable; None if expired or tampered
        with."""
        try:
            found = self._signed.fetch(name, topic)
        except ParcelError:
            return None
        except ExchangeError:
            if name == self.peer.name:
                raise
            return False
        return found is not None and found.manifest.withdrawn is None

    def _withdraw(self, topic: str) -> None:
        """A parcel of a round that has ended is of no use to anybody."""
        if topic and self._is_public(self.peer.name, topic) is not False:
            self._signed.withdraw(topic, "the round has ended")

    def _topic(self, round: int) -> str:
        return f"run-{self.run}-round-{round}"

    def _kept(self, name: str) -> dict[str, Any]:
        return self._store.load(name) if self._store.has(name) else {}

    def _keep(self, name: str, tree: dict[str, Any]) -> dict[str, Any]:
        self._store.save(name, tree)
        self._store.remove_unused()
        return tree

    def _tried(self, call: Callable[[], Result], round: int, what: str) -> Result | None:
        """Where what came from others makes a call fail, record it and go on."""
        try:
            return call()
        except (ConfigError, OSError, MemoryError):
            raise
        except Exception as error:
            why = f"{what}: {reason(error)}"
            self.tell(why)
            self._note(self._hub, self._topic(round), why)
            return None

    def _note(self, name: str, topic: str, why: str) -> None:
        note_once(self.peer, name, topic, why)


def _content(found: Parcel) -> Broadcast | None:
    if found["content"] is None:
        return None
    parcels = {name: Parcel(**items) for name, items in found["content"].items()}
    return Broadcast(found["combined"], parcels.get(ALL, parcels), found["left_out"])


def _listed(settings: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in settings.items())


def _whole(value: Any) -> bool:
    return type(value) is int and -1 <= value <= MOST


def _sites(value: Any) -> bool:
    return isinstance(value, list | dict) and all(isinstance(name, str) and NAME.fullmatch(name) for name in value)


def _parcels(value: Any) -> bool:
    if not isinstance(value, dict):
        return value is None
    return (set(value) == {ALL} or _sites(value)) and all(isinstance(items, dict) for items in value.values())


def _reasons(value: Any) -> bool:
    def is_reason(why: Any) -> bool:
        return isinstance(why, str) and len(why) <= LONGEST_REASON

    return isinstance(value, dict) and _sites(value) and all(map(is_reason, value.values()))


# The hub's signature says who wrote it, not that it makes sense.
FIELDS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("run", "round", "combined"), _whole),
    **dict.fromkeys(("parcels", "sites"), _sites),
    "content": _parcels,
    "left_out": _reasons,
    "deadline": lambda value: type(value) in (int, float) and 0 <= value <= LONGEST_WAIT,
    **dict.fromkeys(("method", "settings", "rounds", "seed"), lambda value: True),  # compared with this site's own
}
