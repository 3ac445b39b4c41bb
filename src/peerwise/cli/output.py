"""Where a command writes: results to standard output, progress to standard error."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from rich.console import Console

from peerwise.visible import written_out

PLAIN_WIDTH = 132  # tables in a file or pipe are not cut to a guessed terminal


class _Console(Console):
    """Nothing that data say is markup or moves the terminal, whoever has chosen the names in it; and a reader who went
    away is the command's affair, not the console's."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(highlight=False, emoji=False, **settings)

    def print(self, *objects: Any, **how: Any) -> None:
        super().print(*(written_out(each) if isinstance(each, str) else each for each in objects), **how)

    def on_broken_pipe(self) -> None:
        raise


def results_console() -> Console:
    console = _Console()
    return console if console.is_terminal else _Console(width=PLAIN_WIDTH)


def messages_console(quiet: bool = False) -> Console:
    return _Console(stderr=True, quiet=quiet)


def find_working_folder() -> None:
    """Let Python find modules of the working folder; last, so that they take the place of no other."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def print_json(value: Any) -> None:
    sys.stdout.write(written_out(json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False)) + "\n")


def print_json_line(value: Any) -> None:
    """One object a line, seen at once by who reads along."""
    sys.stdout.write(written_out(json.dumps(value, allow_nan=False, ensure_ascii=False)) + "\n")
    sys.stdout.flush()
