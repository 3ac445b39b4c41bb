"""Where a command writes: results to standard output, progress to standard error."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console

PLAIN_WIDTH = 132  # tables in a file or pipe are not cut to a guessed terminal


def results_console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PLAIN_WIDTH)


def print_json(value: Any) -> None:
    Console(highlight=False, soft_wrap=True).print(json.dumps(value, indent=1, allow_nan=False), markup=False)
