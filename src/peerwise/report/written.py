"""Tables as files: Markdown, CSV, LaTeX and JSON. Names and values are other people's text, and escaped in each."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from peerwise.report.cells import plain
from peerwise.report.sheets import Cell, Sheet
from peerwise.visible import written_out

MARKDOWN = re.compile(r"([\\`*_\[\]<>#|~&$])")
LATEX = {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_",
         "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
         "|": r"\textbar{}", '"': "''", "±": r"$\pm$", "[": "{[}", "]": "{]}"}  # fmt: skip
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a spreadsheet knows one


def as_markdown(sheet: Sheet) -> str:
    """A heading, what it shows, and the table."""
    right = _numeric(sheet)
    lines = [f"### {marked_down(sheet.title)}", ""]
    lines += [marked_down(" ".join(sheet.about.split("\n"))), ""] if sheet.about else []
    lines.append(_piped(marked_down(column.label) for column in sheet.columns))
    lines.append(_piped("---:" if number else "---" for number in right))
    lines += [_piped(marked_down(cell.text) for cell in row) for row in sheet.rows]
    return "\n".join(lines) + "\n"


def as_csv(sheet: Sheet) -> str:
    """Full numbers; nothing is known where a cell is empty. What a spreadsheet would take for a formula is text."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_harmless(key) for column in sheet.columns for key in column.parts or (column.key,)])
    for row in sheet.rows:
        values = [
            value
            for column, cell in zip(sheet.columns, row, strict=True)
            for value in (cell.value or (None,) * len(column.parts) if column.parts else (cell.value,))
        ]
        writer.writerow([_harmless(plain(value)) for value in values])
    return text.getvalue()


def as_latex(sheet: Sheet) -> str:
    """A table for a paper, with the rules of the booktabs package; the best of a column is bold."""
    right = _numeric(sheet)
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{_texed(sheet.title)}}}", rf"\label{{tab:{sheet.key}}}"]
    lines += [rf"\begin{{tabular}}{{{''.join('r' if number else 'l' for number in right)}}}", r"\toprule"]
    lines.append(" & ".join(_texed(column.label) for column in sheet.columns) + r" \\")
    lines.append(r"\midrule")
    lines += [" & ".join(_texed_cell(cell) for cell in row) + r" \\" for row in sheet.rows]
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def as_plain(sheet: Sheet) -> dict[str, Any]:
    """As JSON has it: columns with their units, a row an object by the columns' keys."""
    columns = [{"key": column.key, "name": column.label, "unit": column.unit} for column in sheet.columns]
    return {"key": sheet.key, "title": sheet.title, "about": sheet.about, "columns": columns, "rows": _objects(sheet)}


FORMATS: Mapping[str, Callable[[Sheet], str]] = {"md": as_markdown, "latex": as_latex}


def marked_down(text: str) -> str:
    """Text that means nothing to Markdown, nor to the HTML in it."""
    return MARKDOWN.sub(r"\\\1", written_out(text).replace("\n", " "))


def _objects(sheet: Sheet) -> list[dict[str, Any]]:
    found = []
    for row in sheet.rows:
        line: dict[str, Any] = {}
        for column, cell in zip(sheet.columns, row, strict=True):
            values = cell.value or (None,) * len(column.parts)
            parts = zip(column.parts, values, strict=True) if column.parts else [(column.key, cell.value)]
            line |= {key: plain(value) for key, value in parts}
        found.append(line)
    return found


def _numeric(sheet: Sheet) -> list[bool]:
    cells = zip(*sheet.rows, strict=True) if sheet.rows else [()] * len(sheet.columns)
    return [bool(each) and all(not isinstance(cell.value, str) for cell in each) for each in cells]


def _piped(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _harmless(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = written_out(value)
    return f"'{text}" if text.startswith(FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _texed(text: str) -> str:
    return "".join(LATEX.get(one, one) for one in written_out(text).replace("\n", " "))


def _texed_cell(cell: Cell) -> str:
    return rf"\textbf{{{_texed(cell.text)}}}" if cell.mark == "best" else _texed(cell.text)
