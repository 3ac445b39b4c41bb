"""Bytes by name that stay where they are until they are asked for, and are not kept: one large model at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial


class Later(Mapping[str, bytes]):
    """What ``read`` gives under each name, anew every time.

    >>> files = Later({"a": lambda: b"model"})
    >>> "a" in files, files["a"]
    (True, b'model')
    """

    def __init__(self, read: Mapping[str, Callable[[], bytes]]) -> None:
        self._read = dict(read)

    def __getitem__(self, name: str) -> bytes:
        return self._read[name]()

    def __contains__(self, name: object) -> bool:
        return name in self._read

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    def __len__(self) -> int:
        return len(self._read)


def picked(files: Mapping[str, bytes], names: Iterable[str]) -> Mapping[str, bytes]:
    """These of the files, in this order; none is read that was not."""
    return renamed(files, {name: name for name in names})


def renamed(files: Mapping[str, bytes], names: Mapping[str, str]) -> Mapping[str, bytes]:
    """Under new names, each with the one that it has in ``files``."""
    if isinstance(files, dict):
        return {name: files[known] for name, known in names.items()}
    return Later({name: partial(files.__getitem__, known) for name, known in names.items()})


def joined(*parts: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """All of them together."""
    if all(isinstance(part, dict) for part in parts):
        return {name: data for part in parts for name, data in part.items()}
    return Later({name: partial(part.__getitem__, name) for part in parts for name in part})
