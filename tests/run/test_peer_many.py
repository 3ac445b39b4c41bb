"""In a federation with many members a site fetches the models of the most promising, and looks at all."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from hostile_models import HOSTILE
from hostile_parts import file
from peer_sites import CLASSES, Sites

from peerwise.cli import main
from peerwise.errors import ConfigError
from peerwise.models.worker import Worker
from peerwise.parcels import Parcel, Store
from peerwise.run.peer import decided, status, withdraw


def outcomes(sites: Sites, worker: Worker) -> dict[str, str]:
    return {name: told["outcome"] for name, told in sites.pull("north", worker)["peers"].items()}


def offer(sites: Sites, name: str, classes: str, model: bytes | None = None) -> None:
    """A model under a card that says what it was trained on."""
    known = {"training": {"classes_trained_on": classes}, "privacy": None, "attack": None}
    parcel = Parcel(models={"m": model or file()}, classes=list(CLASSES))
    sites.signed(name).publish("models", parcel, {**sites.card(name), "models": {"m": known}})


def test_only_the_models_that_promise_most_are_fetched(published_sites: Sites, worker: Worker) -> None:
    sites = published_sites
    sites.change("north", most_peers=1)
    offer(sites, "south", "healthy")
    offer(sites, "east", "healthy, ill")
    shutil.rmtree(sites.root / "meeting" / "south" / "blobs")  # nobody asks for them
    told = sites.pull("north", worker)["peers"]
    assert told["east"]["outcome"] == "new"
    assert told["south"]["outcome"] == "not fetched"
    assert "room for 1 (most_peers)" in told["south"]["why"]
    assert outcomes(sites, worker) == {"south": "not fetched", "east": "known"}
    assert "south" not in " ".join(status(sites["north"])["due"])


def test_the_command_tells_in_one_line_how_many_were_left(published_sites: Sites, capsys: Any) -> None:
    sites = published_sites
    sites.change("north", most_peers=1)
    offer(sites, "south", "healthy")
    offer(sites, "east", "healthy, ill")
    assert main(["pull", "--folder", str(sites.root / "north")]) == 0
    said = capsys.readouterr().out
    assert "is new: m" in said
    assert "1 more not fetched: others promise more by their cards" in said
    assert "south" not in said


def test_who_promises_much_and_sends_harm_takes_nobodys_place(published_sites: Sites, worker: Worker) -> None:
    sites = published_sites
    sites.change("north", most_peers=1)
    offer(sites, "east", "healthy, ill, unclear", HOSTILE["random numbers"].make())
    offer(sites, "south", "healthy")
    assert outcomes(sites, worker) == {"east": "refused", "south": "new"}


def test_a_peer_that_is_here_keeps_its_place_until_it_goes(published_sites: Sites, worker: Worker) -> None:
    sites = published_sites
    sites.change("north", most_peers=1)
    offer(sites, "south", "healthy, ill")
    offer(sites, "east", "healthy")
    assert outcomes(sites, worker) == {"south": "new", "east": "not fetched"}
    offer(sites, "east", "healthy, ill, unclear")
    offer(sites, "south", "healthy")
    assert outcomes(sites, worker) == {"south": "new", "east": "not fetched"}, "its new version is fetched"
    withdraw(sites["south"], sites.transport("south"), "patients asked for it")
    assert outcomes(sites, worker) == {"south": "withdrawn", "east": "new"}


def test_a_refused_peer_leaves_its_place_to_another(published_sites: Sites, worker: Worker) -> None:
    sites = published_sites
    sites.change("north", most_peers=1)
    offer(sites, "south", "healthy, ill")
    offer(sites, "east", "healthy")
    sites.pull("north", worker)
    decided(sites["north"], "south", None, "refused", "not like us")
    assert outcomes(sites, worker) == {"south": "known", "east": "new"}


def test_a_negative_number_of_peers_is_refused(published_sites: Sites) -> None:
    published_sites.change("north", most_peers=-1)
    with pytest.raises(ConfigError, match="most_peers is -1: expected at least 0"):
        _ = published_sites["north"].settings


def test_what_is_here_is_read_as_often_however_many_members_are_asked(
    published_sites: Sites, worker: Worker, monkeypatch: Any
) -> None:
    """Once a member would make a pull of a thousand take a million reads."""
    sites = published_sites
    sites.pull("north", worker)
    reads: list[str] = []
    load_item = Store.load_item

    def counted(store: Store, name: str, item: str, **more: Any) -> Any:
        reads.append(name)
        return load_item(store, name, item, **more)

    monkeypatch.setattr(Store, "load_item", counted)
    sites.pull("north", worker)
    arrived = [name for name in reads if name.startswith("sites/")]
    assert len(set(arrived)) == 2
    assert all(arrived.count(name) == 2 for name in arrived), "at the beginning and at the end, not once a member"
