"""What the hub of a method with rounds says, as every site hears it, the hub itself too: run, and what was told."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from peerwise.errors import ConfigError, ExchangeError, ParcelError
from peerwise.exchange.signed import SignedExchange
from peerwise.parcels import Parcel
from peerwise.parcels.signed import unseal
from peerwise.run.peer.folder import PeerFolder

PAUSE = 0.2
GRACE = 60.0  # seconds after its deadline in which the hub may still tell of a round
NOTHING: dict[str, Any] = {"heard": {}, "ever": [], "of": -1, "one": None, "named": None}


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
            return self._announced(wanted, again)

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

    def _announced(self, wanted: dict[str, Any], again: bool) -> int:
        last = self._said("run")
        if last is not None and not again and {key: last[key] for key in wanted} == wanted:
            return int(last["run"])
        number = 1 if last is None else int(last["run"]) + 1
        self._exchange.say("run", Parcel(run=number, deadline=self._peer.settings.deadline, **wanted))
        return number

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
            self._read[topic] = found[0].digest, unseal(found[0], self._exchange.blobs(found[0]))
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
