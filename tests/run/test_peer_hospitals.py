"""Hospitals as processes that meet over Zenoh with certificates: the same answers as in one process, whoever is killed,
comes late, takes back or is revoked."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hospitals import Hospitals
from peer_processes import Command, Forge, until

from peerwise.errors import NotTrusted
from peerwise.models.worker import Worker
from peerwise.run.peer import PeerFolder, connect, live, outbox, pull, renew
from peerwise.run.peer.founding import LIST_DAYS

pytest.importorskip("zenoh")
NAMES = ("cleveland", "hungarian", "switzerland", "long_beach")


@pytest.fixture(scope="module")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forge]:
    forge = Forge(tmp_path_factory.mktemp("said"))
    try:
        yield forge
    finally:
        forge.close()


def addresses(names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """A free port for each; all are held until the last is drawn, so that no two are the same."""
    held = [socket.socket() for _ in names]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return {name: {"listen": f"127.0.0.1:{port}"} for name, port in zip(names, ports, strict=True)}


def go_live(forge: Forge, made: Hospitals, name: str, *more: object) -> Command:
    command = forge.start("live", "--folder", made.folder / name, "--every", 1, *more)
    command.hears("is live at")
    return command


def test_hospitals_over_the_network_answer_as_in_one_process(forge: Forge, tmp_path: Path) -> None:
    """Two at first; the third comes when these are fitted, and one of them is killed in between."""
    names = NAMES[:3]
    made = Hospitals(tmp_path, names, method="peerwise", models=["logistic"])
    where = addresses(names)
    made.begin(**{name: where[name] for name in names[:2]})
    running = {name: go_live(forge, made, name) for name in names[:2]}
    for name in names[:2]:
        forge.run("publish", "--folder", made.folder / name)
    for name in names[:2]:
        until(lambda name=name: bool(made.lines(name, "arrived")), f"{name} has its peer's model")
        forge.run("fit", "--use-peers", "--folder", made.folder / name)
    for name, expected in made.expected("switzerland").items():
        assert made.answers(name).tobytes() == expected.tobytes()

    running["hungarian"].kill()
    made.add("switzerland", **where)
    forge.run("publish", "--folder", made.folder / "switzerland")
    running["switzerland"] = go_live(forge, made, "switzerland")
    running["cleveland"].hears("list 3: hungarian, switzerland")
    running["hungarian"] = go_live(forge, made, "hungarian")
    for name in names:
        others = set(names) - {name}
        until(lambda name=name, others=others: others <= arrived(made, name), f"{name} has {others}")
        forge.run("fit", "--use-peers", "--folder", made.folder / name)
    for name, expected in made.expected().items():
        assert made.answers(name).tobytes() == expected.tobytes()
    for command in running.values():
        command.send(signal.SIGTERM)
        assert command.wait() == 0
        assert command.errors().splitlines()[-1] == "stopped"


def arrived(made: Hospitals, name: str) -> set[str]:
    return {line["site"] for line in made.lines(name, "arrived")}


def test_ctrl_c_ends_live_as_it_should(forge: Forge, tmp_path: Path) -> None:
    made = live_pair(tmp_path)
    running = go_live(forge, made, "cleveland", "--every", 0)
    running.send(signal.SIGINT)
    assert running.wait() == 0
    assert "Traceback" not in running.errors()


def live_pair(folder: Path, **more: Any) -> Hospitals:
    settings = {"method": "peerwise", "models": ["logistic"], "most": 40, **more}
    made = Hospitals(folder, NAMES[:2], **settings)
    made.begin(**addresses(NAMES[:2]))
    return made


def test_a_port_in_use_is_told_in_a_sentence(forge: Forge, tmp_path: Path) -> None:
    made = live_pair(tmp_path, method="fedavg", models=["mlp"])
    for name, verb in (("cleveland", "live"), ("hungarian", "fit")):
        host, _, port = made.peer(name).settings.meeting.listen.rpartition(":")
        with socket.create_server((host, int(port))):
            command = forge.start(verb, "--folder", made.folder / name)
            assert command.wait() == 2
            said = [line for line in command.errors().splitlines() if line.startswith("peerwise: ")]
            assert len(said) == 1
            assert f"127.0.0.1:{port}" in said[0]
            assert "free port" in said[0]


def test_peers_that_are_not_there_are_told_one_by_one(forge: Forge, tmp_path: Path) -> None:
    made = live_pair(tmp_path)
    found = forge.run("pull", "--folder", made.folder / "hungarian")
    assert {name: outcome["outcome"] for name, outcome in found["peers"].items()} == {"cleveland": "unreachable"}
    assert "nobody answers for cleveland" in found["peers"]["cleveland"]["why"]
    told = [check for check in forge.run("doctor", "--folder", made.folder / "hungarian") if check["what"] == "peers"]
    assert [check["verdict"] for check in told] == ["warning"]
    assert "cleveland cannot be reached" in told[0]["text"]
    go_live(forge, made, "cleveland")
    forge.run("publish", "--folder", made.folder / "cleveland")
    found = forge.run("pull", "--folder", made.folder / "hungarian")
    assert found["peers"]["cleveland"]["outcome"] == "new"
    told = [check for check in forge.run("doctor", "--folder", made.folder / "hungarian") if check["what"] == "peers"]
    assert [(check["verdict"], check["text"]) for check in told] == [("ok", "cleveland can be reached")]


def test_a_member_whose_list_has_ended_gets_the_renewed_one_over_the_network(tmp_path: Path) -> None:
    live_pair(tmp_path)

    def later() -> float:
        return time.time() + (LIST_DAYS + 1) * 86_400

    founder = PeerFolder(tmp_path / "cleveland", clock=later)
    member = PeerFolder(tmp_path / "hungarian", clock=later)
    with pytest.raises(NotTrusted, match="expired"):
        member.roster()
    renew(founder, outbox(founder))
    stop = threading.Event()
    said: list[str] = []
    serving = threading.Thread(target=live, args=(founder, stop, said.append), kwargs={"pull_seconds": 0.0})
    serving.start()
    try:
        until(lambda: bool(said), "the founder is live")
        with closing(connect(member)) as transport, Worker() as worker:
            found = pull(member, transport, worker)
    finally:
        stop.set()
        serving.join(60)
    assert found["members"] == {"version": 3, "expires": founder.roster().expires, "note": ""}
    assert member.roster().names == list(NAMES[:2])


def test_rounds_over_the_network_answer_as_in_one_process(forge: Forge, tmp_path: Path) -> None:
    """Nobody stays live beside: each serves what it says while it takes part."""
    settings = {"method_settings": {"rounds": 3, "local_epochs": 1}, "models": ["mlp"], "most": 60}
    made = Hospitals(tmp_path, NAMES[:3], method="fedavg", deadline=600.0, **settings)
    made.begin(**addresses(NAMES[:3]))
    commands = [forge.start("fit", "--use-peers", "--folder", made.folder / name) for name in NAMES[:3]]
    for command in commands:
        assert command.wait() == 0, command.errors()
    for name, expected in made.expected().items():
        assert made.answers(name).tobytes() == expected.tobytes()


class Founding:
    """The commands that people type to found a federation, each as a shell runs it."""

    def __init__(self, forge: Forge, made: Hospitals, where: dict[str, dict[str, Any]]) -> None:
        self.forge, self.made, self.where = forge, made, where
        (made.folder / "task.toml").write_text(made.task().text())

    def typed(self, *words: object) -> Any:
        return self.forge.fresh(*words, "--format", "json").found()

    def init(self, name: str, *more: object) -> Any:
        asked = ["--set", "ask=never", "--set", "attack_seconds=0.0"]
        asked += ["--data", str(self.made.rows(name)), "--listen", self.where[name]["listen"]]
        return self.typed("init", self.made.folder / name, *asked, *more)

    def found(self) -> None:
        self.first = self.init(self.made.founder, "--task", self.made.folder / "task.toml")

    def join(self, name: str) -> None:
        told = self.init(name, "--invite", self.first["invite"], "--fingerprint", self.first["fingerprint"])
        founder = self.made.folder / self.made.founder
        letter = self.typed("admit", told["request"], "--fingerprint", told["fingerprint"], "--folder", founder)
        self.typed("admit", letter["welcome"], "--folder", self.made.folder / name)

    def live(self, name: str) -> Command:
        command = self.forge.fresh("live", "--folder", self.made.folder / name, "--every", 2)
        command.hears("is live at")
        return command


@pytest.mark.slow
def test_four_hospitals_one_killed_one_late_one_withdrawn_one_revoked(forge: Forge, tmp_path: Path) -> None:
    made = Hospitals(tmp_path, NAMES, method="peerwise", models=["boosting", "forest", "logistic"])
    typed = Founding(forge, made, addresses(NAMES))
    typed.found()
    typed.join("hungarian")
    typed.join("switzerland")
    early = NAMES[:3]
    for name in early:
        forge.run("publish", "--folder", made.folder / name)
    running = {name: typed.live(name) for name in early}
    until(lambda: bool(arrived(made, "hungarian")), "something has come to hungarian")
    running["hungarian"].kill()
    running["hungarian"] = typed.live("hungarian")
    all_fitted(forge, made, early, "long_beach")

    typed.join("long_beach")
    forge.run("publish", "--folder", made.folder / "long_beach")
    running["long_beach"] = typed.live("long_beach")
    all_fitted(forge, made, NAMES)

    forge.run("withdraw", "--folder", made.folder / "switzerland", "--why", "a patient has objected")
    all_without(made, "switzerland", "withdrawn: a patient has objected")
    revoke = ("admit", "--revoke", "hungarian", "--why", "left", "--folder", made.folder / "cleveland")
    assert forge.fresh(*revoke).wait() == 0
    all_without(made, "hungarian", "no member any more", "switzerland")
    left = ("cleveland", "switzerland", "long_beach")
    for name in left:
        running[name].hears(f"list 5: {', '.join(other for other in left if other != name)}")
    running["hungarian"].send(signal.SIGTERM)
    obtains_nothing(forge, made, "hungarian", running["hungarian"].wait())
    for name in left:
        running[name].send(signal.SIGTERM)
        assert running[name].wait() == 0
    assert running["long_beach"].errors().count("switzerland: withdrawn") <= 2, "once a session, not at every pull"


def obtains_nothing(forge: Forge, made: Hospitals, name: str, ended: int) -> None:
    """It may have heard of its revocation before the others closed their doors; afterwards nobody answers it."""
    last = forge.start("pull", "--folder", made.folder / name, "--format", "json")
    if last.wait() == 0:
        assert ended == 0
        assert {outcome["outcome"] for outcome in last.found()["peers"].values()} == {"unreachable"}
    else:
        assert "was revoked" in last.errors()
    assert np.isfinite(made.answers(name)).all(), "it still has its own answers"


def all_fitted(forge: Forge, made: Hospitals, names: tuple[str, ...], *without: str) -> None:
    """Once all models have come: fit everywhere, and compare with one process."""
    for name in names:
        others = set(names) - {name}
        until(lambda name=name, others=others: others <= arrived(made, name), f"{name} has {others}")
        forge.run("fit", "--use-peers", "--folder", made.folder / name)
    for name, expected in made.expected(*without).items():
        assert made.answers(name).tobytes() == expected.tobytes(), name


def all_without(made: Hospitals, gone: str, why: str, *gone_before: str) -> None:
    """Nobody types anything: the next pull of each live site removes what it had, and fits without it."""
    for name, expected in made.expected(gone, *gone_before).items():
        until(lambda name=name: gone not in used(made, name), f"{name} answers without {gone}")
        assert made.answers(name).tobytes() == expected.tobytes(), name
        assert made.lines(name, "removed")[-1]["site"] == gone
        assert made.lines(name, "removed")[-1]["why"] == why


def used(made: Hospitals, name: str) -> set[str]:
    return set(made.lines(name, "fitted")[-1]["peers"])
