"""What comes of peers: verified, gated, tried, kept for a decision; whatever is wrong costs the peer that sent it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hostile_models import HOSTILE
from hostile_parts import file, honest, node
from onnx import helper
from peer_sites import CLASSES, DAY, FEATURES, NAMES, Sites, copied, table

from peerwise.models.worker import Worker
from peerwise.parcels import Parcel
from peerwise.run.peer import decided, fit, in_use, method_of, predict, status, withdraw
from peerwise.run.peer.fitting import save_bundle


def named(**said: str) -> bytes:
    """An honest model that says of itself what its classes or features are."""
    model = honest()
    helper.set_model_props(model, said)
    return bytes(model.SerializeToString())


def answers(sites: Sites, worker: Worker, at: str = "north") -> np.ndarray[Any, Any]:
    return predict(sites[at], sites.root / "south.csv", worker).probabilities


def fitted_with(sites: Sites, worker: Worker, *peers: str) -> np.ndarray[Any, Any]:
    """North's answers after it has accepted these."""
    for name in peers:
        sites.accept("north", name)
    assert set(fit(sites["north"], worker, use_peers=True)["peers"]) == set(peers)
    return answers(sites, worker)


def files_of(sites: Sites, at: str) -> set[str]:
    """Names of all blobs under a site's folder, wherever they are kept."""
    return {path.name for path in (sites.root / at).rglob("*") if path.is_file() and len(path.name) == 64}


def test_models_wait_for_a_decision(published_sites: Sites, worker: Worker) -> None:
    told = published_sites.pull("north", worker)
    assert {name: one["outcome"] for name, one in told["peers"].items()} == {"south": "new", "east": "new"}
    assert in_use(published_sites["north"]) == {}
    assert "waiting for a decision: east" in " ".join(status(published_sites["north"])["due"])
    again = published_sites.pull("north", worker)
    assert {one["outcome"] for one in again["peers"].values()} == {"known"}
    assert len(published_sites.told("north", "arrived")) == 2


def test_hostile_files_cost_only_the_site_that_sends_them(
    published_sites: Sites, worker: Worker, tmp_path: Any
) -> None:
    sites = published_sites
    alone = copied(sites, tmp_path / "without")
    shutil.rmtree(alone.root / "meeting" / "east")
    harmful = {name: hostile.make() for name, hostile in list(HOSTILE.items())[::3]}
    harmful = {name: data for name, data in harmful.items() if len(data) < 2**20}
    sites.send("east", harmful)
    for _ in range(2):
        told = sites.pull("north", worker)["peers"]
        assert told["east"]["outcome"] == "refused"
        assert told["south"]["outcome"] in ("new", "known")
    alone.pull("north", worker)
    assert np.array_equal(fitted_with(sites, worker, "south"), fitted_with(alone, worker, "south"))
    noted = sites.told("north", "left out")
    assert {line["about"] for line in noted} == {*harmful, "models"}
    assert len(noted) == len(harmful) + 1, "each once, though pulled twice"
    assert {line["version"] for line in noted if line["about"] != "models"} == {sites.seen_version("east")}


def test_an_honest_model_beside_hostile_ones_is_kept(published_sites: Sites, worker: Worker) -> None:
    bad = HOSTILE["random numbers"].make()
    published_sites.send("east", {"honest": file(), "bad": bad})
    told = published_sites.pull("north", worker)["peers"]["east"]
    assert (told["outcome"], told["models"], list(told["left_out"])) == ("new", ["honest"], ["bad"])
    assert status(published_sites["north"])["peers"][0]["models"] == ["honest"]


