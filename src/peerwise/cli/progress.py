"""Progress of a run: a bar a method on a terminal, plain lines elsewhere, nothing when asked to be quiet."""

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
            disable=quiet or not self._console.is_terminal,
        )
        self._task: Any = None

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
            steps = event["sites"] * (2 * event["rounds"] + 1)
            name = f"seed {event['seed']}, {event['method']}"
            self._task = self._bars.add_task(f"{name:<28}", total=steps)
            if not self._console.is_terminal:
                self._console.print(f"{name}: {event['sites']} sites", markup=False)
        elif what in STEPS and self._task is not None:
            self._bars.advance(self._task)

    def _finish(self) -> None:
        """Fill the bar of the method before: steps that were already done on disk are not told one by one."""
        if self._task is not None:
            total = next(task.total for task in self._bars.tasks if task.id == self._task)
            self._bars.update(self._task, completed=total)
