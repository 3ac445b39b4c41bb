"""Every exchange of ours passes the kit, over every kind of place, and the kit catches those that should not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from exchange_parties import Party

from peerwise.checks import check_exchange
from peerwise.checks.exchange import SITES
from peerwise.exchange import Exchange, FolderExchange, FolderShelf, MemoryExchange, MemoryShelf
from peerwise.exchange.shelf import Entries
from peerwise.parcels import Parcel


def test_the_exchanges_of_the_simulator_pass(tmp_path: Path) -> None:
    shared = MemoryExchange()
    check_exchange(lambda site: shared)
    check_exchange(lambda site: FolderExchange(tmp_path))


def test_signed_parcels_in_memory_pass(tmp_path: Path) -> None:
    party, place = Party(tmp_path, SITES), Entries()
    check_exchange(lambda site: party.at(site, MemoryShelf(site, place)))
    assert party.refused == []


PLACES: dict[str, Callable[[Path], str | Path]] = {
    "path": lambda folder: folder / "shared",
    "local": lambda folder: f"local://{folder}/shared",
    "dir": lambda folder: f"dir::file://{folder}/shared",
    "memory": lambda folder: f"memory://{uuid4().hex}/shared",
    "dir of memory": lambda folder: f"dir::memory://{uuid4().hex}",
}


@pytest.mark.parametrize("kind", PLACES)
def test_signed_parcels_in_any_folder_pass(tmp_path: Path, kind: str) -> None:
    party, url = Party(tmp_path, SITES), PLACES[kind](tmp_path)
    check_exchange(lambda site: party.at(site, FolderShelf(url, site)))
    assert party.refused == []
    if "memory" not in kind:
        assert sorted(path.name for path in (tmp_path / "shared").iterdir()) == sorted(SITES)


@pytest.mark.parametrize("before", ["", "file://", "dir::"])
def test_a_folder_is_one_place_however_it_is_named(tmp_path: Path, before: str) -> None:
    party = Party(tmp_path, SITES)
    party.at("East", FolderShelf(f"{before}{tmp_path}/shared", "East")).post(0, "East", Parcel(said=1))
    assert party.at("10", FolderShelf(tmp_path / "shared", "10")).collect(0)["East"]["said"] == 1


class Wrong(MemoryExchange):
    """Keeps the contract, but for what a test replaces."""

    def changed(self, name: str, value: Any) -> Wrong:
        setattr(self, name, value)
        return self


def _unsorted(shared: MemoryExchange) -> Exchange:
    real = shared.collect
    return (
        Wrong()
        .changed("post", shared.post)
        .changed("collect", lambda *given, **options: dict(reversed(real(*given, **options).items())))
    )


def _first_stays(shared: MemoryExchange) -> Exchange:
    def post(round: int, site: str, parcel: Parcel) -> None:
        if site not in shared.collect(round):
            shared.post(round, site, parcel)

    return Wrong().changed("post", post).changed("collect", shared.collect)


def _impatient(shared: MemoryExchange) -> Exchange:
    return (
        Wrong()
        .changed("post", shared.post)
        .changed("collect", lambda round, quorum=0, deadline=0: shared.collect(round))
    )


def _leaky(shared: MemoryExchange) -> Exchange:
    """Hands on the sender's own objects."""
    kept: dict[int, dict[str, Parcel]] = {}

    def collect(round: int, quorum: int = 0, deadline: float = 0) -> Mapping[str, Parcel]:
        return dict(sorted(kept.get(round, {}).items()))

    return (
        Wrong()
        .changed("post", lambda round, site, parcel: kept.setdefault(round, {}).update({site: parcel}))
        .changed("collect", collect)
    )


@pytest.mark.parametrize(
    ("wrong", "told"),
    [(_unsorted, "in this order"), (_first_stays, "expected the second"), (_impatient, "waited"), (_leaky, "changes")],
)
def test_the_kit_says_what_is_wrong(wrong: Callable[[MemoryExchange], Exchange], told: str) -> None:
    shared = wrong(MemoryExchange())
    with pytest.raises(AssertionError, match=told):
        check_exchange(lambda site: shared)


def test_the_kit_notices_an_exchange_that_forgets() -> None:
    shared = {0: MemoryExchange()}
    opened: list[str] = []

    def make(site: str) -> Exchange:
        opened.append(site)
        if len(opened) == len(SITES) + 1:
            shared[0] = MemoryExchange()
        return shared[0]

    with pytest.raises(AssertionError, match="after restarts"):
        check_exchange(make, patience=1)
