"""Progress of a run: a bar a method on a terminal (over its rounds, or over the sites' steps where there is one round),
plain lines elsewhere, nothing when asked to be quiet."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from peerwise.cli.output import messages_console

STEPS = ("shared", "absorbed", "predicted")


class Watch:
    """Give it to ``simulate(on_event=...)``; it is a context manager because a bar must be put away."""

    def __init__(self, quiet: bool = False) -> None:
        self._console = messages_console(quiet)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            auto_refresh=False,  # by a thread, and a process with threads cannot fork its workers itself
            disable=quiet or not self._console.is_terminal,
        )
        self._task: Any = None
        self._many = False  # rounds, which are told one by one; otherwise the sites' steps are

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._finish()
        self._bars.stop()

    def __call__(self, event: dict[str, Any]) -> None:
        what = event["event"]
        if what == "method":
            self._finish()
            self._many = event["rounds"] > 1
            rate = f", lr {event['lr']:g}" if "lr" in event else ""
            name = f"seed {event['seed']}, {event['method']}{rate}"
            self._task = self._bars.add_task(f"{name:<28}", total=event["rounds"] if self._many else 3 * event["sites"])
            if not self._console.is_terminal:
                rounds = f", {event['rounds']} rounds" if self._many else ""
                self._console.print(f"{name}: {event['sites']} sites{rounds}", markup=False)
        elif what == "round" and self._task is not None:
            # Not one step further: a run that goes on begins in the midst of its rounds.
            if event["round"] > self._bars.tasks[-1].completed and not self._console.is_terminal:
                self._console.print(f"going on from round {event['round'] + 1}", markup=False)
            self._bars.update(self._task, completed=event["round"] + 1)
        elif what in STEPS and self._task is not None and not self._many:
            self._bars.advance(self._task)
        self._bars.refresh()

    def _finish(self) -> None:
        """Fill the bar of the method before: steps that were already done on disk are not told one by one."""
        if self._task is not None:
            total = next(task.total for task in self._bars.tasks if task.id == self._task)
            self._bars.update(self._task, completed=total)
