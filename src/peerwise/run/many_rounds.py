"""A method with many rounds over the sites of one seed: each site's turn in a round, then what all are told."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from peerwise.data import Site
from peerwise.errors import ModelError, reason
from peerwise.methods import Method
from peerwise.models import one_thread
from peerwise.parcels import Parcel
from peerwise.run.crew import Crew
from peerwise.run.folder import RunFolder
from peerwise.run.participation import Participation
from peerwise.run.round_files import Checkpoint, RoundFiles
from peerwise.run.rounds import combined, combines
from peerwise.run.turns import Turns
from peerwise.run.workers import Done, Observer, Work, everywhere, in_turn, staff


@dataclass(frozen=True)
class ManyRounds:
    """Goes on after the newest round that is whole in the files, within a round at the sites that are still to come."""

    name: str
    method: Method
    sites: list[Site]
    folder: RunFolder
    workers: int
    tell: Observer
    participation: Participation

    def train(self) -> dict[str, float | None]:
        """All rounds; the states that answer are in the run folder afterwards. The best scores by site."""
        files = self.folder.rounds(self.name)
        at = files.newest(self._warn)
        turns = Turns(self.name, self.method, {site.name: site for site in self.sites}, self.folder, files)
        with staff(self.workers, turns) as team:
            for round in range(at.round + 1, self.method.rounds + 1):
                at = self._round(team, files, at, round)
            return self._conclude(team, at)

    def _warn(self, why: str) -> None:
        self.tell({"event": "warning", "run": self.name, "why": why})

    def _round(self, team: Crew | Work, files: RoundFiles, at: Checkpoint, round: int) -> Checkpoint:
        started = time.perf_counter()
        working = [site.name for site in self.sites if site.name not in at.failed]
        last = round == self.method.rounds
        present = [] if last else self.participation.present(working, round)
        sharing = set(self.participation.sharing(present, round))
        before = self.participation.present(working, round - 1) if round else []
        hearing = {*before, *present}  # the end of a round is heard by all who are in it
        tasks = {
            site.name: (site.name, round, site.name in sharing)
            for site in in_turn(self.sites, self.workers)
            if site.name in hearing
        }
        speaking = set() if at.spoken else sharing
        done = self._turns(team, files, tasks, set(working), speaking)
        failed = {name: {"step": one.step, "why": one.why} for name, one in done.items() if one.why is not None}
        states = {**at.states, **dict.fromkeys(done, round)}
        took_part = sorted(sharing - set(failed))
        at = replace(at, round=round, states=states, failed={**at.failed, **failed})
        at = replace(at, spoken=at.spoken or bool(took_part))
        if took_part:
            at = self._told(files, at, {name: done[name].said for name in took_part if done[name].said})
        files.save(at)
        if not last:
            seconds = time.perf_counter() - started
            self.tell({"event": "round", "run": self.name, "round": round, "took_part": took_part, "seconds": seconds})
        return at

    def _turns(
        self,
        team: Crew | Work,
        files: RoundFiles,
        tasks: Mapping[str, tuple[str, int, bool]],
        working: set[str],
        first: set[str],
    ) -> dict[str, Done]:
        """``first``: those who share, if nobody has before: that all of them fail is nobody's bad luck, whoever else
        may listen."""
        found: dict[str, Done] = {}
        for done in everywhere(team, tasks, self.tell):
            found[done.site] = done
            if done.why is not None and done.worked:
                about = {"run": self.name, "round": tasks[done.site][1] - (done.step == "absorb"), "site": done.site}
                self.tell({"event": "failed", "step": done.step, **about, "why": done.why, "trace": done.trace})
        failed = [name for name, done in found.items() if done.why is not None]
        if failed and (set(failed) >= working or (first and set(failed) >= first)):
            for name in failed:
                files.forget(name, tasks[name][1])  # once it is mended they all try again
            raise nowhere(self.name, found[failed[0]].step, found[failed[0]])
        return found

    def _told(self, files: RoundFiles, at: Checkpoint, sizes: dict[str, int]) -> Checkpoint:
        """What all are told from what was said, by those whose parcels have these sizes."""
        if not combines(self.method):
            return replace(at, told=at.round, kind="said", sizes=sizes)
        if not sizes:
            return at
        with one_thread():
            inbox, memory = files.said(at.round, sizes), files.load_memory(at)
            try:
                told, memory = combined(self.method, at.round, inbox, memory, self.sites[0].seed)
            except (OSError, MemoryError):
                raise
            except Exception as error:
                raise ModelError(
                    f"{self.name}: what was said in round {at.round} cannot be combined: {reason(error)} If the values "
                    f"are not finite, lower the learning rate."
                ) from error
        sizes = files.save_told(at.round, told, memory)
        return replace(at, told=at.round, kind="one" if isinstance(told, Parcel) else "named", sizes=sizes)

    def _conclude(self, team: Crew | Work, at: Checkpoint) -> dict[str, float | None]:
        scores: dict[str, float | None] = {}
        for done in everywhere(team, {site.name: (site.name, None, False) for site in self.sites}, self.tell):
            if done.why is not None:
                error = ModelError(f"{self.name}: site {done.site!r} came to the last round, then failed: {done.why}.")
                error.add_note(done.trace)
                raise error
            scores[done.site] = done.score
        for name, failure in at.failed.items():
            self.folder.save_failure(name, self.name, failure)
        return scores


def nowhere(run: str, step: str, first: Done) -> ModelError:
    """What is nobody's bad luck."""
    error = ModelError(
        f"{run}: {step} failed at every site still at work, such as {first.site!r}: "
        f"{first.why} (the traceback is in events.jsonl). Mend that and run again."
    )
    error.add_note(first.trace)
    return error
