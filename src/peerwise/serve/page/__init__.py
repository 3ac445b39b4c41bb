"""The page beside the API: plain files, which ask the API and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

START = "index.html"
TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True)
class PageFile:
    content: bytes
    type: str


@cache
def page_files() -> dict[str, PageFile]:
    """All files of the page by name: what is not among them is not served."""
    found = {}
    for each in files(__name__).iterdir():
        kind = TYPES.get(each.name.rpartition(".")[2])
        if kind is not None:
            found[each.name] = PageFile(each.read_bytes(), kind)
    return found
