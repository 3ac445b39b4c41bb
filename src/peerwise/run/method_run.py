"""One method over the sites of one seed, in this process or in workers, going on where it stopped."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from peerwise.data import Site
from peerwise.methods import Method
from peerwise.run.folder import RunFolder
from peerwise.run.many_rounds import ManyRounds, nowhere
from peerwise.run.participation import Participation
from peerwise.run.rounds import agree, combines
from peerwise.run.steps import absorb, judge, predict, share
from peerwise.run.workers import Done, Observer, Step, alone, everywhere, in_turn, staff

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
    participation: Participation = field(default_factory=Participation)

    def finish(self) -> None:
        """Predictions at every site."""
        if self._waiting():
            self.train()
            self.predict()

    def train(self) -> None:
        """All rounds; the states that answer are in the folder afterwards."""
        if not self._waiting():
            return
        if self.method.rounds > 1:
            if self.folder.load_trained(self.name) is None:
                self.folder.save_trained(self.name, self._rounds().train())
            self.folder.rounds(self.name).remove()
            return
        self._step(share, self._working(), 0)
        if combines(self.method):
            self._combine(0)
        self._step(absorb, self._working(), 0)

    def score(self) -> float:
        """After training, the accuracy on validation rows of the states that answer: the mean over the sites that have
        validation rows, 0 where the method failed and left no such state; NaN if there is nothing to take a mean of."""
        unable: set[str] = set()
        if self.method.rounds > 1:
            scores = self.folder.load_trained(self.name) or {}
        else:
            tasks = {site.name: (judge, site, (self.method, self.folder, self.name)) for site in self._working()}
            unable = {done.site for done in self._everywhere(tasks) if done.why is not None}
            judged = [name for name in tasks if name not in unable]
            scores = {name: self.folder.load_record(name, self.name).get("best_score") for name in judged}
        working = {site.name for site in self._working()} - unable
        failed = {site.name for site in self.sites if len(site.val)} - working
        known = [score for score in scores.values() if score is not None]
        known += [0.0 for name in failed if scores.get(name) is None]
        return sum(known) / len(known) if known else math.nan

    def predict(self) -> None:
        """Answer the test rows at every site."""
        self._step(predict, self._waiting())
        self._step(predict, self._waiting())  # where the method could not answer, something simpler does

    def _rounds(self) -> ManyRounds:
        return ManyRounds(self.name, self.method, self.sites, self.folder, self.workers, self.tell, self.participation)

    def _waiting(self) -> list[Site]:
        return [site for site in self.sites if not self.folder.has_predictions(site.name, self.name)]

    def _working(self) -> list[Site]:
        return [site for site in self.sites if self.folder.load_failure(site.name, self.name) is None]

    def _combine(self, round: int) -> None:
        if not self.folder.has_told(self.name, round):
            told, memory = agree(self.method, round, self.folder.exchange(self.name), {}, self.sites[0].seed)
            self.folder.save_told(self.name, round, told, memory)

    def _step(self, step: Step, sites: list[Site], *round: int) -> None:
        about = {"run": self.name, **({"round": round[0]} if round else {})}
        which = " ".join(map(str, (step.__name__, *round)))
        failing = self.folder.load_failing(self.name, which)  # in this very step, before it was broken off
        at_work = {site.name for site in self._working()}
        sites = [site for site in sites if site.name not in failing]
        first: Done | None = None
        arguments = (self.method, self.folder, self.name, *round)
        tasks = {site.name: (step, site, arguments) for site in in_turn(sites, self.workers)}
        for done in self._everywhere(tasks):
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
            raise nowhere(self.name, step.__name__, first)
        for site, why in failing.items():
            self.folder.save_failure(site, self.name, {"step": step.__name__, "why": why})
        if failing:
            self.folder.save_failing(self.name, which, {})

    def _everywhere(self, tasks: Mapping[str, tuple[Any, ...]]) -> Iterator[Done]:
        with staff(self.workers, alone) as team:
            yield from everywhere(team, tasks, self.tell)

    def _tell_left_out(self, step: Step, site: str) -> None:
        if step is predict:
            for model, why in self.folder.load_predictions(site, self.name)["peers_left_out"].items():
                self.tell({"event": "left out", "run": self.name, "site": site, "model": model, "why": why})


def departures(tree: Mapping[str, Any]) -> dict[str, str]:
    """Three columns of the results, empty where all went as it should: what answered instead of the method, and why;
    and the peers' models that a site had to do without, each with the reason."""
    found = tree["fell_back"] or {"to": "", "why": ""}
    left_out = "; ".join(f"{model}: {why}" for model, why in tree["peers_left_out"].items())
    return {"fell_back_to": found["to"], "fell_back_why": found["why"], "peers_left_out": left_out}
