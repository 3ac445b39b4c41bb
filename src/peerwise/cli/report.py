"""peerwise report: one page and the same tables, of a finished run or of a site's fit; two runs, row by row."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peerwise.cli.output import print_json, results_console
from peerwise.errors import ConfigError, choices

if TYPE_CHECKING:
    from peerwise.report.sheets import Sheet

EXAMPLES = """examples:
  peerwise report runs/heart                                   # the tables, and runs/heart/report.html
  peerwise report runs/heart --format latex --table methods    # one table for a paper
  peerwise report runs/heart --format csv --out tables         # all tables, a file each
  peerwise report runs/before runs/after                       # the second against the first, on the same test rows
  peerwise report cleveland --no-case                          # a site after 'peerwise fit', without its one case
"""


def add_to(verbs: Any) -> None:
    parser = verbs.add_parser(
        "report",
        description="Write the report of a run as one HTML file that needs no network, and print its tables; or "
        "compare two runs, paired.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", metavar="RUN", type=Path, help="a folder of 'simulate', or a site's after 'fit'")
    parser.add_argument("other", metavar="RUN_B", type=Path, nargs="?", help="another, to be held against the first")
    parser.add_argument("--format", choices=["table", "md", "json", "csv", "latex"], default="table")
    parser.add_argument("--table", metavar="KEY", help="this table alone")
    parser.add_argument(
        "--out", type=Path, help="the HTML file (default: RUN/report.html); with --format csv the folder for the "
        "tables, with another format the file to write"
    )  # fmt: skip
    parser.add_argument("--positive", metavar="CLASS", help="class to be found (default: the last of two)")
    parser.add_argument(
        "--threshold", type=float, default=0.5, help="probability from which it is called found (default 0.5)"
    )
    parser.add_argument("--no-case", action="store_true", help="do not show the one case that is opened")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    if arguments.other is not None:
        return _compare(arguments)
    from peerwise.report import print_story, story_from, write_page
    from peerwise.report.printed import print_sheets
    from peerwise.report.writing import FILE

    story = story_from(
        arguments.folder, positive=arguments.positive, threshold=arguments.threshold, case=not arguments.no_case
    )
    said = {"title": story.title, "headline": story.headline, "notes": list(story.notes)}
    if arguments.format != "table":
        more = {} if arguments.table else {"opened": story.opened, "provenance": story.provenance}
        return _write(arguments, said, story.sheets, more)
    console = results_console()
    if arguments.table is not None:
        print_sheets([_chosen(story.sheets, arguments.table)], console)
        return 0
    print_story(story, console)
    path = write_page(story, arguments.out or arguments.folder / FILE)
    console.print(f"report: {path}", soft_wrap=True, markup=False)
    return 0


def _compare(arguments: argparse.Namespace) -> int:
    from peerwise.parcels import write_atomic
    from peerwise.report import story_from
    from peerwise.report.comparing import compared
    from peerwise.report.page import comparison_page
    from peerwise.report.printed import MOST_ROWS, print_headline, print_sheets

    folders = (arguments.folder, arguments.other)
    runs = [story_from(folder, case=False).run for folder in folders]
    found = compared(runs[0], runs[1], (str(folders[0]), str(folders[1])))
    sheets = {sheet.key: sheet for sheet in found.sheets}
    if arguments.format != "table":
        return _write(arguments, {"title": found.title, "headline": found.headline, "notes": []}, sheets, {})
    console = results_console()
    if arguments.table is not None:
        print_sheets([_chosen(sheets, arguments.table)], console)
        return 0
    print_headline(found.headline, console)
    print_sheets(found.sheets, console, MOST_ROWS)
    path = arguments.out or arguments.other / f"against-{arguments.folder.resolve().name}.html"
    write_atomic(path, comparison_page(found.title, found.headline, found.sheets).encode())
    console.print(f"report: {path}", soft_wrap=True, markup=False)
    return 0


def _chosen(sheets: Mapping[str, Sheet], key: str) -> Sheet:
    if key not in sheets:
        raise ConfigError(f"--table: {choices(key, sheets, 'table')}")
    return sheets[key]


def _write(
    arguments: argparse.Namespace, said: dict[str, Any], sheets: Mapping[str, Sheet], more: dict[str, Any]
) -> int:
    """The tables in a format for files: to standard output, to a file, or a file each in a folder."""
    from peerwise.report.written import FORMATS, as_plain

    wanted = list(sheets.values()) if arguments.table is None else [_chosen(sheets, arguments.table)]
    if arguments.format == "csv":
        return _write_csv(arguments, wanted, sheets)
    if arguments.format == "json":
        tables = {sheet.key: as_plain(sheet) for sheet in wanted}
        return _put_json(arguments.out, {**said, "tables": tables, **more})
    parts = [FORMATS[arguments.format](sheet) for sheet in wanted]
    if arguments.format == "md" and arguments.table is None:
        parts = [_opening(said), *parts]
    _put(arguments.out, "\n".join(parts))
    return 0


def _opening(said: Mapping[str, Any]) -> str:
    from peerwise.report.written import marked_down

    notes = [f"- {marked_down(note)}" for note in said["notes"]]
    return "\n".join([f"# {marked_down(said['title'])}", "", marked_down(said["headline"]), "", *notes]) + "\n"


def _write_csv(arguments: argparse.Namespace, wanted: Sequence[Sheet], sheets: Mapping[str, Sheet]) -> int:
    from peerwise.parcels import write_atomic
    from peerwise.report.written import as_csv

    if arguments.out is None and arguments.table is None:
        raise ConfigError(
            f"--format csv holds one table a file: expected --out FOLDER for all of them, or --table KEY for one. "
            f"Choices: {', '.join(sheets)}."
        )
    if arguments.out is None:
        _put(None, as_csv(wanted[0]))
        return 0
    if arguments.out.exists() and not arguments.out.is_dir():
        raise ConfigError(f"--out {arguments.out} is a file: expected a folder, for a CSV file a table.")
    for sheet in wanted:
        write_atomic(arguments.out / f"{sheet.key}.csv", as_csv(sheet).encode())
    results_console().print(f"tables: {arguments.out} ({len(wanted)} files)", soft_wrap=True, markup=False)
    return 0


def _put_json(out: Path | None, value: dict[str, Any]) -> int:
    from peerwise.cli.as_json import plain_values

    if out is None:
        print_json(plain_values(value))
    else:
        _put(out, json.dumps(plain_values(value), indent=1, allow_nan=False, ensure_ascii=False) + "\n")
    return 0


def _put(out: Path | None, text: str) -> None:
    from peerwise.parcels import write_atomic

    if out is None:
        sys.stdout.write(text)
    elif out.is_dir():
        raise ConfigError(f"--out {out} is a folder: expected a file for this format.")
    else:
        write_atomic(out, text.encode())
