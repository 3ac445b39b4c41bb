"""What the hub of a method with rounds says, as every site hears it, the hub itself too: run, and what was told."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from peerwise.errors import ConfigError, ExchangeError, ParcelError
from peerwise.exchange.shelf import is_site
from peerwise.exchange.signed import SignedExchange
from peerwise.parcels import Parcel
from peerwise.parcels.signed import unseal
from peerwise.run.peer.folder import PeerFolder

PAUSE = 0.2
GRACE = 60.0  # seconds after its deadline in which the hub may still tell of a round
NOTHING: dict[str, Any] = {"heard": {}, "ever": [], "of": -1, "one": None, "named": None}
LONGEST_WAIT = 30 * 24 * 3600.0
MOST_RUNS, MOST_ROUNDS = 10**9, 10**9


class Hub:
    """The founder, who is waited for as long as a round may take, its own deadline included."""

    def __init__(self, peer: PeerFolder, exchange: SignedExchange) -> None:
        self.name = peer.federation.founder
        self._peer, self._exchange = peer, exchange
        self._patience = peer.settings.deadline + GRACE
        self._read: dict[str, tuple[str, Parcel]] = {}

    def agreed_run(self, rounds: int, *, again: bool, done: int) -> int:
        """The number of the run that the hub has announced, above ``done`` where it is to be another one; the hub
        announces the next one when it begins anew."""
        settings = self._peer.settings
        wanted: dict[str, Any] = {"method": settings.method, "settings": settings.method_settings}
        wanted |= {"rounds": rounds, "seed": settings.seed}
        if self._peer.is_founder:
            return self._announced(wanted, again, done)

        def another(run: Parcel | None) -> bool:
            return run is not None and (not again or int(run["run"]) > done)

        told = self._waited("run", another, "begin the rounds")
        if theirs := {key: told[key] for key in wanted if told[key] != wanted[key]}:
            ours = {key: wanted[key] for key in theirs}
            raise ConfigError(
                f"the founder runs {told['method']} with {_listed(theirs)}, this site with {_listed(ours)}: expected "
                f"the same. Change peerwise.toml."
            )
        self._patience = max(self._patience, told["deadline"] + GRACE)
        return int(told["run"])

    def _announced(self, wanted: dict[str, Any], again: bool, done: int) -> int:
        last = None if self._is_spoilt("run") else self._said("run")
        if last is not None and not again and {key: last[key] for key in wanted} == wanted:
            return int(last["run"])
        number = max(done, 0 if last is None else int(last["run"])) + 1
        if self._is_spoilt("told"):  # others would wait for one that can be read
            self._exchange.say("told", Parcel(run=number, round=-1, **NOTHING))
        self._exchange.say("run", Parcel(run=number, deadline=self._peer.settings.deadline, **wanted))
        return number

    def _is_spoilt(self, topic: str) -> bool:
        """Whether the hub's own words have ended, or somebody has changed them: they are said anew."""
        try:
            self._said(topic)
        except ParcelError:
            return True
        return False

    def newest(self, run: int) -> Parcel:
        """What was told last in this run."""
        told = self._waited("told", lambda _: True, "answer")
        return told if told and told["run"] == run else Parcel(run=run, round=-1, **NOTHING)

    def after(self, run: int, round: int) -> Parcel:
        """What was told last, once this round has ended."""

        def has_ended(told: Parcel | None) -> bool:
            return told is not None and told["run"] == run and told["round"] >= round

        return self._waited("told", has_ended, "end the round")

    def _said(self, topic: str) -> Parcel | None:
        """Fetched once, however often it is asked for."""
        found = self._exchange.fetch(self.name, topic)
        if found is None:
            return None
        if topic not in self._read or self._read[topic][0] != found[0].digest:
            said = unseal(found[0], self._exchange.blobs(found[0]))
            self._read[topic] = found[0].digest, _checked(topic, said)
        return self._read[topic][1]

    def _waited(self, topic: str, right: Callable[[Parcel | None], bool], what: str) -> Parcel:
        """What the hub says on a topic, as soon as it is right; an empty parcel for nothing."""
        until = time.monotonic() + self._patience
        why = "it has said nothing yet"
        while True:
            try:
                parcel = self._said(topic)
                if right(parcel):
                    return parcel or Parcel()
            except (ParcelError, ExchangeError) as error:
                why = str(error)
            if time.monotonic() > until:
                raise ExchangeError(
                    f"the hub {self.name!r} did not {what} within {self._patience:.0f} seconds ({why}): expected it to "
                    f"take part. Run 'peerwise fit' there too, and here again: it goes on where it stopped."
                )
            time.sleep(PAUSE)


def _listed(settings: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in settings.items())


def _checked(topic: str, said: Parcel) -> Parcel:
    """What the hub says, if it is of the form that is expected on this topic: it is signed, and may be wrong."""
    right = _is_run(said) if topic == "run" else _is_told(said)
    if not right:
        raise ParcelError(f"what the hub says on {topic!r} makes no sense ({repr(dict(said))[:200]}): ask its founder.")
    return said


def _is_run(said: Parcel) -> bool:
    known = set(said) == {"run", "deadline", "method", "settings", "rounds", "seed"}
    return known and _whole(said["run"], MOST_RUNS) and _is_wait(said["deadline"])


def _is_wait(seconds: Any) -> bool:
    return type(seconds) in (int, float) and 0 <= seconds <= LONGEST_WAIT


def _is_told(said: Parcel) -> bool:
    if set(said) != {"run", "round", *NOTHING} or not isinstance(said["ever"], list):
        return False
    one, named = said["one"], said["named"]
    return (
        _whole(said["run"], MOST_RUNS)
        and all(_whole(said[name], MOST_ROUNDS, least=-1) for name in ("round", "of"))
        and all(isinstance(name, str) and is_site(name) for name in (*said["ever"], *_names(said["heard"])))
        and (one is None or (isinstance(one, dict) and isinstance(one.get("left_out", {}), dict)))
        and (named is None or (isinstance(named, dict) and all(isinstance(each, dict) for each in named.values())))
    )


def _names(heard: Any) -> list[Any]:
    return list(heard) if isinstance(heard, dict) else [None]


def _whole(value: Any, most: int, least: int = 0) -> bool:
    return type(value) is int and least <= value <= most
