"""Where a site stands, and what is due, at every step of its life."""

from __future__ import annotations

from pathlib import Path

import pytest
from peer_sites import NAMES, Sites, asked

from peerwise.errors import ConfigError, PeerwiseError
from peerwise.models.worker import Worker
from peerwise.run.peer import PeerFolder, fit, in_use, status


def due(sites: Sites, name: str = "north") -> str:
    return " ".join(status(sites[name])["due"])


def every_file(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_what_is_due_follows_a_site_from_step_to_step(formed_sites: Sites, worker: Worker) -> None:
    sites = formed_sites
    assert "nothing is published" in due(sites)
    assert "nothing is fitted" in due(sites)
    for name in NAMES:
        sites.publish(name)
    assert "nothing is published" not in due(sites)
    sites.pull("north", worker)
    assert "waiting for a decision: east" in due(sites)
    for name in ("south", "east"):
        sites.accept("north", name)
    assert "waiting" not in due(sites)
    fit(sites["north"], worker, use_peers=True)
    assert due(sites) == ""


def test_status_tells_the_whole_standing(fitted_sites: Sites) -> None:
    found = status(fitted_sites["north"])
    assert (found["site"], found["task"]["name"], found["method"]) == ("north", "ward", "knorae")
    assert found["list"]["members"] == list(NAMES)
    assert found["published"]["version"] == fitted_sites.seen_version("north", at="north")
    assert [(one["site"], one["decided"], one["expired"]) for one in found["peers"]] == [
        ("east", "accepted", False),
        ("south", "accepted", False),
    ]
    assert found["bundle"]["peers"] == {one["site"]: one["version"] for one in found["peers"]}


def test_status_writes_nothing_and_asks_nobody(fitted_sites: Sites) -> None:
    (fitted_sites.root / "meeting").rename(fitted_sites.root / "away")
    before = every_file(fitted_sites.root)
    status(fitted_sites["north"])
    assert every_file(fitted_sites.root) == before


def test_a_site_that_waits_for_its_welcome_is_told_what_to_do(formed_sites: Sites) -> None:
    asked(formed_sites.root, "late", formed_sites["north"].identity.fingerprint)
    found = status(formed_sites["late"])
    assert found["list"]["version"] is None
    assert "Send the founder your request.json" in found["due"][0]


def test_a_folder_that_is_no_site_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="peerwise init"):
        status(PeerFolder(tmp_path))


def test_a_list_that_was_changed_by_hand_is_told(fitted_sites: Sites) -> None:
    path = fitted_sites["north"].roster_path
    path.write_bytes(path.read_bytes().replace(b"a", b"b", 1))
    found = status(fitted_sites["north"])
    assert found["list"]["version"] is None
    assert found["due"]


@pytest.mark.parametrize("text", ["", "[]", "no json"])
def test_a_damaged_note_of_what_was_published_is_told_in_a_sentence(text: str, fitted_sites: Sites) -> None:
    (fitted_sites.root / "north" / "published.json").write_text(text)
    with pytest.raises(PeerwiseError, match=r"published\.json is damaged.*emove it"):
        status(fitted_sites["north"])
    (fitted_sites.root / "north" / "published.json").unlink()
    assert fitted_sites.publish("north")["again"]


def test_a_damaged_arrival_is_told_and_can_be_fetched_again(fitted_sites: Sites, worker: Worker) -> None:
    path = next((fitted_sites.root / "north" / "peers" / "sites" / "south").iterdir())
    path.write_text("{}")
    with pytest.raises(PeerwiseError, match=r"south.*remove it, and run 'peerwise pull'"):
        status(fitted_sites["north"])
    path.unlink()
    assert fitted_sites.pull("north", worker)["peers"]["south"]["outcome"] == "new"
    assert set(in_use(fitted_sites["north"])) == {"south", "east"}


def test_a_second_command_on_the_same_folder_waits_and_then_says_so(
    fitted_sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    from peerwise.run.peer import folder

    monkeypatch.setattr(folder, "PATIENCE", 0.2)
    with fitted_sites["north"].held(), pytest.raises(ConfigError, match="in use by another command"):
        fitted_sites.publish("north")
    assert not fitted_sites.publish("north")["again"]
