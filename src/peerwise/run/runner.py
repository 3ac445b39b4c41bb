"""Run one method on the sites of one seed, round by round, resuming from its checkpoint."""

from __future__ import annotations

import gc
import math
import time
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain, compress
from typing import Any

from peerwise.data import Site, work_anew
from peerwise.errors import ModelError, ParcelError, PeerwiseError
from peerwise.federation import (
    PEERS_LEFT_OUT,
    RUN,
    AnswersTogether,
    Broadcast,
    Memory,
    Method,
    TrainsTogether,
    blank_record,
    check_sites,
    next_broadcast,
)
from peerwise.parcels import Keep, Parcel
from peerwise.run.checkpoint import Checkpoint, Saved
from peerwise.run.folder import RunFolder
from peerwise.run.messages import Handle, task_alone
from peerwise.run.participation import Participation
from peerwise.run.work import Job, Outcome, Part, concluded, in_worker, judge_sites, predict_sites, step_sites
from peerwise.run.workers import Workers, open_workers

Observer = Callable[[dict[str, Any]], None]
Predictions = dict[str, dict[str, Any]]

# Sites in one task, for methods that work on many at once: no setting changes these numbers, as last digits may depend
# on them. Fewer sites than the first are each a task of their own, which workers can share; the second is for training,
# the third for all other work.
FEWEST_TOGETHER, MOST_TRAINED, MOST_TOGETHER = 32, 32, 128
CHECKPOINT_SECONDS = 5.0  # between two checkpoints, at least
CHECKPOINT_SHARE = 20  # and so many times as long as the last one took to write


