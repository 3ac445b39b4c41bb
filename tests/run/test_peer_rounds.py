"""Methods with rounds between real sites: the same answers as in one process, whatever happens on the way."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hospitals import Hospitals, same_site
from peer_processes import Command, Forge

from peerwise.errors import ExchangeError
from peerwise.methods.own_models import mean_probabilities
from peerwise.models.worker import Worker
from peerwise.parcels import Parcel
from peerwise.parcels.signed import seal
from peerwise.run.participation import Participation
from peerwise.run.peer import PeerFolder, fit_by_rounds, method_of, outbox, rounds, status
from peerwise.run.peer.training import trained

NAMES = ("cleveland", "hungarian", "switzerland")
SHORT: dict[str, Any] = {"rounds": 3, "local_epochs": 1}


@pytest.fixture(scope="module")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forge]:
    forge = Forge(tmp_path_factory.mktemp("said"))
    try:
        yield forge
    finally:
        forge.close()


def hospitals(folder: Path, method: str = "fedavg", names: tuple[str, ...] = NAMES, **more: Any) -> Hospitals:
    settings = {"method_settings": SHORT, "deadline": 600.0, "models": ["mlp"], "most": 60, **more}
    made = Hospitals(folder, names, method=method, **settings)
    made.begin()
    return made


def fitting(forge: Forge, made: Hospitals, *names: str) -> dict[str, Command]:
    """`fit` at these sites at the same time."""
    return {name: forge.start("fit", "--use-peers", "--folder", made.folder / name) for name in names or made.sites}


def fitted(commands: dict[str, Command]) -> None:
    for name, command in commands.items():
        assert command.wait() == 0, f"{name}: {command.errors()}"


def same_answers(made: Hospitals, *without: str) -> None:
    for name, expected in made.expected(*without).items():
        assert made.answers(name).tobytes() == expected.tobytes(), name


@pytest.mark.parametrize(
    ("method", "public", "settings"),
    [
        ("fedavg", 0, SHORT),
        ("fedproto", 0, SHORT),
        ("scaffold", 0, SHORT),
        ("fedmosaic", 40, {"rounds": 4, "local_epochs": 1, "period": 2}),
    ],
)
def test_a_method_with_rounds_answers_as_in_one_process(
    forge: Forge, tmp_path: Path, method: str, public: int, settings: dict[str, Any]
) -> None:
    made = hospitals(tmp_path, method, public=public, method_settings=settings)
    assert all(same_site(made.peer(name).site(), site) for name, site in made.sites.items())
    fitted(fitting(forge, made))
    same_answers(made)


def test_one_round_alone_is_a_round(forge: Forge, tmp_path: Path) -> None:
    made = hospitals(tmp_path, names=NAMES[:2], method_settings={"rounds": 1, "local_epochs": 1})
    fitted(fitting(forge, made))
    same_answers(made)
    told = forge.run("pull", "--folder", made.folder / "hungarian")
    assert told["refitted"] is None, "there is nothing to pull, and nothing that could be fitted from models"
    assert made.peer("hungarian").bundle.has("bundle")


@pytest.mark.parametrize("dies", [4, *(pytest.param(dies, marks=pytest.mark.slow) for dies in (13, 22, 31))])
def test_sites_killed_in_a_write_go_on_where_they_stopped(forge: Forge, tmp_path: Path, dies: int) -> None:
    """Both the hub and a member, again and again, each life a little longer."""
    made = hospitals(tmp_path, names=NAMES[:2], most=40, method_settings={"rounds": 2, "local_epochs": 1})
    lives = dict.fromkeys(made.sites, 0)
    running: dict[str, Command] = {}
    while True:
        for name in made.sites:
            if name in running and not running[name].ended():
                continue
            if name in running and running[name].code == 0:
                continue
            assert name not in running or running[name].code == -9, running[name].errors()
            fate = {"writes": dies + 13 * lives[name]} if lives[name] < 3 else None
            running[name] = forge.start("fit", "--use-peers", "--folder", made.folder / name, dies=fate)
            lives[name] += 1
        if all(command.ended() and command.code == 0 for command in running.values()):
            break
        time.sleep(0.05)
    assert max(lives.values()) > 1, "somebody was killed"
    same_answers(made)


def test_a_hub_killed_before_it_broadcasts_broadcasts_the_same(forge: Forge, tmp_path: Path) -> None:
    made = hospitals(tmp_path, names=NAMES[:2])
    others = fitting(forge, made, "hungarian")
    dies = {"before": "peerwise.transport.signed:SignedTransport.publish", "with": "broadcast", "nth": 3}
    hub = forge.start("fit", "--use-peers", "--folder", made.folder / "cleveland", dies=dies)
    assert hub.wait() == -9
    assert hub.errors().count("combined") == 1, "it had broadcast the first round only"
    fitted(others | fitting(forge, made, "cleveland"))
    same_answers(made)


def test_who_never_comes_is_waited_for_until_the_deadline(forge: Forge, tmp_path: Path) -> None:
    made = hospitals(tmp_path, deadline=2.0, method_settings={"rounds": 2, "local_epochs": 1})
    fitted(fitting(forge, made, "cleveland"))
    for name, expected in made.expected("hungarian", "switzerland").items():
        assert made.answers(name).tobytes() == expected.tobytes()


def test_a_quorum_ends_a_round_and_who_comes_late_takes_part_from_then_on(forge: Forge, tmp_path: Path) -> None:
    """The two that began go on without the third; it absorbs the newest broadcast, and all three agree in the end."""
    made = hospitals(tmp_path, quorum=2, method_settings={"rounds": 6, "local_epochs": 1})
    began = fitting(forge, made, *NAMES[:2])
    began["cleveland"].hears("round 2 of 6")
    late = fitting(forge, made, "switzerland")
    fitted(began | late)
    combined = [
        line.partition("combined ")[2] for line in began["cleveland"].errors().splitlines() if "combined" in line
    ]
    assert combined[:2] == ["cleveland, hungarian"] * 2
    assert len(combined) == 6
    absent = {name: [round for round, names in enumerate(combined) if name not in names] for name in made.sites}
    expected = made.expected(participation=Participation(absent=absent))
    assert made.answers("cleveland").tobytes() == expected["cleveland"].tobytes()
    newest = [[line for line in made.lines(name, "seen") if line["topic"] == "broadcast"][-1] for name in NAMES]
    assert len({line["digest"] for line in newest}) == 1, "all have the same broadcast in the end"


@pytest.mark.slow
def test_who_misses_a_round_takes_part_in_the_next(forge: Forge, tmp_path: Path) -> None:
    made = hospitals(tmp_path, quorum=2, method_settings={"rounds": 4, "local_epochs": 1})
    dies = {"before": "peerwise.run.peer.rounds:_Rounds._shared", "nth": 2}
    away = forge.start("fit", "--use-peers", "--folder", made.folder / "switzerland", dies=dies)
    hub = fitting(forge, made, "cleveland")
    assert away.wait() == -9, "after the first round, which it made with the hub"
    others = fitting(forge, made, "hungarian")
    hub["cleveland"].hears("round 3 of 4")
    fitted(hub | others | fitting(forge, made, "switzerland"))
    assert {len(made.lines(name, "fitted")) for name in NAMES} == {1}
    finished = [made.peer(name).bundle.load_item("bundle", "state")["run"]["absorbed"] for name in NAMES]
    assert finished == [3, 3, 3], "all have heard the last round"


GARBAGE = [
    Parcel(hello="world"),
    Parcel(weights={"0.weight": np.ones((3, 3), np.float32)}, rows=5),
    Parcel(weights={"0.weight": np.full((3, 3), np.nan, np.float32)}, rows=5),
    Parcel(weights=[1, "two", None], rows={"many": 3}),
    Parcel(weights={}, rows=2**62),
]


def test_what_makes_no_sense_costs_its_sender_alone(forge: Forge, tmp_path: Path) -> None:
    made = hospitals(tmp_path, most=40, method_settings={"rounds": len(GARBAGE), "local_epochs": 1})
    hostile = made.peer("switzerland")
    signed = hostile.signed(outbox(hostile))
    for round, garbage in enumerate(GARBAGE):
        signed.publish(f"run-1-round-{round}", garbage)
    fitted(fitting(forge, made, *NAMES[:2]))
    same_answers(made, "switzerland")
    for name in NAMES[:2]:
        noted = made.lines(name, "left out")
        assert {line["site"] for line in noted} == {"switzerland"}
        assert [line["about"] for line in noted] == [f"run-1-round-{round}" for round in range(len(GARBAGE))]


def test_what_is_unsigned_expired_or_of_a_stranger_costs_its_sender_alone(forge: Forge, tmp_path: Path) -> None:
    made = hospitals(tmp_path, most=40, quorum=2)
    good = made.peer("hungarian").signed(outbox(made.peer("hungarian")))
    hostile = made.peer("switzerland")
    transport = outbox(hostile)
    transport.publish("run-1-round-0", b'{"payload": "nothing", "signature": "none"}', {})
    long_ago = PeerFolder(hostile.path, clock=lambda: time.time() - 366 * 86_400)
    sealed = seal(
        Parcel(rows=3),
        hostile.identity,
        federation=hostile.federation.task,
        site="switzerland",
        topic="run-1-round-1",
        version=long_ago.now(),
        created=long_ago.now(),
        expires=long_ago.now() + 86_400,
    )
    transport.publish("run-1-round-1", *sealed)
    stolen, blobs = good.sealed("run-1-round-2", Parcel(rows=3))
    transport.publish("run-1-round-2", stolen, blobs)
    fitted(fitting(forge, made, *NAMES[:2]))
    same_answers(made, "switzerland")
    noted = {line["about"]: line["why"] for line in made.lines("cleveland", "left out")}
    assert set(noted) == {f"run-1-round-{round}" for round in range(3)}
    assert all("NotTrusted" in why or "ParcelError" in why for why in noted.values())
    assert "expired" in noted["run-1-round-1"] or "ended" in noted["run-1-round-1"]


def test_fit_again_begins_a_new_run(forge: Forge, tmp_path: Path) -> None:
    made = hospitals(tmp_path, names=NAMES[:2], method_settings={"rounds": 2, "local_epochs": 1})
    fitted(fitting(forge, made))
    before = made.answers("hungarian")
    once_more = fitting(forge, made)
    fitted(once_more)
    assert not any("combined" in command.errors() for command in once_more.values()), "all rounds had been made"
    anew = {name: forge.start("fit", "--again", "--use-peers", "--folder", made.folder / name) for name in made.sites}
    fitted(anew)
    assert all(command.errors().count("combined") == 2 for command in anew.values())
    assert made.answers("hungarian").tobytes() == before.tobytes()
    shown = made.folder / "shared" / "hungarian" / "blobs"
    assert not list(shown.iterdir()), "no parcel of a round that has ended is left"
    assert not (made.folder / "hungarian" / "fetched").exists()


def test_own_models_that_did_better_than_the_rounds_answer_unless_peers_are_asked_for(
    forge: Forge, tmp_path: Path
) -> None:
    """At a learning rate of next to nothing the rounds leave the net as it was drawn."""
    made = hospitals(tmp_path, names=NAMES[:2], method_settings={"rounds": 1, "local_epochs": 1, "lr": 1e-9})
    running = {name: forge.start("fit", "--folder", made.folder / name) for name in NAMES[:2]}
    fitted(running)
    for name in NAMES[:2]:
        found = status(made.peer(name))["bundle"]
        assert found["validation"]["worse"]
        assert found["own_models_answer"]
        site = made.peer(name).site()
        np.testing.assert_array_equal(made.answers(name), mean_probabilities(site, trained(site).files, site.test.X))
    fitted(fitting(forge, made))
    assert not any(status(made.peer(name))["bundle"]["own_models_answer"] for name in NAMES[:2])


def test_other_settings_than_the_hubs_are_refused(forge: Forge, tmp_path: Path) -> None:
    made = hospitals(tmp_path, names=NAMES[:2], most=40)
    hub = fitting(forge, made, "cleveland")["cleveland"]
    was = made.peer("hungarian").settings
    others: dict[str, dict[str, Any]] = {
        "rounds 7": {"method_settings": {"rounds": 7, "local_epochs": 1}},
        "method fedprox": {"method": "fedprox"},
        "seed 5": {"seed": 5},
    }
    for said, settings in others.items():
        made.change("hungarian", **{**vars(was), **settings})
        other = fitting(forge, made, "hungarian")["hungarian"]
        assert other.wait() == 2
        assert said in other.errors()
        assert "expected the same. Change peerwise.toml." in other.errors()
    hub.kill()


def test_a_hub_that_never_begins_is_told_in_a_sentence(
    forge: Forge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = hospitals(tmp_path, names=NAMES[:2], most=40, deadline=0.5)
    monkeypatch.setattr(rounds, "GRACE", 0.5)
    peer = made.peer("hungarian")
    with (
        Worker() as worker,
        pytest.raises(ExchangeError, match="'cleveland' did not begin the rounds within 1 sec"),
    ):
        fit_by_rounds(peer, method_of(peer), outbox(peer), worker, use_peers=True, tell=print)
