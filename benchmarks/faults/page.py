"""docs/reliability.md: between two marks, the table of faults as it was measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from faults.rows import Row

BEGIN, END = "<!-- table of faults -->", "<!-- end of the table of faults -->"
TITLES = {
    "stages": "kill -9 at each stage",
    "kill": "kill -9 at every write",
    "otherwise": "kill -9, then another command",
    "full": "Disk full, from a write on",
    "full once": "Disk full at one write alone",
    "transfers": "Transfers",
    "crowds": "Dead, hanging, slow and endless peers",
    "tampering": "Tampering",
    "statements": "Keys, clocks, names",
    "history": "Playing back, saying two things, losing state",
    "answers": "Models with wrong answers",
    "hostile": "Hostile files",
    "workers": "A worker that goes wrong",
}


def table(found: Mapping[str, list[Row]]) -> str:
    lines = ["| fault | trials | struck | broken | |", "|---|---:|---:|---:|---|"]
    for name, title in TITLES.items():
        if name in found:
            lines.append(f"| **{title}** | | | | |")
            lines += [
                f"| {row.what} | {row.trials:,} | {row.struck:,} | {len(row.problems):,} | {row.note} |"
                for row in found[name]
            ]
    rows = [row for part in found.values() for row in part]
    totals = sum(row.trials for row in rows), sum(row.struck for row in rows), sum(len(row.problems) for row in rows)
    lines.append("| **all** | **{:,}** | **{:,}** | **{:,}** | |".format(*totals))
    return "\n".join(lines)


def write_page(path: Path, found: Mapping[str, list[Row]]) -> None:
    text = path.read_text() if path.is_file() else f"# Reliability\n\n{BEGIN}\n{END}\n"
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    path.write_text(f"{before}{BEGIN}\n{table(found)}\n{END}{after}")
