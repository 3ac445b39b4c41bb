"""What the verbs of a site have in common: where its folder is, how results are printed."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from peerwise.cli.output import messages_console, print_json, results_console
from peerwise.errors import ConfigError

Run = Callable[[argparse.Namespace], int]


def add_verb(verbs: Any, name: str, run: Run, *, help: str, about: str, example: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(
        name, help=help, description=about, epilog=f"example: {example}", formatter_class=argparse.HelpFormatter
    )
    parser.add_argument("--format", choices=["table", "json"], default="table")
    parser.add_argument("-q", "--quiet", action="store_true", help="results only")
    parser.set_defaults(run=run)
    return parser


def add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", type=Path, default=Path(), help="the site's folder (default: this one)")


def add_why(parser: argparse.ArgumentParser, kept_by: str) -> None:
    parser.add_argument("--why", default="", help=f"the reason, which {kept_by}")


def show(arguments: argparse.Namespace, found: Any, printed: Callable[[Console], None]) -> int:
    """The result as JSON or for people."""
    if arguments.format == "json":
        print_json(found)
    else:
        printed(results_console())
    return 0


def say(arguments: argparse.Namespace, text: str) -> None:
    """Progress, on standard error."""
    messages_console(arguments.quiet).print(text, markup=False, soft_wrap=True)


def line(console: Console, text: str = "") -> None:
    console.print(text, markup=False, soft_wrap=True)


def day(seconds: int | None) -> str:
    """A date as people write it; UTC.

    >>> day(0), day(None)
    ('1970-01-01', '-')
    """
    return "-" if seconds is None else time.strftime("%Y-%m-%d", time.gmtime(seconds))


def edition(version: int) -> str:
    """A version for reading: sites of ours number them by the time, as that grows whatever else is lost.

    >>> edition(1_794_934_396), edition(3)
    ('2026-11-17 16:53:16', '3')
    """
    plausible = 1_500_000_000 < version < 5_000_000_000
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(version)) if plausible else str(version)


def size(number: int) -> str:
    """
    >>> size(900), size(12_345), size(5_000_000)
    ('900 B', '12.3 kB', '5.0 MB')
    """
    if number < 1000:
        return f"{number} B"
    return f"{number / 1000:.1f} kB" if number < 1_000_000 else f"{number / 1_000_000:.1f} MB"


def share(value: float | None) -> str:
    """
    >>> share(0.875), share(None)
    ('87.5 %', '-')
    """
    return "-" if value is None else f"{100 * value:.1f} %"


def value_of(text: str) -> Any:
    """A number, true/false/null or JSON where it reads as such, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def pairs(items: list[str], what: str) -> dict[str, Any]:
    """KEY=VALUE as given on the command line."""
    found: dict[str, Any] = {}
    for item in items:
        key, equals, text = item.partition("=")
        if not equals or not key:
            raise ConfigError(f"{what} {item!r}: expected KEY=VALUE.")
        found[key] = value_of(text)
    return found


@contextmanager
def worker() -> Iterator[Any]:
    """Where peers' models run; imported late, as a help text needs none."""
    from peerwise.models.worker import Worker

    with Worker() as process:
        yield process
