"""The page's files, read once: nothing else can be asked for."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files as resources

INDEX = "index.html"
KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
}


@dataclass(frozen=True)
class File:
    content: bytes
    kind: str
    etag: str


@cache
def files() -> dict[str, File]:
    """By name."""
    folder = resources("peerwise.serve") / "page"
    found = {}
    for each in folder.iterdir() if folder.is_dir() else ():
        kind = KINDS.get(each.name.rpartition(".")[2])
        if kind is not None:
            content = each.read_bytes()
            found[each.name] = File(content, kind, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
    return found
