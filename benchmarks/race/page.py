"""The page of the race: between marks the tables as they were measured, and the plots beside it; the text stays."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from race import tables
from race.plots import draw

SECTIONS: dict[str, Callable[[dict[str, Any]], str]] = {
    "feddes": tables.feddes,
    "selection": tables.selection,
    "rules": tables.rules,
    "rounds": tables.rounds,
    "many_sites": tables.many_sites,
    "growth": tables.growth,
    "bounds": tables.bounds,
}


def write_page(path: Path, found: Mapping[str, Any]) -> None:
    """Parts that were not measured keep what stands between their marks."""
    text = path.read_text() if path.is_file() else _blank()
    for name, part in found.items():
        begin, end = _marks(name)
        if begin not in text:
            raise SystemExit(f"{path} has no line {begin!r}: expected it and {end!r} around the tables of {name}.")
        written = f"{begin}\n{SECTIONS[name](part['figures'])}\n\n{_measured(part['about'])}\n{end}"
        text = re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _, new=written: new, text, flags=re.DOTALL)
    path.write_text(text)
    if "growth" in found:
        draw(found["growth"]["figures"]["curves"], path.with_name("race_growth.png"))


def _blank() -> str:
    parts = "\n\n".join("\n".join((f"## {name}", "", *_marks(name))) for name in SECTIONS)
    return f"# The race\n\n{parts}\n"


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- measured: {name} -->", f"<!-- end of {name} -->"


def _measured(about: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    size = "" if about["size"] == "full" else f"**Size {about['size']}: no result, a trial of the programs.** "
    cores = "1 core" if about["cores"] == 1 else f"{about['cores']} cores"
    return (
        f"{size}{cores} ({about['processor']}), {about['seconds'] / 60:.1f} minutes, commit "
        f"{about['commit']}; {versions}."
    )