MISFITS: dict[str, tuple[dict[str, Any], str]] = {
    "another label set": ({"classes": ["healthy", "ill", "dead"]}, "answers over"),
    "permuted classes": ({"classes": ["ill", "healthy", "unclear"]}, "in this order"),
    "fewer classes": ({"classes": ["healthy", "ill"]}, "answers over"),
    "classes that are no list": ({"classes": "healthy"}, "answers over"),
    "classes permuted in the file": ({"file": named(classes='["ill", "healthy", "unclear"]')}, "in this order"),
    "features permuted in the file": ({"file": named(features=str([*FEATURES][::-1]).replace("'", '"'))}, "expected"),
    "another width": ({"file": HOSTILE["other width"].make()}, "expected"),
    "NaN": ({"file": file(node("Log", ["x"]), last="y")}, "non-finite"),
    "endless numbers": (
        {"file": file(node("Exp", ["x"], ["e"]), node("Exp", ["e"], ["f"]), node("Exp", ["f"]), last="y")},
        "non-finite",
    ),
    "negative probabilities": ({"file": file(out=("probabilities", 1, ["rows", 3]))}, "expected"),
    "chance": ({"file": HOSTILE["random numbers"].make()}, "expected"),
    "no card": ({"card": None}, "card"),
    "a card of a later format": ({"format": 2}, "format 2"),
    "a card that no terminal should see": ({"licence": "\x1b[2J"}, "printable"),
    "models that are no files": ({"models": 5}, "expected models by name"),
}


@pytest.mark.parametrize("what", MISFITS)
def test_what_does_not_fit_the_task_is_refused_with_the_reason(
    what: str, published_sites: Sites, worker: Worker
) -> None:
    given, says = MISFITS[what]
    sites = published_sites
    if "models" in given:
        sites.signed("east").publish("models", Parcel(models=5, classes=list(CLASSES)), sites.card("east"))
    elif given.get("card", "") is None:
        sites.signed("east").publish("models", Parcel(models={"m": file()}, classes=list(CLASSES)))
    else:
        more = {key: value for key, value in given.items() if key in ("format", "licence")}
        sites.send("east", {"m": given.get("file", file())}, given.get("classes"), **more)
    told = sites.pull("north", worker)["peers"]
    assert told["east"]["outcome"] == "refused"
    assert says in told["east"]["why"]
    assert told["south"]["outcome"] == "new"
    assert any(says in line["why"] for line in sites.told("north", "left out"))


@pytest.mark.parametrize("order", [None, '["healthy", "ill", "unclear"]', "[0, 1, 2]"])
def test_a_file_that_names_the_tasks_classes_is_let_in(
    order: str | None, published_sites: Sites, worker: Worker
) -> None:
    published_sites.send("east", {"m": named(**({} if order is None else {"classes": order}))})
    assert published_sites.pull("north", worker)["peers"]["east"]["outcome"] == "new"


def test_a_new_version_replaces_the_old_one_and_a_refit_is_due(fitted_sites: Sites, worker: Worker) -> None:
    sites = fitted_sites
    old = in_use(sites["north"])["south"].version
    assert status(sites["north"])["due"] == []
    table("south", count=120).to_csv(sites.root / "south.csv", index=False)
    new = sites.publish("south")["version"]
    assert sites.pull("north", worker)["peers"]["south"]["outcome"] == "new"
    assert in_use(sites["north"])["south"].version == new > old, "it follows the version that was accepted"
    assert "a refit is due: south has" in " ".join(status(sites["north"])["due"])
    assert [line["why"] for line in sites.told("north", "accepted")][-1] == f"follows version {old}"
    assert [path.stem for path in (sites.root / "north/peers/sites/south").iterdir()] == [f"{new:016d}"]
    assert fit(sites["north"], worker, use_peers=True)["peers"]["south"] == new
    assert status(sites["north"])["due"] == []


@pytest.mark.parametrize(("ask", "used"), [("first", "new"), ("always", "old"), ("never", "new")])
def test_how_often_a_person_is_asked_is_settled(ask: str, used: str, fitted_sites: Sites, worker: Worker) -> None:
    sites = fitted_sites
    sites.change("north", ask=ask)
    old = in_use(sites["north"])["south"].version
    new = sites.send("south", {"m": file()})
    sites.pull("north", worker)
    assert in_use(sites["north"])["south"].version == (new if used == "new" else old)
    waiting = "waiting for a decision: south" in " ".join(status(sites["north"])["due"])
    assert waiting == (ask == "always")
    if waiting:
        sites.accept("north", "south")
        assert in_use(sites["north"])["south"].version == new