@dataclass
class MethodRun:
    """``finish`` gives the predictions at every site. A site where a step fails takes no further part; something
    simpler answers there, and its predictions say so. If a step fails at all sites still at work, the run stops: they
    try again when it goes on. Without a folder nothing is written, and the first error at any site is raised."""

    name: str
    method: Method
    sites: list[Site]
    folder: RunFolder | None
    workers: Workers
    tell: Observer
    participation: Participation = field(default_factory=Participation)

    def __post_init__(self) -> None:
        self._at: Checkpoint | None = None
        self._saved_at, self._saving_takes = time.monotonic(), 0.0
        self._is_whole = True  # whether the checkpoint may be saved as it stands

    def finish(self) -> Predictions:
        if self.folder is not None:
            try:
                if (known := self.folder.load_predictions(self.name)) is not None:
                    return known
            except ParcelError as error:
                self._warn(f"{error} The sites answer anew.")
        self.train()
        return self.predict()

    def train(self) -> None:
        """All rounds; afterwards each site's state is the one that answers."""
        if self.at.finished:
            return
        self.workers.renew()
        try:
            with _only_new_garbage():
                for round in range(self.at.round, self.method.rounds + 1):
                    self._round(round)
                self._conclude()
        except BaseException:
            if self.at.sessions:
                self._save_before_the_end()
            raise
        self._save()

    def score(self) -> float:
        """After training, the accuracy on validation rows of the states that answer: the mean over the sites that have
        validation rows, 0 where the method failed and left no such state; NaN if there is nothing to take a mean of."""
        found = {name: saved.state[RUN].get("best_score") for name, saved in self.at.sessions.items()}
        working = [site for site in self.sites if site.name not in self.at.failed]
        unjudged = [site for site in working if len(site.val) and found.get(site.name) is None]
        for outcome in chain.from_iterable(self._map(judge_sites, [[site] for site in unjudged])):
            found[outcome.site] = 0.0 if outcome.failure else outcome.value
        known = [found.get(site.name) for site in self.sites if len(site.val)]
        scores = [0.0 if score is None else score for score in known]
        return sum(scores) / len(scores) if scores else math.nan

    def predict(self) -> Predictions:
        """Answer the test rows at every site."""
        self.workers.renew()
        predictions = self.at.predictions
        try:
            self._answer()
        except BaseException:
            if predictions:
                self._save_before_the_end()
            raise
        predictions = {site.name: predictions[site.name] for site in self.sites}
        if self.folder is not None:
            self.folder.save_predictions(self.name, predictions)
        return predictions

    def _answer(self) -> None:
        predictions, failures = self.at.predictions, dict(self.at.failed)
        chunks = self._chunks(self.sites, isinstance(self.method, AnswersTogether), MOST_TOGETHER)
        for last in (False, True):  # where the method cannot answer, something simpler does
            failed: dict[str, Outcome] = {}
            left = _without(chunks, predictions)
            for outcomes in self._map(predict_sites, left, self.at.parcels, failures=failures):
                with self._change():
                    predictions |= {each.site: each.value for each in outcomes if each.failure is None}
                for outcome in outcomes:
                    if outcome.failure is not None:
                        failed[outcome.site] = outcome
                        self._tell_failure(outcome)
                        continue
                    about = {"run": self.name, "site": outcome.site}
                    self.tell({"event": "predicted", **about})
                    for model, why in outcome.value["peers_left_out"].items():
                        self.tell({"event": "left out", **about, "model": model, "why": why})
                self._save_if_due()
            at_work = {site.name for site in self.sites} - set(self.at.failed)
            if failed and (last or set(failed) >= at_work):
                raise self._failed_everywhere(next(iter(failed.values())))
            failures |= {name: outcome.failure or {} for name, outcome in failed.items()}

    @property
    def at(self) -> Checkpoint:
        """Where the run stands: as it was left, or at its beginning."""
        if self._at is None:
            self._at = self._left() or Checkpoint()
        return self._at

    def _left(self) -> Checkpoint | None:
        if self.folder is None or not self.folder.has_states(self.name):
            return None
        try:
            return self.folder.load_states(self.name)
        except ParcelError as error:
            self._warn(f"{error} Going on from the beginning.")
            return None

    def _save(self) -> None:
        if self.folder is not None and self._is_whole:
            started = time.monotonic()
            self.folder.save_states(self.name, self.at)
            self._saved_at = time.monotonic()
            self._saving_takes = self._saved_at - started

    def _save_before_the_end(self) -> None:
        """Where this fails too, what stopped the run says more."""
        with suppress(PeerwiseError, OSError):
            self._save()

    def _save_if_due(self) -> None:
        if time.monotonic() - self._saved_at > max(CHECKPOINT_SECONDS, CHECKPOINT_SHARE * self._saving_takes):
            self._save()

    @contextmanager
    def _change(self) -> Iterator[None]:
        """A change of the checkpoint that is interrupted is never saved: the run goes on from the last one."""
        self._is_whole = False
        yield
        self._is_whole = True

    def _round(self, round: int) -> None:
        started = time.perf_counter()
        at = self.at
        working = [site.name for site in self.sites if site.name not in at.failed]
        # A method with one round has all sites in it.
        participation = self.participation if self.method.rounds > 1 else Participation()
        present = [] if round == self.method.rounds else participation.present(working, round)
        sharing = set(participation.sharing(present, round))
        before = participation.present(working, round - 1) if round else []
        absorbing = {*before, *present}  # the broadcast at the end of a round is for all who were there
        failed = self._step(round, absorbing, sharing)
        first = sharing if not at.has_shared else set()
        if failed and (set(failed) >= set(working) or (first and set(failed) >= first)):
            raise self._failed_everywhere(next(iter(failed.values())))
        took_part = sorted(sharing - set(failed))
        inbox = {name: at.parcels[name] for name in took_part if name in at.parcels}
        broadcast, memory = self._combined(round, inbox) if took_part else (at.broadcast, at.memory)
        with self._change():
            for outcome in failed.values():
                self._take_failed(outcome)
            at.has_shared = at.has_shared or bool(took_part)
            at.broadcast, at.memory, at.round, at.done = broadcast, memory, round + 1, set()
            if self.method.rounds > 1:
                at.parcels = {}
        if self.method.rounds > 1 and round < self.method.rounds:
            seconds = time.perf_counter() - started
            self.tell({"event": "round", "run": self.name, "round": round, "took_part": took_part, "seconds": seconds})
        self._save_if_due()

    def _step(self, round: int, absorbing: set[str], sharing: set[str]) -> dict[str, Outcome]:
        """The sites' steps of a round, as far as they are not done; the outcomes of those that failed."""
        at, failed = self.at, dict[str, Outcome]()
        # Sites that share are apart from those that only absorb: so the numbers depend on neither workers nor restarts.
        sharers = [site for site in self.sites if site.name in sharing]
        others = [site for site in self.sites if site.name in absorbing and site.name not in sharing]
        chunks = self._chunks(others, isinstance(self.method, AnswersTogether), MOST_TOGETHER)
        if len(sharers) >= FEWEST_TOGETHER and isinstance(self.method, TrainsTogether):
            with task_alone():
                stacked = self.method.trains_together(sharers)
            chunks += self._chunks(list(compress(sharers, stacked)), True, MOST_TRAINED)
            sharers = [site for site, together in zip(sharers, stacked, strict=True) if not together]
        chunks += self._chunks(sharers, False)
        # Of a chunk that was done, only sites that failed are left.
        for outcomes in self._map(step_sites, _without(chunks, at.done), at.broadcast, round, sharing=sharing):
            with self._change():
                for outcome in outcomes:
                    if outcome.failure is None:
                        self._take(outcome)
            for outcome in outcomes:
                if outcome.failure is not None:
                    failed[outcome.site] = outcome
                    self._tell_failure(outcome, round - (outcome.failure["step"] == "absorb"))
                elif self.method.rounds == 1:
                    step = "shared" if round == 0 else "absorbed"
                    self.tell({"event": step, "run": self.name, "site": outcome.site})
            self._save_if_due()
        return failed

    def _take(self, outcome: Outcome) -> None:
        """Into the checkpoint."""
        at, name, best = self.at, outcome.site, outcome.best
        if best is None and name in at.sessions:
            best = at.sessions[name].best
        at.sessions[name] = Saved(outcome.state or {}, best)
        if outcome.parcel:
            at.parcels[name] = outcome.parcel
        at.done.add(name)

    def _take_failed(self, outcome: Outcome) -> None:
        """What the method had learned before the step that failed, with the record of it."""
        at, name = self.at, outcome.site
        saved = at.sessions.get(name, Saved({}))
        at.sessions[name] = Saved(
            {**saved.state, **(outcome.state or {RUN: blank_record()})}, outcome.best or saved.best
        )
        at.failed[name] = outcome.failure or {}

    def _combined(self, round: int, inbox: dict[str, Parcel]) -> tuple[Broadcast | None, Memory]:
        at = self.at
        with task_alone():
            found, memory = next_broadcast(self.method, round, inbox, at.broadcast, at.memory, self.sites[0].seed)
        if found is None or found is at.broadcast:
            return found, memory
        content = found.content
        one = isinstance(content, Parcel)
        fixed = content.frozen() if one else {name: content[name].frozen() for name in content}
        return replace(found, content=fixed), memory

    def _conclude(self) -> None:
        """Leave the states that answer: the best ones, or without validation rows the last."""
        at = self.at
        self._start_those_away()
        sessions: dict[str, Saved] = {}
        failed: dict[str, dict[str, str]] = {}
        for site in self.sites:
            saved = at.sessions[site.name]
            with task_alone():
                outcome = concluded(self.method, Part(site, saved.state), saved.best)
            state = outcome.state or {}
            if outcome.failure is not None:
                self._raise_without_folder(outcome)
                failed[site.name] = outcome.failure
                self._tell_failure(outcome)
            elif site.name in at.failed and saved.best is None:
                state = {RUN: state[RUN]}
            sessions[site.name] = Saved(state)
        with self._change():
            at.sessions, at.failed = sessions, {**failed, **at.failed}
            at.broadcast, at.memory, at.finished = None, {}, True

    def _start_those_away(self) -> None:
        """Sites that were there in no round start, and that is all that answers there."""
        away = [[site] for site in self.sites if site.name not in self.at.sessions]
        for (outcome,) in self._map(step_sites, away, None, self.at.round):
            with self._change():
                (self._take if outcome.failure is None else self._take_failed)(outcome)
            if outcome.failure is not None:
                self._tell_failure(outcome)

    def _chunks(self, sites: Sequence[Site], together: bool, most: int = 1) -> list[list[Site]]:
        """The sites of each task. The sizes depend on the number of sites alone."""
        if not together or len(sites) < FEWEST_TOGETHER:
            # The largest first, so that no worker is left with one of them at the end.
            alone = sites if self.workers.in_process else sorted(sites, key=lambda site: len(site.train), reverse=True)
            return [[site] for site in alone]
        number = math.ceil(len(sites) / most)
        size = math.ceil(len(sites) / number)
        return [list(sites[begin : begin + size]) for begin in range(0, len(sites), size)]

    def _map(
        self,
        work: Callable[..., list[Outcome]],
        chunks: Sequence[Sequence[Site]],
        *rest: Any,
        sharing: Iterable[str] = (),
        failures: Mapping[str, Mapping[str, str]] | None = None,
    ) -> Iterator[list[Outcome]]:
        """The work at the sites of every chunk, as it is done."""
        sharing, failures, sessions = set(sharing), failures or {}, self.at.sessions

        def part_of(site: Site) -> Part:
            name = site.name
            saved = sessions.get(name)
            return Part(site, saved.state if saved else {}, name in sharing, failures.get(name))

        if self.workers.in_process:
            for chunk in chunks:
                with task_alone():
                    outcomes = work(self.method, [part_of(site) for site in chunk], *rest)
                for outcome in outcomes:
                    self._raise_without_folder(outcome)
                yield outcomes
            return
        shared = [self.workers.scatter(value) for value in (self._job(), *rest)]
        try:
            tasks = [(work, *self._sent([part_of(site) for site in chunk]), *shared) for chunk in chunks]
            names = [[site.name for site in chunk] for chunk in chunks]
            found = self.workers.map(
                in_worker, tasks, lambda place: self._lost(names[place]), lambda place: _listed(names[place])
            )
            for _, outcomes in found:
                if self.folder is not None:
                    for kept in outcomes[0].kept:
                        self.folder.keep_packed(*kept)
                yield outcomes
        finally:
            for handle in shared:
                self.workers.forget(handle)

    def _raise_without_folder(self, outcome: Outcome) -> None:
        """Where there are no results to record it in."""
        if outcome.error is not None and self.folder is None:
            raise outcome.error

    def _sent(self, parts: Sequence[Part]) -> tuple[list[Handle], list[Handle], list[Part], dict[str, Any]]:
        """What a worker is sent of some sites: their data and context once, what their sessions left behind, and what
        was kept."""
        kept: dict[str, Any] = {}
        if self.folder is not None and not self.workers.local:
            for part in parts:
                known = self.folder.kept_of(part.site.name)
                kept |= {key: self.workers.scatter(packed) for key, packed in known.items()}
        data = [self.workers.scatter(part.site.data) for part in parts]
        contexts = [self.workers.scatter(part.site.context) for part in parts]
        return data, contexts, [replace(part, site=None) for part in parts], kept

    def _job(self) -> Job:
        return Job(self.method, self.folder.path if self.folder is not None and self.workers.local else None)

    def _warn(self, why: str) -> None:
        self.tell({"event": "warning", "run": self.name, "why": why})

    def _lost(self, names: list[str]) -> None:
        self.tell({"event": "worker lost", "run": self.name, "sites": names})

    def _tell_failure(self, outcome: Outcome, round: int | None = None) -> None:
        failure = outcome.failure or {}
        about: dict[str, Any] = {"run": self.name} if round is None else {"run": self.name, "round": round}
        self.tell({"event": "failed", **about, "site": outcome.site, **failure, "trace": outcome.trace})

    def _failed_everywhere(self, first: Outcome) -> ModelError:
        failure = first.failure or {}
        error = ModelError(
            f"{self.name}: {failure['step']} failed at every site still at work, such as {first.site!r}: "
            f"{failure['why']} (the traceback is in events.jsonl). Fix that and run again."
        )
        error.add_note(first.trace)
        return error


