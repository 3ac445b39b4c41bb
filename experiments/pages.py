"""Tables in Markdown, and pages that hold measured parts between marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """
    >>> print(table(["method", "accuracy"], [["local", "91.0"]]), end="")
    | method | accuracy |
    | --- | --- |
    | local | 91.0 |
    """
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *lines))


def put(page: Path, parts: Mapping[str, str]) -> None:
    """Replace what stands between the marks <!-- name --> and <!-- end of name --> of each part."""
    text = page.read_text("utf-8")
    for name, content in parts.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            raise SystemExit(f"{page} has no {begin.strip()} ... {end}")
        text = f"{before}{begin}{content}{end}{after}"
    page.write_text(text, "utf-8")
