"""What the verbs of a site have in common: where its folder is, how results are printed."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from typing import Any, Literal

from rich.console import Console

from peerwise.cli.output import messages_console, print_json, results_console
from peerwise.errors import ConfigError
from peerwise.parcels.signed.editions import version_of

WIDTH = 100

Run = Callable[[argparse.Namespace], int]


class _Help(argparse.HelpFormatter):
    """An example stays as it is, to be copied."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith("example:") else super()._fill_text(text, width, indent)


def add_verb(
    verbs: Any, name: str, run: Run, *, about: str, example: str, usage: str | None = None
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(
        name, description=about, epilog=f"example:\n  {example}", usage=usage, formatter_class=_Help
    )
    parser.add_argument("--format", choices=["table", "json"], default="table", help="json: for programs")
    parser.add_argument("-q", "--quiet", action="store_true", help="results only, no progress")
    parser.set_defaults(run=run)
    return parser


def add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", type=Path, default=Path(), help="the site's folder (default: this one)")


def add_why(parser: argparse.ArgumentParser, kept_by: str) -> None:
    parser.add_argument("--why", default="", help=f"the reason, which {kept_by}")


def add_decision(parser: argparse.ArgumentParser) -> None:
    """On whose models it is, and why."""
    parser.add_argument("site", help="the member whose models they are")
    parser.add_argument("--version", help="as 'peerwise review' shows it (default: the newest here)")
    add_folder(parser)
    add_why(parser, "the ledger keeps")


def decide(arguments: argparse.Namespace, what: Literal["accepted", "refused"]) -> dict[str, Any]:
    from peerwise.run.peer import PeerFolder, decided

    version = None if arguments.version is None else version_of(arguments.version)
    return decided(PeerFolder(arguments.folder), arguments.site, version, what, arguments.why)


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


def folded(console: Console, text: str, indent: int, style: str | None = None) -> None:
    """A long line over several, those after the first moved in; words, and with them paths and names, stay whole."""
    lines = fill(text, WIDTH, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)
    console.print(lines, style=style, markup=False, soft_wrap=True)


def day(seconds: int | None) -> str:
    """A date as people write it; UTC.

    >>> day(0), day(None)
    ('1970-01-01', '-')
    """
    return "-" if seconds is None else time.strftime("%Y-%m-%d", time.gmtime(seconds))


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