def run_method(method: Method, sites: Iterable[Site], participation: Participation | None = None) -> None:
    """All rounds in this process, without a run folder; the sites' states are ready to predict afterwards.

    Unlike in `simulate`, an error at one site is raised: there are no results to record it in. A peer's model that a
    site has to do without is a warning.
    """
    sites = list(sites)
    check_sites(method, sites)
    keep = Keep()
    for site in sites:
        if site.keep is work_anew:
            # So that the next method on these sites finds their models trained.
            site.context = replace(site.context, keep=keep)
    with open_workers() as workers:
        present = participation or Participation()
        run = MethodRun(method.called, method, sites, None, workers, lambda event: None, present)
        run.train()
    for site in sites:
        site.state = run.at.sessions[site.name].state
        for model, why in site.state.get(PEERS_LEFT_OUT, {}).items():
            warnings.warn(f"site {site.name!r} does without {model}: {why}", stacklevel=2)


def departures(tree: Mapping[str, Any]) -> dict[str, str]:
    """Three columns of the results, empty where all went as it should: what answered instead of the method, and why;
    and the peers' models that a site had to do without, each with the reason."""
    found = tree["fell_back"] or {"to": "", "why": ""}
    left_out = "; ".join(f"{model}: {why}" for model, why in tree["peers_left_out"].items())
    return {"fell_back_to": found["to"], "fell_back_why": found["why"], "peers_left_out": left_out}


@contextmanager
def _only_new_garbage() -> Iterator[None]:
    """Python looks for garbage among what is made from here on only: many sites make many objects, and each time it
    would look through all that the libraries have."""
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _listed(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"site {names[0]!r}"
    shown = ", ".join(map(repr, names[:3]))
    return f"sites {shown}{f' and {len(names) - 3} more' if len(names) > 3 else ''}"


def _without(chunks: Sequence[Sequence[Site]], done: Container[str]) -> list[list[Site]]:
    """The chunks without the sites that are done."""
    left = [[site for site in chunk if site.name not in done] for chunk in chunks]
    return [chunk for chunk in left if chunk]
