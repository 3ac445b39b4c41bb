"""Methods of the tests, offered as an installed package would."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from peerwise.methods import registry


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    known = list(registry.entry_points(group=registry.GROUP))

    def add(name: str, where: str) -> None:
        known.append(EntryPoint(name, where, registry.GROUP))
        monkeypatch.setattr(registry, "entry_points", lambda group: EntryPoints(known))
        registry.entries.cache_clear()

    yield add
    registry.entries.cache_clear()
