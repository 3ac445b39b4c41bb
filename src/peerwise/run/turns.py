"""What one site does in one round of many, in whichever process: hear what was told last, score, share the next."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from peerwise.data import Site
from peerwise.errors import STOPS_A_RUN, reason
from peerwise.methods import Method
from peerwise.run.folder import RunFolder
from peerwise.run.round_files import Checkpoint, RoundFiles
from peerwise.run.rounds import RUN, begin, blank_record, catch_up, finish, learned, speak
from peerwise.run.workers import Done, guarded


@dataclass
class Turns:
    """Sent to a worker once, with the rows of all sites; a state lies in the files whenever it is not worked on."""

    name: str
    method: Method
    sites: dict[str, Site]
    folder: RunFolder
    files: RoundFiles
    _told: tuple[Checkpoint, Callable[[], Any]] | None = field(default=None, init=False, repr=False)

    def __call__(self, site: str, round: int | None, shares: bool) -> Done:
        """A site's part of a round; without a round, what is left to do after the last."""
        if round is None:
            return guarded(site, partial(self._conclude, site))
        return guarded(site, partial(self._turn, site, round, shares))

    def _turn(self, name: str, round: int, shares: bool) -> Done:
        if (before := self.files.done_before(name, round)) is not None:
            return Done(name, worked=False, said=before["said"], **before.get("failure", {}))
        site, step = self.sites[name], "share"
        at, told = self._last(round - 1)
        said = 0
        try:
            self._load(site, at)
            if round:
                step = "absorb"
                if catch_up(self.method, site, round - 1, at.told, told()):
                    self.files.save_best(name, site.state[RUN], learned(site))
            if shares:
                step = "share"
                if parcel := speak(self.method, site, round):
                    said = self.files.save_said(name, round, parcel)
                    site.state[RUN]["sent"] += said
            self.files.save_state(name, round, {"state": site.state, "said": said})
            return Done(name, said=said)
        except STOPS_A_RUN:
            raise
        except Exception as error:
            return self._failed(site, round, at, {"step": step, "why": reason(error)})
        finally:
            site.state = {}

    def _failed(self, site: Site, round: int, at: Checkpoint, failure: dict[str, str]) -> Done:
        """Its state is the one from before this round, its record goes as far as it came."""
        trace = traceback.format_exc()
        record = site.state.get(RUN, blank_record())
        before = self.files.load_state(site.name, at.states[site.name])["state"] if site.name in at.states else {}
        tree = {"state": {**before, RUN: record}, "said": 0, "failure": failure}
        self.files.save_state(site.name, round, tree)
        return Done(site.name, why=failure["why"], trace=trace, step=failure["step"])

    def _conclude(self, name: str) -> Done:
        """Leave the state that answers in the run folder: the best one, or where there are no validation rows the last.
        What is guaranteed to the people behind the rows counts all rounds, also those after the best."""
        site = self.sites[name]
        at = self._last(self.method.rounds)[0]
        try:
            self._load(site, at)
            record = site.state[RUN]
            record["privacy"] = self.method.privacy(site) if learned(site) else None
            if "best_round" in record:
                best = self.files.load_best(name)
                finish(site, best.pop("state"))
                record |= best
            elif name in at.failed:
                site.state = {RUN: record}
            self.folder.save_state(name, self.name, site.state)
            return Done(name, score=record.get("best_score"))
        finally:
            site.state = {}

    def _load(self, site: Site, at: Checkpoint) -> None:
        if site.name in at.states:
            site.state = self.files.load_state(site.name, at.states[site.name])["state"]
        else:
            begin(self.method, site)

    def _last(self, round: int) -> tuple[Checkpoint, Callable[[], Any]]:
        """Where all stood after that round, and what had been told; read once for all sites of a process."""
        if self._told is None or self._told[0].round != round:
            at = self.files.load(round)
            self._told = at, self.files.load_told(at) if at.told >= 0 else lambda: None
        return self._told
