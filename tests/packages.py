"""A package as pip would install it, made of nothing but its entry points."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def installed(folder: Path, entries: Mapping[str, Mapping[str, str]], name: str = "some_package") -> Path:
    """Metadata in this folder, to be put on the search path: by group, names and where they lead."""
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True, exist_ok=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines: list[str] = []
    for group, offered in entries.items():
        lines += [f"[{group}]", *(f"{entry} = {where}" for entry, where in offered.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder
