"""kill -9 at every stage and at every step that changes a file, and a disk that is full at every such step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from faults.forks import Ended
from faults.injector import Injector, StageKiller, TimedKiller
from faults.promises import Facts, Searched, broken_now, broken_then, standing
from faults.rows import Row
from faults.sites import DAY, HOME, Sites, with_worker
from peerwise.errors import ConfigError
from peerwise.models.worker import Worker

# What runs in a stage, where it is looked up, and the command that gets there.
STAGES: dict[str, tuple[str, list[str]]] = {
    "train": ("train", ["peerwise.methods.own_models:_folded"]),
    "export": ("train", ["peerwise.models.fitted:SklearnFitted.to_onnx", "peerwise.methods.own_models:_check_written"]),
    "audit": ("publish", ["peerwise.run.peer.publishing:_looked"]),
    "sign": ("publish", ["peerwise.transport.signed:seal"]),
    "publish": ("publish", ["peerwise.transport.folder:FolderTransport.publish"]),
    "fetch": (
        "pull",
        ["peerwise.transport.signed:SignedTransport.fetch", "peerwise.transport.signed:SignedParcel.blobs"],
    ),
    "gate": ("pull", ["peerwise.run.peer.pulling:admitted"]),
    "decide": ("accept", ["peerwise.run.peer.reviewing:decide"]),
    "fit": ("fit", ["peerwise.run.peer.fitting:combine", "peerwise.run.peer.fitting:measured"]),
    "head-save": ("fit", ["peerwise.run.peer.fitting:save_bundle"]),
    "predict": ("predict", ["peerwise.run.peer.answering:answer", "peerwise.run.peer.answering:read_bundle"]),
    "withdraw": ("withdraw", ["peerwise.transport.signed:SignedTransport.withdraw"]),
}
LONG = ("train", "export", "audit")  # where counting calls would take longer than the work
KILLS = 32  # in each stage
WRITING = [*DAY, "withdraw"]  # the commands that change files
AGAIN = {"withdraw": "publish"}  # what somebody may run instead of the same command again


@dataclass(frozen=True)
class Undisturbed:
    """How it stands before a command, after it, and after another one, where there is one; and how many steps it takes:
    ``writes``, and those of each stage."""

    before: Facts
    between: Facts
    after: Facts
    steps: dict[str, int]


class Killing:
    """All trials of one federation. ``limit``: so many points a stage or command, spread evenly; 0: all there are."""

    def __init__(self, sites: Sites, limit: int) -> None:
        self.sites, self.limit, self.searched = sites, limit, Searched()
        self._known: dict[str, Undisturbed] = {}
        self.slowest, self.peak, self.orphans = 0.0, 0, 0

    def stages(self) -> Iterator[Row]:
        for stage, (command, functions) in STAGES.items():
            total, killer = self.undisturbed(command).steps[stage], killer_of(stage)
            row = Row(f"kill -9 during {stage}", note=f"`{command}`, at {killer.points} spread over the stage")
            for at in spread(int(total * 0.9), min(self.limit or KILLS, KILLS)):
                while not self._trial(row, command, killer(functions, at)) and at > 1:
                    at //= 2  # it came to its end before that: the machine is faster now
            yield row

    def writes(self, fault: str = "kill") -> Iterator[Row]:
        said = {"kill": "kill -9 at every", "full": "disk full from every", "full once": "disk full at one"}[fault]
        for command in WRITING:
            total = self.undisturbed(command).steps["writes"]
            row = Row(
                f"{said} write of `{command}`{' on' * (fault == 'full')}", note=f"{total} steps that change a file"
            )
            for at in spread(total, self.limit):
                self._trial(row, command, Injector(self.sites.live, fault, at))
            yield row

    def otherwise(self) -> Iterator[Row]:
        """Another command than the one that was killed is run next."""
        for command, other in AGAIN.items():
            total = self.undisturbed(command).steps["writes"]
            row = Row(f"kill -9 at every write of `{command}`, then `{other}`", note=f"{total} steps")
            for at in spread(total, self.limit):
                self._trial(row, command, Injector(self.sites.live, "kill", at), other)
            yield row

    def _trial(self, row: Row, command: str, fault: Injector | StageKiller, then: str = "") -> bool:
        """Whether the fault struck."""
        known = self.undisturbed(command, then)
        sites = self.sites
        sites.restore(command)
        ended = sites.run(sites.command(command), fault.install)
        row.trials += 1
        struck = ended.killed or bool(ended.error)
        row.struck += struck
        where = f"at {fault.at}: "
        row.problems += [where + problem for problem in self._odd(ended)]
        well = not then and not ended.error and not ended.killed
        checked = sites.run(lambda: aftermath(sites, then or command, known, went_well=well))
        self.slowest, self.peak = max(self.slowest, ended.seconds, checked.seconds), max(self.peak, checked.peak)
        row.problems += [where + problem for problem in (checked.said or [])]
        if checked.error or checked.killed:
            row.problems.append(where + (checked.error or "killed"))
        rows = self._rows(command)
        row.problems += [where + each for each in self.searched.rows_on(sites.live / "shared", HOME, rows)]
        return struck

    def _odd(self, ended: Ended) -> Iterator[str]:
        if ended.orphans:
            self.orphans += ended.orphans
            yield f"I7: {ended.orphans} processes outlived it"
        if ended.error and not ended.is_ours and not ended.killed:
            yield f"not told in a sentence: {ended.error}"

    def undisturbed(self, command: str, then: str = "") -> Undisturbed:
        """One run of a command (and of another) that nobody disturbs, with all its steps counted."""
        key = f"{command} {then}"
        if key not in self._known:
            sites = self.sites
            sites.restore(command)
            stands = partial(with_worker, partial(standing, sites))
            before, steps, between = sites.done(stands), self._counted(command), sites.done(stands)
            after = between
            if then:
                sites.done(sites.command(then))
                after = sites.done(stands)
            self._known[key] = Undisturbed(before, between, after, steps)
        return self._known[key]

    def _counted(self, command: str) -> dict[str, int]:
        counters: dict[str, Any] = {"writes": Injector(self.sites.live)}
        for stage, (name, functions) in STAGES.items():
            if name == command:
                counters[stage] = killer_of(stage)(functions)

        def counted() -> dict[str, int]:
            self.sites.command(command)()
            return {name: counter.steps for name, counter in counters.items()}

        ended = self.sites.run(counted, lambda: [counter.install() for counter in counters.values()])
        assert not ended.error, ended.error
        return dict(ended.said)

    def _rows(self, command: str) -> Any:
        """Home's rows; all of them are searched for in all that is shown."""
        if not hasattr(self, "_own"):
            self._own = self.sites.peer().site().train
        return self._own


def aftermath(sites: Sites, command: str, known: Undisturbed, *, went_well: bool) -> list[str]:
    """A command that ended well in spite of the fault must have done all that it does."""
    with Worker() as worker:
        problems = broken_then(sites, worker, known.before, known.after) if went_well else []
        problems += broken_now(sites, worker, known.before, known.between)
        try:
            sites.do(command, worker)
        except ConfigError as error:
            if "nothing to withdraw" not in str(error):  # which it says where all was done before it was killed
                raise
        return problems + broken_then(sites, worker, known.before, known.after)


def killer_of(stage: str) -> type[StageKiller]:
    return TimedKiller if stage in LONG else StageKiller


def spread(total: int, limit: int) -> list[int]:
    """1 to total, or ``limit`` of them, evenly and with both ends; one alone is the middle."""
    if not limit or total <= limit:
        return list(range(1, total + 1))
    if limit == 1:
        return [(total + 1) // 2]
    return sorted({1 + round(place * (total - 1) / (limit - 1)) for place in range(limit)})
