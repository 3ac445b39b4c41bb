"""What leaves a site: exactly what was previewed, and nothing that holds rows unless somebody says why."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from peer_sites import CLASSES, DAY, Sites, formed, table

from packages import installed
from peerwise.errors import ConfigError, MayNotLeave, PeerwiseError
from peerwise.models.worker import Worker
from peerwise.parcels.egress import holds_rows
from peerwise.parcels.signed import canonical, opened
from peerwise.run.peer import outbox, preview, publish, status, train, withdraw
from peerwise.transport import FolderTransport


def shown_by(sites: Sites, name: str) -> dict[str, bytes]:
    """Every file that a site has laid out for the others."""
    folder = sites.root / "meeting" / name
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def payload(sites: Sites, name: str) -> dict[str, Any]:
    return opened(sites.shown(name).read_bytes(), "manifest", [sites[name].identity.public])


def test_publishing_sends_exactly_what_the_preview_has_shown(formed_sites: Sites) -> None:
    sites = formed_sites
    told = preview(sites["south"], sites.transport("south"))
    assert shown_by(sites, "south") == {}, "nothing leaves at a preview"
    assert sites.told("south", "published") == []
    published = sites.publish("south")
    files = shown_by(sites, "south")
    blobs = {Path(name).name for name in files if name.startswith("blobs/")}
    said = payload(sites, "south")
    assert {item["sha256"] for item in told["items"] if item["sha256"] in blobs} == blobs == set(said["blobs"])
    assert told["card"] == said["card"]
    assert set(files) == {f"blobs/{name}" for name in blobs} | {"manifests/models.json", "lists/models.json"}
    assert told["bytes"] == sum(len(data) for name, data in files.items() if not name.startswith("lists"))
    assert published["bytes"] == sum(said["blobs"].values())
    assert told["to"] == ["north"], "south has not heard of east yet"


def test_no_row_is_in_what_leaves(published_sites: Sites) -> None:
    for name in published_sites:
        site = published_sites[name].site()
        for data in shown_by(published_sites, name).values():
            assert not holds_rows(data, np.asarray(site.train.X))
            for row in table(name).itertuples(index=False):
                assert ",".join(str(value) for value in row[:4]).encode() not in data


def test_what_was_published_is_not_published_again(published_sites: Sites) -> None:
    before = shown_by(published_sites, "south")
    told = published_sites.publish("south")
    assert not told["again"]
    assert shown_by(published_sites, "south") == before
    assert len(published_sites.told("south", "published")) == 1


def test_new_rows_give_a_new_version(published_sites: Sites) -> None:
    sites = published_sites
    first = payload(sites, "south")
    table("south", count=120).to_csv(sites.root / "south.csv", index=False)
    told = sites.publish("south")
    second = payload(sites, "south")
    assert told["again"]
    assert second["version"] > first["version"]
    assert set(second["blobs"]).isdisjoint(first["blobs"])
    kept = {Path(name).name for name in shown_by(sites, "south") if name.startswith("blobs/")}
    assert kept == set(second["blobs"]), "the old model is gone from the folder"


@pytest.mark.parametrize("change", ["licence", "folder", "blob"])
def test_the_same_models_are_published_again_where_the_others_need_it(change: str, published_sites: Sites) -> None:
    sites = published_sites
    if change == "licence":
        sites.change("south", licence="CC-BY-4.0")
    elif change == "folder":
        shutil.rmtree(sites.root / "meeting")
    else:
        next((sites.root / "meeting" / "south" / "blobs").iterdir()).unlink()
    told = sites.publish("south")
    assert told["again"]
    said = payload(sites, "south")
    assert said["version"] == told["version"]
    assert all((sites.root / "meeting" / "south" / "blobs" / key).is_file() for key in said["blobs"])


def test_what_is_about_to_expire_is_published_again(published_sites: Sites) -> None:
    sites = published_sites
    sites.change("south", valid_days=20)
    shutil.rmtree(sites.root / "meeting" / "south")
    first = sites.publish("south")
    sites.clock.ahead = 9 * DAY
    assert "may be used for" not in " ".join(status(sites["south"])["due"])
    assert not sites.publish("south")["again"]
    sites.clock.ahead = 11 * DAY
    assert re.search(r"may be used for [89] more days: run 'peerwise publish'", " ".join(status(sites["south"])["due"]))
    again = sites.publish("south")
    assert again["again"]
    assert again["expires"] > first["expires"]


def test_a_model_with_small_leaves_is_held_back(formed_sites: Sites) -> None:
    sites = formed_sites
    sites.change("south", models=["forest"], min_leaf=40)
    told = preview(sites["south"], sites.transport("south"))
    assert len(told["held"]) == 1
    with pytest.raises(MayNotLeave, match="may not leave"):
        sites.publish("south")
    assert shown_by(sites, "south") == {}
    assert sites.told("south", "published") == []


def test_a_model_that_may_not_leave_keeps_no_other_back(formed_sites: Sites, worker: Worker) -> None:
    sites = formed_sites
    sites.change("south", models=["forest", "logistic"], min_leaf=40)
    told = preview(sites["south"], sites.transport("south"))
    assert list(told["held"]) == ["forest"]
    assert list(told["card"]["models"]) == ["logistic"]
    assert list(sites.publish("south")["held"]) == ["forest"]
    assert payload(sites, "south")["card"] == told["card"]
    line = sites.told("south", "published")[0]
    assert (line["models"], line["held"]) == (["logistic"], ["forest"])
    assert sites.pull("north", worker)["peers"]["south"]["models"] == ["logistic"]


def test_a_held_model_leaves_only_with_a_reason_that_all_can_read(formed_sites: Sites, worker: Worker) -> None:
    sites = formed_sites
    sites.change("south", models=["forest", "logistic"], min_leaf=40)
    why = "the ethics board has approved it"
    before = preview(sites["south"], sites.transport("south"), allow=why)
    told = sites.publish("south", allow=why)
    assert set(told["held"]) == {"forest"}
    assert sites.told("south", "published")[0]["why"] == why
    said = payload(sites, "south")["card"]
    assert said == before["card"]
    assert said["models"]["forest"]["training"]["allowed_because"] == why
    assert "allowed_because" not in said["models"]["logistic"]["training"], "that one needed no permission"
    sites.pull("north", worker)
    assert status(sites["north"])["peers"][0]["models"] == ["forest", "logistic"]


def test_a_reason_without_a_held_model_changes_nothing(published_sites: Sites) -> None:
    assert not published_sites.publish("south", allow="just in case")["again"]
    assert "allowed_because" not in json.dumps(payload(published_sites, "south"))


def test_a_reason_that_no_card_can_show_is_refused_before_anything_leaves(formed_sites: Sites) -> None:
    formed_sites.change("south", models=["forest"], min_leaf=40)
    with pytest.raises(PeerwiseError, match="printable"):
        formed_sites.publish("south", allow="line one\nline two \x1b[2J")
    assert shown_by(formed_sites, "south") == {}


def test_what_was_withdrawn_is_gone_and_can_be_published_again(published_sites: Sites) -> None:
    sites = published_sites
    first = payload(sites, "south")["version"]
    told = withdraw(sites["south"], sites.transport("south"), "a patient objected")
    said = payload(sites, "south")
    assert (said["withdrawn"], said["blobs"]) == ("a patient objected", {})
    assert [name for name in shown_by(sites, "south") if name.startswith("blobs/")] == []
    assert sites.told("south", "withdrew")[0]["why"] == "a patient objected"
    assert "nothing is published" in " ".join(status(sites["south"])["due"])
    again = sites.publish("south")
    assert again["again"]
    assert first < told["version"] < again["version"]


@pytest.mark.parametrize("why", ["", "  "])
def test_a_withdrawal_needs_a_reason(why: str, published_sites: Sites) -> None:
    with pytest.raises(ConfigError, match="reason is empty"):
        withdraw(published_sites["south"], published_sites.transport("south"), why)
    assert payload(published_sites, "south")["withdrawn"] is None


def test_there_must_be_something_to_withdraw(formed_sites: Sites) -> None:
    for _ in range(2):
        with pytest.raises(ConfigError, match="nothing to withdraw"):
            withdraw(formed_sites["south"], formed_sites.transport("south"), "a patient objected")
    formed_sites.publish("south")
    withdraw(formed_sites["south"], formed_sites.transport("south"), "a patient objected")
    with pytest.raises(ConfigError, match="nothing to withdraw"):
        withdraw(formed_sites["south"], formed_sites.transport("south"), "a patient objected")


def test_the_card_says_what_is_known_and_no_more(published_sites: Sites) -> None:
    card = payload(published_sites, "south")["card"]
    assert card["task"] == {"name": "ward", "digest": published_sites["south"].task.digest, "kind": "table"}
    assert card["classes"] == list(CLASSES)
    assert card["rows"] not in ("54", "72", "90"), "a bucket, not the number"
    assert card["models"]["logistic"]["training"]["classes_trained_on"] == ", ".join(CLASSES)
    assert len(canonical(card)) < 4000


def test_training_twice_trains_once(formed_sites: Sites) -> None:
    train(formed_sites["south"])
    work = formed_sites.root / "south" / "work"
    before = {path: path.stat().st_mtime_ns for path in work.rglob("*") if path.is_file()}
    told = train(formed_sites["south"])
    assert {path: path.stat().st_mtime_ns for path in work.rglob("*") if path.is_file()} == before
    assert told["rows"]["train"] + told["rows"]["validation"] + told["rows"]["test"] == 90


def test_rows_that_do_not_fit_the_task_are_not_trained_on(formed_sites: Sites) -> None:
    odd = table("south").assign(outcome="dead")
    odd.to_csv(formed_sites.root / "south.csv", index=False)
    with pytest.raises(PeerwiseError, match="does not fit the task"):
        train(formed_sites["south"])
    with pytest.raises(PeerwiseError, match="does not fit the task"):
        publish(formed_sites["south"], formed_sites.transport("south"))


def test_a_method_with_rounds_publishes_nothing_beforehand(formed_sites: Sites) -> None:
    formed_sites.change("south", method="fedavg", models=["mlp"])
    with pytest.raises(ConfigError, match="run 'peerwise fit' at all sites"):
        formed_sites.publish("south")


class Pigeon(FolderTransport):
    """The transport of an installed package: it nests beside the folder that it is given."""

    def __init__(self, address: str, name: str) -> None:
        super().__init__(f"{address}-nests", name)


def test_members_meet_by_the_transport_of_an_installed_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worker: Worker
) -> None:
    entries = {"peerwise.transports": {"pigeon": f"{__name__}:Pigeon"}}
    monkeypatch.syspath_prepend(str(installed(tmp_path / "package", entries)))
    meeting = {"folder": str(tmp_path / "meeting"), "transport": "pigeon"}
    sites = formed(tmp_path, ("north", "south"), meeting=meeting)
    for name in sites:
        sites.publish(name)
    assert set(sites.pull("north", worker)["peers"]) == {"south"}
    assert (tmp_path / "meeting-nests" / "south").is_dir()
    assert not (tmp_path / "meeting").exists()


def test_a_transport_that_no_package_offers_is_refused(formed_sites: Sites) -> None:
    formed_sites.change("north", meeting={"folder": "meeting", "transport": "pigeon"})
    with pytest.raises(ConfigError, match=r"meeting: unknown transport 'pigeon'. Choices: folder"):
        formed_sites.publish("north")


@pytest.mark.parametrize(("made", "says"), [("nothing", "made None: expected a"), ("dropped", "OSError: no wire")])
def test_what_a_package_offers_in_place_of_a_transport_is_refused(
    made: str, says: str, formed_sites: Sites, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = {"peerwise.transports": {"pigeon": f"{__name__}:{made}"}}
    monkeypatch.syspath_prepend(str(installed(tmp_path / "package", entries)))
    formed_sites.change("north", meeting={"folder": "meeting", "transport": "pigeon"})
    with pytest.raises(PeerwiseError, match=says):
        outbox(formed_sites["north"])


def nothing(address: str, name: str) -> None:
    return None


def dropped(address: str, name: str) -> None:
    raise OSError("no wire")


def test_a_transport_is_not_passed_over_where_the_site_listens(
    formed_sites: Sites, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = {"peerwise.transports": {"pigeon": f"{__name__}:Pigeon"}}
    monkeypatch.syspath_prepend(str(installed(tmp_path / "package", entries)))
    formed_sites.change("north", meeting={"listen": "127.0.0.1:7447", "transport": "pigeon"})
    with pytest.raises(ConfigError, match=r"meeting has transport 'pigeon' and listen '127.* meet over Zenoh"):
        outbox(formed_sites["north"])
