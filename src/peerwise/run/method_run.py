"""One method over the sites of one seed, in this process or in workers, going on where it stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from peerwise.data import Site
from peerwise.errors import ModelError
from peerwise.methods import Memory, Method
from peerwise.run.folder import RunFolder
from peerwise.run.rounds import agree
from peerwise.run.steps import absorb, combines, predict, share
from peerwise.run.workers import Done, Observer, Step, everywhere

EVENTS: Mapping[Step, str] = {share: "shared", absorb: "absorbed", predict: "predicted"}


@dataclass(frozen=True)
class MethodRun:
    """Each step leaves its state in the folder, so any of them can be the last before a crash.

    A site whose step fails takes no further part in this run; in the end something simpler answers there, and its
    predictions say so. A failure is a result and is kept like any other.
    """

    name: str
    method: Method
    sites: list[Site]
    folder: RunFolder
    workers: int
    tell: Observer

    def finish(self) -> None:
        """Predictions at every site."""
        if not self._waiting():
            return
        memory: Memory = {}
        for round in range(self.method.rounds):
            self._step(share, self._working(), round)
            if combines(self.method):
                memory = self._combine(round, memory)
            self._step(absorb, self._working(), round)
        self._step(predict, self._waiting())
        self._step(predict, self._waiting())  # where the method could not answer, something simpler does

    def _waiting(self) -> list[Site]:
        return [site for site in self.sites if not self.folder.has_predictions(site.name, self.name)]

    def _working(self) -> list[Site]:
        return [site for site in self.sites if self.folder.load_failure(site.name, self.name) is None]

    def _combine(self, round: int, memory: Memory) -> Memory:
        if self.folder.has_told(self.name, round):
            return self.folder.load_told(self.name, round)[1]
        exchange = self.folder.exchange(self.name)
        told, memory = agree(self.method, round, exchange, memory, self.sites[0].seed)
        self.folder.save_told(self.name, round, told, memory)
        return memory

    def _step(self, step: Step, sites: list[Site], *round: int) -> None:
        about = {"run": self.name, **({"round": round[0]} if round else {})}
        failed: list[Done] = []
        for done in everywhere(step, sites, (self.method, self.folder, self.name, *round), self.workers, self.tell):
            if done.why is not None:
                failed.append(done)
                told = {"event": "failed", "step": step.__name__, **about, "site": done.site, "why": done.why}
                self.tell({**told, "trace": done.trace})
            elif done.worked:
                self.tell({"event": EVENTS[step], **about, "site": done.site})
        if failed and {done.site for done in failed} >= {site.name for site in self._working()}:
            raise self._nowhere(step, failed[0])
        for done in failed:
            self.folder.save_failure(done.site, self.name, {"step": step.__name__, "why": done.why})

    def _nowhere(self, step: Step, first: Done) -> ModelError:
        error = ModelError(
            f"{self.name}: {step.__name__} failed at every site still at work, the first of them {first.site!r}: "
            f"{first.why} (the traceback is in events.jsonl). Mend that and run again."
        )
        error.add_note(first.trace)
        return error


def fell_back(tree: Mapping[str, Any]) -> dict[str, str]:
    """Two columns of the results: what answered instead of the method, and why; empty where the method did."""
    found = tree["fell_back"] or {"to": "", "why": ""}
    return {f"fell_back_{key}": found[key] for key in ("to", "why")}
