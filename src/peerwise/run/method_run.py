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
    predictions say so. A failure is a result and is kept as it comes, like any other, unless all sites that are still
    at work fail in the same step: that is nobody's bad luck, and once it is mended they all try again.
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
        which = " ".join(map(str, (step.__name__, *round)))
        failing = self.folder.load_failing(self.name, which)  # in this very step, before it was broken off
        at_work = {site.name for site in self._working()}
        sites = [site for site in sites if site.name not in failing]
        first: Done | None = None
        for done in everywhere(step, sites, (self.method, self.folder, self.name, *round), self.workers, self.tell):
            if done.why is not None:
                first = first or done
                failing[done.site] = done.why
                if not set(failing) >= at_work:
                    self.folder.save_failing(self.name, which, failing)
                told = {"event": "failed", "step": step.__name__, **about, "site": done.site, "why": done.why}
                self.tell({**told, "trace": done.trace})
            elif done.worked:
                self.tell({"event": EVENTS[step], **about, "site": done.site})
                self._tell_left_out(step, done.site)
        if first and set(failing) >= at_work:
            self.folder.save_failing(self.name, which, {})
            raise self._nowhere(step, first)
        for site, why in failing.items():
            self.folder.save_failure(site, self.name, {"step": step.__name__, "why": why})
        if failing:
            self.folder.save_failing(self.name, which, {})

    def _tell_left_out(self, step: Step, site: str) -> None:
        if step is predict:
            for model, why in self.folder.load_predictions(site, self.name)["peers_left_out"].items():
                self.tell({"event": "left out", "run": self.name, "site": site, "model": model, "why": why})

    def _nowhere(self, step: Step, first: Done) -> ModelError:
        error = ModelError(
            f"{self.name}: {step.__name__} failed at every site still at work, such as {first.site!r}: "
            f"{first.why} (the traceback is in events.jsonl). Mend that and run again."
        )
        error.add_note(first.trace)
        return error


def departures(tree: Mapping[str, Any]) -> dict[str, str]:
    """Three columns of the results, empty where all went as it should: what answered instead of the method, and why;
    and the peers' models that a site had to do without, each with the reason."""
    found = tree["fell_back"] or {"to": "", "why": ""}
    left_out = "; ".join(f"{model}: {why}" for model, why in tree["peers_left_out"].items())
    return {"fell_back_to": found["to"], "fell_back_why": found["why"], "peers_left_out": left_out}