def test_never_asking_accepts_at_once_and_says_so(published_sites: Sites, worker: Worker) -> None:
    published_sites.change("north", ask="never")
    published_sites.pull("north", worker)
    assert set(in_use(published_sites["north"])) == {"south", "east"}
    assert {line["why"] for line in published_sites.told("north", "accepted")} == {"nobody is asked (ask = never)"}


def test_a_withdrawal_is_honoured_at_the_next_pull(fitted_sites: Sites, worker: Worker, tmp_path: Any) -> None:
    sites = fitted_sites
    arrived = in_use(sites["north"])["south"]
    blobs = {path.name for path in (sites.root / "meeting/south/blobs").iterdir()}
    assert blobs & files_of(sites, "north"), "its models are here"
    withdraw(sites["south"], sites.transport("south"), "a patient objected")
    told = sites.pull("north", worker)
    assert told["peers"]["south"] == {**told["peers"]["south"], "outcome": "withdrawn", "why": "a patient objected"}
    assert told["refitted"]["without"] == ["south"]
    assert not blobs & files_of(sites, "north"), "and nowhere any more, the bundle included"
    removed = sites.told("north", "removed")[0]
    assert (removed["site"], removed["why"]) == ("south", "withdrawn: a patient objected")
    assert removed["version"] > arrived.version
    alone = copied(sites, tmp_path / "alone")
    fit(alone["north"], worker, use_peers=True)
    assert np.array_equal(answers(sites, worker), answers(alone, worker))
    assert sites.pull("north", worker)["refitted"] is None


def test_models_that_expire_are_used_no_more(fitted_sites: Sites, worker: Worker) -> None:
    sites = fitted_sites
    sites.change("south", valid_days=1)
    sites.send("south", {"m": file()})
    sites.pull("north", worker)
    fit(sites["north"], worker, use_peers=True)
    sites.clock.ahead = 2 * DAY
    assert status(sites["north"])["peers"][1]["expired"]
    assert "south may no longer be used" in " ".join(status(sites["north"])["due"])
    for ahead in (2 * DAY, 2 * DAY + 100):
        sites.clock.ahead = ahead
        told = sites.pull("north", worker)
        assert "expired" in told["peers"]["south"]["why"]
    assert set(status(sites["north"])["bundle"]["peers"]) == {"east"}
    assert len(sites.told("north", "left out")) == 1, "the same reason however many seconds ago"


@pytest.mark.parametrize("lost", ["nothing", "seen", "seen and peers"])
def test_an_older_manifest_put_back_is_refused_after_loss_of_state_too(
    lost: str, published_sites: Sites, worker: Worker
) -> None:
    sites = published_sites
    shutil.copytree(sites.root / "meeting" / "south", sites.root / "saved")
    sites.send("south", {"m": file()})
    sites.pull("north", worker)
    for folder in lost.split(" and ") if lost != "nothing" else []:
        shutil.rmtree(sites.root / "north" / folder)
    shutil.rmtree(sites.root / "meeting" / "south")
    shutil.copytree(sites.root / "saved", sites.root / "meeting" / "south")
    why = sites.pull("north", worker)["peers"]["south"]["why"]
    assert "expected no older one" in why
    assert [line["why"] for line in sites.told("north", "left out")] == [why]


def test_two_contents_of_one_version_are_refused(published_sites: Sites, worker: Worker) -> None:
    sites = published_sites
    sites.pull("north", worker)
    known = sites.shown("south").read_bytes()
    shutil.rmtree(sites.root / "south" / "seen")
    (sites.root / "south" / "ledger.jsonl").unlink()
    shutil.rmtree(sites.root / "meeting" / "south")
    sites.clock.ahead = sites.seen_version("south", at="north") - sites.clock()
    signed = sites.signed("south")
    signed.publish("models", Parcel(models={"m": file()}, classes=list(CLASSES)), None)
    assert sites.shown("south").read_bytes() != known
    sites.clock.ahead = 0
    assert "two different versions" in sites.pull("north", worker)["peers"]["south"]["why"]


