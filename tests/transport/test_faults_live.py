"""Live peers that lie, drip, never end or break off: each costs its own part, in bounded time, and is reported."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from live_peers import PATIENT, free_port, model, until
from parties import FEDERATION, Party

from peerwise.errors import ExchangeError
from peerwise.parcels import Parcel, sha256
from peerwise.transport import (
    FolderTransport,
    TransferLimits,
    ZenohTransport,
    open_session,
    zenoh_config,
)
from peerwise.transport.zenoh_access import CHUNK, key_root

pytest.importorskip("zenoh")
ROOT = key_root(FEDERATION)
SHORT = TransferLimits(answer=2, chunk=1.5, blob=2.5, pause=0.1)
Answers = Callable[[str], Iterator[bytes]]


class Loopback:
    """Sites in this process, without certificates: what they send is not held back by any access list."""

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        self.party, self.folder = Party(folder, names), folder
        self.seed = f"127.0.0.1:{free_port()}"
        self.stack = ExitStack()
        self.served: list[ZenohTransport] = []
        self.sessions = {name: self._session(name, place == 0) for place, name in enumerate(names)}

    def _session(self, name: str, first: bool) -> Any:
        listen, connect = (self.seed, []) if first else (None, [self.seed])
        options: dict[str, Any] = {"listen": listen, "connect": connect, "insecure_loopback": True}
        return self.stack.enter_context(open_session(zenoh_config(self.party.roster, name, **options)))

    def transport(self, name: str, limits: TransferLimits = PATIENT, *, serve: bool = False) -> ZenohTransport:
        folders = {"outbox": self.folder / name / "outbox", "cache": self.folder / name / "cache"}
        given = {"name": name, "federation": FEDERATION, "limits": limits, "serve": serve}
        return ZenohTransport(self.sessions[name], **given, **folders)

    def serve(self, name: str) -> None:
        self.served.append(self.transport(name, serve=True))

    def lie(self, name: str, answers: Answers) -> None:
        """Answer every question as given; a generator may send as often as it likes."""
        pool, over = self.stack.enter_context(ThreadPoolExecutor(4)), Event()
        self.stack.callback(over.set)

        def answer(query: Any) -> None:
            with query:
                for data in answers(str(query.key_expr)):
                    if over.is_set():
                        return
                    query.reply(query.key_expr, data)

        for keys in ("manifest/*", "blob/*/*"):
            declared = self.sessions[name].declare_queryable(f"{ROOT}/{name}/{keys}", lambda q: pool.submit(answer, q))
            self.stack.callback(declared.undeclare)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Loopback]:
    """A reader, "a", and "b", which has a model of more than four chunks in its outbox and is not served yet."""
    made = Loopback(tmp_path, ("a", "b"))
    with made.stack:
        made.party.at("a", made.transport("a")).publish("round-0", Parcel(who="a"))
        made.party.at("b", made.transport("b")).publish("round-0", Parcel(who="b", model=model(1)))
        yield made


def honest(pair: Loopback) -> Callable[[str], bytes]:
    """What b would answer."""
    transport = FolderTransport(pair.folder / "b" / "outbox", "b")

    def answer(key: str) -> bytes:
        kind, name, *number = key.removeprefix(f"{ROOT}/b/").split("/")
        if kind == "manifest":
            found = transport.fetch("b", name)
            return found.manifest if found else b""
        return transport.piece(name, int(number[0]) * CHUNK, CHUNK) or b""

    return answer


def changed(how: Callable[[bytes], bytes]) -> Callable[[Callable[[str], bytes]], Answers]:
    def made(true: Callable[[str], bytes]) -> Answers:
        def answers(key: str) -> Iterator[bytes]:
            yield how(true(key)) if "/blob/" in key else true(key)

        return answers

    return made


def endless(true: Callable[[str], bytes]) -> Answers:
    def answers(key: str) -> Iterator[bytes]:
        if "/manifest/" in key:
            yield true(key)
            return
        while True:
            yield b"e" * 50_000

    return answers


def dripping(true: Callable[[str], bytes]) -> Answers:
    def answers(key: str) -> Iterator[bytes]:
        if "/blob/" in key:
            time.sleep(0.8)  # each chunk within its own time, but not all of them in that of the blob
        yield true(key)

    return answers


def forged(true: Callable[[str], bytes]) -> Answers:
    def answers(key: str) -> Iterator[bytes]:
        yield true(key).replace(b"a", b"b") if "/manifest/" in key else true(key)

    return answers


LIES = {
    "truncated": changed(lambda data: data[:-1]),
    "swapped": changed(lambda data: bytes(len(data))),
    "gzip": changed(gzip.compress),
    "empty": changed(lambda data: b""),
    "huge": changed(lambda data: data + b"z" * (30 << 20)),
    "endless": endless,
    "dripping": dripping,
    "forged": forged,
}


@pytest.mark.parametrize("lie", LIES)
def test_a_peer_that_sends_wrongly_costs_its_own_part(pair: Loopback, lie: str) -> None:
    pair.lie("b", LIES[lie](honest(pair)))
    transport = pair.transport("a", SHORT)
    reader = pair.party.at("a", transport)
    until(lambda: _answers(transport, "b"), "b answers")
    started = time.monotonic()
    assert list(reader.gather("round-0")) == ["a"]
    assert time.monotonic() - started < 40, "a few seconds are allowed to b"
    assert [(site, topic) for site, topic, _ in pair.party.refused] == [("b", "round-0")]


def _answers(transport: ZenohTransport, site: str) -> bool:
    try:
        return transport.fetch(site, "round-0") is not None
    except ExchangeError:
        return False


def blob_of_b(transport: ZenohTransport, sha256: str) -> bytes:
    found = transport.fetch("b", "round-0")
    assert found is not None
    return found.blob(sha256, 5_000_000)


def test_a_transfer_that_broke_off_goes_on_where_it_was(pair: Loopback) -> None:
    true, asked, broken = honest(pair), [], [True]

    def answers(key: str) -> Iterator[bytes]:
        if "/blob/" in key and len(true(key)) > 1000:
            number = int(key.rpartition("/")[2])
            asked.append(number)
            if broken[0] and number >= 3:
                return
        yield true(key)

    pair.lie("b", answers)
    transport = pair.transport("a")
    until(lambda: _answers(transport, "b"), "b answers")
    reader = pair.party.at("a", transport)
    assert list(reader.gather("round-0")) == ["a"]
    assert asked[:3] == [0, 1, 2]
    broken[0] = False
    asked.clear()
    again = pair.party.at("a", pair.transport("a"))  # another process, say
    assert again.gather("round-0")["b"]["model"] == model(1)
    assert asked == [3, 4], "what was there was not fetched again"
    assert not list((pair.folder / "a" / "cache").rglob("*.part"))


def test_what_was_kept_of_a_broken_transfer_is_not_believed(pair: Loopback) -> None:
    pair.serve("b")
    name = sha256(model(1))
    part = pair.folder / "a" / "cache" / "b" / f"{name}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(bytes(2 * CHUNK + 77))
    transport = pair.transport("a")
    until(lambda: _answers(transport, "b"), "b answers")
    assert blob_of_b(transport, name) == model(1)


def test_broken_transfers_of_a_site_do_not_pile_up(pair: Loopback) -> None:
    pair.serve("b")
    folder = pair.folder / "a" / "cache" / "b"
    folder.mkdir(parents=True)
    for number in range(30):
        (folder / f"{number:064}.part").write_bytes(b"x")
    transport = pair.transport("a")
    until(lambda: _answers(transport, "b"), "b answers")
    blob_of_b(transport, sha256(model(1)))
    assert len(list(folder.iterdir())) < 10


def test_a_session_that_was_closed_is_said(pair: Loopback) -> None:
    transport = pair.transport("a")
    transport.close()
    for call in (
        transport.members,
        lambda: transport.fetch("b", "round-0"),
        lambda: transport.list("round-0"),
    ):
        with pytest.raises(ExchangeError, match="Open it again"):
            call()
    assert transport.fetch("a", "round-0"), "what is our own is there without anybody"


@pytest.mark.parametrize("share", [10, 50, 100])
@pytest.mark.parametrize("mood", ["dead", "hanging"])
def test_dead_and_hanging_peers_cost_one_deadline_together(tmp_path: Path, mood: str, share: int) -> None:
    names = ("reader", *(f"s{number}" for number in range(10)))
    made = Loopback(tmp_path, ("reader", "s0"))
    made.party = Party(tmp_path, names)
    bad = names[1 : 1 + share // 10]
    with made.stack:
        made.sessions |= dict.fromkeys(names[1:], made.sessions["s0"])
        for name in names[1:]:
            made.party.at(name, made.transport(name)).publish("round-0", Parcel(who=name))
            if name not in bad:
                made.serve(name)
            elif mood == "hanging":
                held: list[Any] = []
                made.stack.callback(made.sessions[name].declare_queryable(f"{ROOT}/{name}/*/*", held.append).undeclare)
        transport = made.transport("reader", SHORT)
        good = [name for name in names[1:] if name not in bad]
        until(lambda: transport.members() == good, "those that are served are seen")
        started = time.monotonic()
        found = made.party.at("reader", transport).gather("round-0", quorum=len(good), deadline=20)
        assert time.monotonic() - started < 40, "two seconds, for all at once"
        assert list(found) == good
        why = "nobody answers" if mood == "dead" else "did not answer in time"
        assert {site for site, _, text in made.party.refused if why in text} == set(bad)
