"""Members and keepers of the shared folder who mean harm: what they can do to a site, and what they cannot."""

from __future__ import annotations

import io
import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile_parts import file, node, tensor
from peer_sites import CLASSES, Sites

from peerwise.cli.output import _Console
from peerwise.cli.peer import pull as pull_verb
from peerwise.errors import ExchangeError, StorageError
from peerwise.models.worker import Limits, Worker
from peerwise.parcels import Parcel
from peerwise.run.peer import review


def honest(sites: Sites, name: str = "south") -> dict[str, bytes]:
    """The models that a member has truly published."""
    found = sites.signed(name).fetch(name, "models")
    assert found is not None
    models: dict[str, bytes] = found.read()["models"]
    return models


def model(sites: Sites) -> bytes:
    return next(iter(honest(sites).values()))


def say(sites: Sites, parcel: Parcel, **card: Any) -> None:
    """As south, whose software is another, with the card of its true models."""
    known = sites.signed("south").fetch("south", "models")
    assert known is not None
    sites.signed("south").publish("models", parcel, {**(known.manifest.card or {}), **card})


# ---- a member with a key --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["\x1b[2Jgone", "two\nlines", "best@east", "", "x" * 101, "\u202egnp.exe"],
    ids=["terminal", "lines", "another's", "empty", "long", "right to left"],
)
def test_a_model_is_not_let_in_under_a_name_that_misleads(name: str, published_sites: Sites, worker: Worker) -> None:
    say(published_sites, Parcel(models={name: model(published_sites)}, classes=list(CLASSES)))
    told = published_sites.pull("north", worker)["peers"]
    assert told["south"]["outcome"] == "refused"
    assert told["east"]["outcome"] == "new"
    assert told["south"]["why"].isprintable()


def test_a_thousand_models_are_refused_unseen(published_sites: Sites, worker: Worker) -> None:
    say(published_sites, Parcel(models={f"m{k}": b"%d" % k for k in range(900)}, classes=list(CLASSES)))
    before = len(published_sites["north"].ledger.lines())
    told = published_sites.pull("north", worker)["peers"]
    assert "sent 900 models: expected at most 100" in told["south"]["why"]
    assert len(published_sites["north"].ledger.lines()) < before + 10


def endless(steps: int = 1000, side: int = 2000) -> bytes:
    """A file within all bounds of the gate that works for seconds on a few rows."""
    names = [f"h{step}" for step in range(steps + 1)]
    nodes = [node("MatMul", ["x", "up"], names[:1])]
    nodes += [node("MatMul", [before, "square"], [after]) for before, after in pairwise(names)]
    weights = [tensor("up", np.eye(4, side)), tensor("square", np.eye(side)), tensor("down", np.eye(side, 4))]
    return bytes(file(*nodes, node("MatMul", [names[-1], "down"], ["last"]), weights=weights, last="last"))


def test_a_site_whose_model_hangs_is_not_waited_for_again_with_its_next(published_sites: Sites) -> None:
    """Each of a hundred files may take all the time that is allowed."""
    files = {"first": endless(), "second": model(published_sites)}
    say(published_sites, Parcel(models=files, classes=list(CLASSES)))
    with Worker(Limits(seconds=1.0)) as worker:
        told = published_sites.pull("north", worker)["peers"]["south"]
    assert told["outcome"] == "refused"
    why = {line["about"]: line["why"] for line in published_sites.told("north", "left out")}
    assert "within 1 seconds" in why["first"]
    assert why["second"].startswith("not looked at, because of 'first' of the same site")


def test_a_parcel_without_models_does_not_keep_a_person_from_reviewing_the_others(
    published_sites: Sites, worker: Worker
) -> None:
    say(published_sites, Parcel(hello="world"))
    published_sites.pull("north", worker)
    found = {arrival["site"]: arrival["models"] for arrival in review(published_sites["north"], worker)["arrivals"]}
    assert set(found) == {"south", "east"}
    assert list(found["east"]) == ["logistic"]
    assert found["south"] == {}


def test_what_a_member_calls_its_classes_does_not_reach_the_terminal(published_sites: Sites, worker: Worker) -> None:
    say(published_sites, Parcel(models=honest(published_sites), classes="\x1b]0;owned\x07"))
    found = published_sites.pull("north", worker)
    screen = io.StringIO()
    pull_verb._print(_Console(file=screen, force_terminal=True, width=200), found)
    assert "answers over" in screen.getvalue()
    assert "\x1b" not in screen.getvalue()


@pytest.mark.parametrize("claim", [{"classes": ["other", "names"]}, {"task": {"digest": "0" * 64}}], ids=str)
def test_a_card_of_another_task_is_refused(claim: dict[str, Any], published_sites: Sites, worker: Worker) -> None:
    known = published_sites.signed("south").fetch("south", "models")
    assert known is not None
    card = dict(known.manifest.card or {})
    claim = {name: {**card[name], **value} if isinstance(value, dict) else value for name, value in claim.items()}
    say(published_sites, Parcel(models=honest(published_sites), classes=list(CLASSES)), **claim)
    told = published_sites.pull("north", worker)["peers"]["south"]
    assert told["outcome"] == "refused"
    assert "its card is of the task" in told["why"]


# ---- somebody who may write to the shared folder --------------------------------------------------------------------


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("folder", ["manifests", "blobs", "lists", ""])
def test_a_site_does_not_write_through_a_link_that_somebody_laid(folder: str, published_sites: Sites) -> None:
    """Where it might write over its own keys and models, or remove them."""
    shown, home = published_sites.root / "meeting" / "north" / folder, published_sites.root / "north"
    shutil.rmtree(shown)
    shown.symlink_to(home)
    before = files(home)
    with pytest.raises(StorageError, match="is behind a link"):
        published_sites.signed("north").publish("models", Parcel(hello="world"))
    assert files(home) == before


def test_a_list_of_blobs_behind_a_link_does_not_make_a_site_remove_its_own_files(published_sites: Sites) -> None:
    """The list says what is no longer needed, and whoever may write to the folder may write the list."""
    shown, home = published_sites.root / "meeting" / "north", published_sites.root / "north"
    kept = home / "work" / "blobs"
    assert list(kept.iterdir())
    (shown / "lists" / "models.json").write_text(json.dumps([path.name for path in kept.iterdir()]))
    shutil.rmtree(shown / "blobs")
    (shown / "blobs").symlink_to(kept)
    before = files(home)
    with pytest.raises(StorageError, match="is behind a link"):
        published_sites.signed("north").publish("models", Parcel(hello="world"))
    assert files(home) == before


def test_a_list_of_blobs_that_is_nested_without_end_is_refused_in_a_sentence(published_sites: Sites) -> None:
    (published_sites.root / "meeting" / "north" / "lists" / "models.json").write_text("[" * 900_000)
    with pytest.raises(ExchangeError, match="does not list blobs"):
        published_sites.signed("north").publish("models", Parcel(hello="world"))