SPOILS: dict[str, Callable[[bytes], bytes]] = {
    "a bit": lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:],
    "its end": lambda data: data[:-50],
    "all": lambda data: b"{}",
    "nothing left": lambda data: b"",
}


@pytest.mark.parametrize("what", SPOILS)
def test_a_spoilt_manifest_costs_its_site_alone(what: str, fitted_sites: Sites, worker: Worker) -> None:
    sites = fitted_sites
    before = answers(sites, worker)
    sites.shown("south").write_bytes(SPOILS[what](sites.shown("south").read_bytes()))
    told = sites.pull("north", worker)["peers"]
    assert (told["south"]["outcome"], told["east"]["outcome"]) == ("refused", "known")
    fit(sites["north"], worker, use_peers=True)
    assert np.array_equal(answers(sites, worker), before), "what was taken before stays in use"


def test_one_members_models_do_not_pass_for_anothers(published_sites: Sites, worker: Worker) -> None:
    sites = published_sites
    shutil.rmtree(sites.root / "meeting" / "south")
    shutil.copytree(sites.root / "meeting" / "east", sites.root / "meeting" / "south")
    told = sites.pull("north", worker)["peers"]
    assert told["south"]["outcome"] == "refused"
    assert "signed by key" in told["south"]["why"]
    assert told["east"]["outcome"] == "new"


def test_strangers_in_the_folder_are_not_even_looked_at(published_sites: Sites, worker: Worker) -> None:
    sites = published_sites
    shutil.copytree(sites.root / "meeting" / "east", sites.root / "meeting" / "stranger")
    assert set(sites.pull("north", worker)["peers"]) == set(NAMES) - {"north"}


def test_blobs_that_are_missing_or_changed_are_asked_for_again(published_sites: Sites, worker: Worker) -> None:
    sites = published_sites
    blob = max((sites.root / "meeting/south/blobs").iterdir(), key=lambda path: path.stat().st_size)
    whole = blob.read_bytes()
    blob.unlink()
    assert sites.pull("north", worker)["peers"]["south"]["outcome"] == "unreachable"
    blob.write_bytes(whole[:-1] + b"x")
    assert "is not what its manifest names" in sites.pull("north", worker)["peers"]["south"]["why"]
    blob.write_bytes(whole)
    assert sites.pull("north", worker)["peers"]["south"]["outcome"] == "new"


def test_models_from_a_clock_far_ahead_are_refused_until_then(published_sites: Sites, worker: Worker) -> None:
    sites = published_sites
    sites.clock.ahead = 3600
    sites.send("south", {"m": file()})
    sites.clock.ahead = 0
    assert "Check the clocks" in sites.pull("north", worker)["peers"]["south"]["why"]
    sites.clock.ahead = 3500
    assert sites.pull("north", worker)["peers"]["south"]["outcome"] == "new", "five minutes are forgiven"


def test_what_was_refused_by_a_person_stays_refused(fitted_sites: Sites, worker: Worker) -> None:
    sites = fitted_sites
    decided(sites["north"], "south", None, "refused", "another device")
    assert "south may no longer be used" in " ".join(status(sites["north"])["due"])
    sites.send("south", {"m": file()})
    told = sites.pull("north", worker)
    assert told["refitted"]["without"] == ["south"]
    assert "south" not in in_use(sites["north"])
    assert "waiting for a decision: south" in " ".join(status(sites["north"])["due"])


def test_a_pull_does_not_touch_what_was_fitted_by_rounds(published_sites: Sites, worker: Worker) -> None:
    sites = published_sites
    sites.change("north", method="fedavg", models=["mlp"])
    site = sites["north"].site()
    site = site.replace(test=site.test.take(slice(0, 0)))  # nothing was trained that could answer them
    peers = {"south": 1, "east": 1}
    save_bundle(sites["north"], method_of(sites["north"]), site, {"peers": peers}, use_peers=False, by_rounds=True)
    assert sites.pull("north", worker)["refitted"] is None
