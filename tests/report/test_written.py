"""Tables in every format: the same cells, full numbers for programs, and other people's text that stays text."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from peerwise.report.cells import ends, figure, gains, number, shares, words
from peerwise.report.printed import print_sheets
from peerwise.report.sheets import Cell, Column, Sheet
from peerwise.report.written import as_csv, as_latex, as_markdown, as_plain

NASTY = ['<b>&"', "=cmd()", "+1+1", "-x", "@SUM(A1)", "\ttab", "a|b", "[x](y)", "$x_1^2$", "50 %", "\\end{table}",
         "\x1b[2J", "two\nlines", "#", "~", "{a}", "`c`", "-1.5", "Zürich", ""]  # fmt: skip
SHEET = Sheet(
    "nasty",
    "Nasty & <i>odd</i>",
    "names that\nmean something elsewhere",
    (
        Column("name", "name"),
        Column("sensi-\ntivity", "share", "%"),
        Column("95 %\ninterval", "interval", "points", ("low", "high")),
        Column("=1+1", "=1+1"),
    ),
    tuple((words(name), shares(0.123456789), ends(-0.01, math.nan if place else 0.25), gains(None))
          for place, name in enumerate(NASTY)),
)  # fmt: skip


def test_csv_has_full_numbers_and_no_formula() -> None:
    lines = list(csv.reader(io.StringIO(as_csv(SHEET))))
    assert lines[0] == ["name", "share", "low", "high", "'=1+1"]
    assert lines[1][1:] == ["0.123456789", "-0.01", "0.25", ""]
    assert lines[2][2:] == ["", "", ""], "an interval with one end is none"
    names = [line[0] for line in lines[1:]]
    for name, written in zip(NASTY, names, strict=True):
        if name in ("=cmd()", "+1+1", "-x", "@SUM(A1)"):
            assert written == f"'{name}"
        elif name.isprintable():
            assert written == name, "a number, and any other text, is left alone"
        assert "\x1b" not in written
    assert all(len(line) == len(lines[0]) for line in lines)


def test_markdown_has_a_line_a_row_and_nothing_that_means_something() -> None:
    lines = as_markdown(SHEET).splitlines()
    rows = [line for line in lines if line.startswith("| ")][2:]
    assert len(rows) == len(NASTY)
    for row in rows:
        assert len([c for c, before in zip(row[1:], row, strict=False) if c == "|" and before != "\\"]) == 4
    text = "\n".join(lines)
    assert r"\<b\>\&" in text
    assert r"a\|b" in text
    assert r"\[x\]" in text
    assert "| 12.3 | -1.0 to +25.0 | - |" in text
    assert "| name | sensitivity | 95 % interval | =1+1 |" in text


def test_json_has_rows_by_key() -> None:
    found = json.loads(json.dumps(as_plain(SHEET), allow_nan=False))
    assert found["rows"][0] == {"name": '<b>&"', "share": 0.123456789, "low": -0.01, "high": 0.25, "=1+1": None}
    assert found["columns"][1] == {"key": "share", "name": "sensitivity", "unit": "%"}


def test_latex_escapes_what_it_would_obey() -> None:
    text = as_latex(SHEET)
    assert text.count(r"\end{table}") == 1
    assert r"\textbackslash{}end\{table\}" in text
    assert r"\$x\_1\textasciicircum{}2\$" in text
    assert r"50 \%" in text
    assert r"Nasty \& \textless{}i\textgreater{}odd" in text
    body = text.split(r"\midrule")[1].split(r"\bottomrule")[0]
    assert len(body.strip().splitlines()) == len(NASTY)


def can_typeset() -> bool:
    found = shutil.which("pdflatex") and shutil.which("kpsewhich")
    return bool(found) and subprocess.run(["kpsewhich", "booktabs.sty"], capture_output=True).returncode == 0


@pytest.mark.skipif(not can_typeset(), reason="needs pdflatex with booktabs")
def test_latex_is_latex(tmp_path: Path) -> None:
    frame = r"\documentclass{article}\usepackage{booktabs}\usepackage[T1]{fontenc}\begin{document}%s\end{document}"
    (tmp_path / "t.tex").write_text(frame % as_latex(SHEET))
    done = subprocess.run(["pdflatex", "-halt-on-error", "t.tex"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]


def test_the_best_of_a_column_is_bold_in_latex() -> None:
    sheet = Sheet("s", "S", "", (Column("a", "a"), Column("b", "b")), ((words("x"), Cell("1", 1, "best")),))
    assert r"x & \textbf{1} \\" in as_latex(sheet)


def printed(sheet: Sheet, width: int = 80, most_rows: int | None = None) -> str:
    text = io.StringIO()
    print_sheets([sheet], Console(file=text, width=width, highlight=False), most_rows)
    return text.getvalue()


def test_the_terminal_obeys_no_name() -> None:
    text = printed(SHEET)
    assert "\x1b" not in text
    assert "\\u001b[2J" in text
    assert "[x](y)" in text
    assert '<b>&"' in text


def test_a_table_wider_than_the_terminal_goes_on_below_with_its_names() -> None:
    columns = (Column("site", "site"), *(Column(f"a long name {n}", f"n{n}") for n in range(12)))
    sheet = Sheet("wide", "Wide", "", columns, ((words("north"), *(figure(n, number) for n in range(12))),))
    text = printed(sheet)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert text.count("north ") == 3
    assert all(f"a long name {n}" in text for n in range(12))


def test_long_names_go_on_in_the_next_line_and_long_tables_say_how_much_is_left() -> None:
    name = "a site with a name that is longer than any table can be wide, as some hospitals really have one"
    sheet = Sheet("long", "Long", "", (Column("site", "site"), Column("n", "n")), ((words(name), words("1")),) * 9)
    text = printed(sheet, most_rows=2)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "... and 7 more rows (--format csv --table long has all)" in text
    assert name.replace(" ", "")[:60] in text.replace("\n", "").replace(" ", "").replace("1", "")
