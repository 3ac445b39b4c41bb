"""Desks of an old bundle finish what they have begun and are closed once; a broken bundle changes nothing."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from serve_desks import SmallDesk, client_of, open_written, write_bundle

from peerwise.errors import ConfigError, ParcelError
from peerwise.serve.desk import Desk
from peerwise.serve.refusal import Refusal
from peerwise.serve.room import Room


class Opened:
    """Opens what is written, and keeps what it opened."""

    def __init__(self) -> None:
        self.desks: list[SmallDesk] = []

    def __call__(self, path: Path) -> Desk:
        desk = open_written(path)
        assert isinstance(desk, SmallDesk)
        self.desks.append(desk)
        return desk


@pytest.fixture
def opened() -> Opened:
    return Opened()


def test_an_old_desk_is_closed_when_its_last_answer_is_given(opened: Opened, tmp_path: Path) -> None:
    write_bundle(tmp_path, digest="old")
    room = Room(opened, tmp_path, 2, 8)
    room.open()
    inside, go_on = threading.Event(), threading.Event()

    def slow(shift: Any, desk: Desk) -> str:
        inside.set()
        assert go_on.wait(20)
        return desk.about.digest

    async def replaced() -> str:
        asked = asyncio.create_task(room.ask(slow))
        await asyncio.to_thread(inside.wait)
        write_bundle(tmp_path, digest="new")
        await asyncio.to_thread(room.open)
        assert sorted(desk.closed for desk in opened.desks[:2]) == [0, 1]
        assert await room.ask(lambda shift, desk: desk.about.digest) == "new"
        go_on.set()
        return await asked

    assert asyncio.run(replaced()) == "old"
    assert [desk.closed for desk in opened.desks] == [1, 1, 0, 0]
    room.close()
    assert [desk.closed for desk in opened.desks] == [1, 1, 1, 1]


def test_a_bundle_that_cannot_be_opened_leaves_the_old_one_and_no_process(opened: Opened, tmp_path: Path) -> None:
    write_bundle(tmp_path)
    room = Room(opened, tmp_path, 1, 8)
    shift = room.open()
    (tmp_path / "bundle.json").write_text("{")
    with pytest.raises(ConfigError):
        room.open()
    assert room.shift is shift
    assert opened.desks[0].closed == 0
    room.close()


def test_all_desks_are_of_the_same_bundle(tmp_path: Path) -> None:
    desks: list[SmallDesk] = []

    def replaced_meanwhile(path: Path) -> Desk:
        desks.append(SmallDesk(digest="old" if not desks else "new"))
        return desks[-1]

    room = Room(replaced_meanwhile, tmp_path, 2, 8)
    assert {desk.about.digest for desk in room.open().desks} == {"new"}
    assert [desk.closed for desk in desks] == [1, 1, 0, 0]
    room.close()
    count = iter(range(100))
    restless = Room(lambda path: SmallDesk(digest=str(next(count))), tmp_path, 2, 8)
    with pytest.raises(ParcelError, match="replaced 5 times while it was opened"):
        restless.open()
    restless.close()


def test_requests_wait_until_the_bundle_is_open_and_health_says_so(opened: Opened, tmp_path: Path) -> None:
    write_bundle(tmp_path)
    room = Room(opened, tmp_path, 1, 8)
    service = client_of(room)

    async def meanwhile() -> None:
        early = asyncio.create_task(service.ask("POST", "/v1/predict", json={"row": {"age": 1}}))
        ill = await service.ask("GET", "/v1/health")
        assert (ill.status_code, ill.json()["status"], ill.json()["bundle"]) == (503, "starting", None)
        await asyncio.to_thread(room.open)
        assert (await early).status_code == 200
        assert (await service.ask("GET", "/v1/health")).status_code == 200

    asyncio.run(meanwhile())
    room.close()


def test_a_room_that_closes_turns_away_who_still_waits(opened: Opened, tmp_path: Path) -> None:
    room = Room(opened, tmp_path, 1, 8)
    service = client_of(room)

    async def meanwhile() -> int:
        early = asyncio.create_task(service.ask("POST", "/v1/predict", json={"row": {"age": 1}}))
        await asyncio.sleep(0.1)
        await asyncio.to_thread(room.close)
        return (await early).status_code

    assert asyncio.run(meanwhile()) == 503


def test_who_waits_for_a_bundle_that_cannot_be_opened_is_told_at_once(tmp_path: Path) -> None:
    tmp_path.joinpath("bundle.json").write_text("{")
    room = Room(open_written, tmp_path, 1, 8)

    async def waiting() -> None:
        asked = asyncio.create_task(room.ask(lambda shift, desk: None))
        await asyncio.sleep(0.05)
        with pytest.raises(ConfigError, match="is broken"):
            await asyncio.to_thread(room.open)
        with pytest.raises(Refusal, match="the service is ending"):
            await asyncio.wait_for(asked, 20)

    try:
        asyncio.run(waiting())
    finally:
        room.close()


def test_only_desks_that_nobody_asks_are_revived(opened: Opened, tmp_path: Path) -> None:
    write_bundle(tmp_path)
    room = Room(opened, tmp_path, 2, 8)
    shift = room.open()
    revived: list[Desk] = []
    for desk in opened.desks:
        desk.revive = lambda desk=desk: bool(revived.append(desk)) or True  # type: ignore[method-assign, misc]
    busy = shift.take()
    assert room.revive() == 1
    assert busy not in revived
    assert busy is not None
    shift.give(busy)
    assert room.revive() == 2
    room.close()
    assert room.revive() == 0
