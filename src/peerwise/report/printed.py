"""Tables in the terminal: as wide as it is and no wider, each with a line that says what it shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import fill
from typing import Any

import pandas as pd
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from peerwise.evaluate import Assessment
from peerwise.report.notes import notes_of
from peerwise.report.sheets import Cell, Column, Sheet
from peerwise.report.story import Story
from peerwise.report.tables import subgroup_tables, summary_sheets
from peerwise.run.opened import explanation_of
from peerwise.visible import written_out

MOST_ROWS = 60
WIDTH = 80
GAP = 2  # between two columns
LONGEST = 34  # a longer name goes on in the next line
STYLES = {"best": "green", "worst": "red", "": ""}


def print_summary(summary: pd.DataFrame, console: Console, settings: dict[str, Any] | None = None) -> None:
    """All tables of `summarise`, or of an assessment's methods with its settings, each within 80 columns."""
    print_sheets(summary_sheets(summary, settings), console)


def print_assessment(found: Assessment, console: Console) -> None:
    """The tables of the methods, those by subgroup, and what else is to be known."""
    print_summary(found.methods, console, found.settings)
    print_sheets(subgroup_tables(found.subgroups), console)
    print_lines(notes_of(found), console)


def print_headline(text: str, console: Console) -> None:
    print_lines([_filled(text, console), ""], console)


def print_story(story: Story, console: Console, *, all_tables: bool = True) -> None:
    """The sentence first, then the tables; those of the summary alone unless all are wanted."""
    print_headline(story.headline, console)
    print_sheets([story.sheets["methods"]], console)
    if not all_tables:
        return print_assessment(story.found, console)
    others = [sheet for key, sheet in story.sheets.items() if key not in ("methods", "subgroups")]
    place = next((n for n, sheet in enumerate(others) if sheet.key == "opened"), len(others))
    print_sheets([*others[:place], *subgroup_tables(story.found.subgroups), *others[place:]], console, MOST_ROWS)
    print_lines(story.notes, console)


def print_opened(opened: Mapping[str, Any], console: Console) -> None:
    """One decision: the case, what the own models say of it, and the explanation."""
    case = f"{opened['site']}, {opened['part']} row {opened['row']} (truth: {opened['truth']})"
    console.print(f"[bold]One answer opened[/bold]: {escape(written_out(case))}")
    known = [f"{name} {value}" for name, value in opened["values"].items() if value != "missing"]
    explained = str(explanation_of(opened)).split("\n")
    print_lines([f"It is {opened['rule']}.", *([", ".join(known)] if known else [])], console)
    print_lines(explained, console)


def print_lines(lines: Iterable[str], console: Console) -> None:
    """On a terminal between words; a file or another program gets each line whole."""
    for line in lines:
        console.print(written_out(line), markup=False, soft_wrap=not console.is_terminal)


def print_sheets(sheets: Iterable[Sheet], console: Console, most_rows: int | None = None) -> None:
    """Of a table with more rows than ``most_rows`` the first are shown, and how many there are."""
    for sheet in sheets:
        console.print(written_out(sheet.title), style="bold", markup=False)
        if sheet.about:
            console.print(_filled(written_out(sheet.about), console), style="dim", markup=False)
        rows = sheet.rows[:most_rows]
        for columns in _blocks(sheet, rows, console.width):
            console.print(_drawn(sheet, rows, columns))
        if len(rows) < len(sheet.rows):
            left = len(sheet.rows) - len(rows)
            console.print(f"... and {left} more rows (--format csv --table {sheet.key} has all)", markup=False)
        console.print()


def _filled(text: str, console: Console) -> str:
    """Sentences as narrow as the tables usually are; words stay whole."""
    width = min(console.width, WIDTH)
    return "\n".join(fill(line, width, break_long_words=False, break_on_hyphens=False) for line in text.split("\n"))


def _blocks(sheet: Sheet, rows: Sequence[tuple[Cell, ...]], width: int) -> Iterator[list[int]]:
    """Which columns stand side by side, the first always among them."""
    widths = [_width(column, [row[place] for row in rows]) for place, column in enumerate(sheet.columns)]
    first = min(widths[0], LONGEST)
    block, taken = [0], first
    for place, needed in enumerate(widths[1:], start=1):
        if len(block) > 1 and taken + GAP + needed > width:
            yield block
            block, taken = [0], first
        block.append(place)
        taken += GAP + needed
    yield block


def _width(column: Column, cells: Sequence[Cell]) -> int:
    lines = [*column.name.split("\n"), *(written_out(cell.text) for cell in cells)]
    return max(cell_len(written_out(line)) for line in lines)


def _drawn(sheet: Sheet, rows: Sequence[tuple[Cell, ...]], columns: list[int]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    broken = any("\n" in sheet.columns[place].name for place in columns)
    for place in columns:
        name, first = Text(written_out(sheet.columns[place].name)), place == 0
        right = not first and all(not isinstance(row[place].value, str) for row in rows)
        table.add_column(
            name,
            justify="right" if right else "left",
            no_wrap=right,
            overflow="fold",
            vertical="bottom" if broken else "top",
            max_width=LONGEST if first else None,
        )
    for row in rows:
        table.add_row(*(Text(written_out(row[place].text), style=STYLES[row[place].mark]) for place in columns))
    return table
