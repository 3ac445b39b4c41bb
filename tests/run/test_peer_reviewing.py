"""Reviewing and deciding: figures on own rows, and who decided what, when and why."""

from __future__ import annotations

import getpass

import numpy as np
import pytest
from hostile_parts import file
from peer_sites import CLASSES, Sites

from peerwise.errors import ConfigError
from peerwise.methods.own_models import mean_probabilities
from peerwise.metrics import balanced_accuracy
from peerwise.models import OnnxModel, one_thread
from peerwise.models.worker import Worker
from peerwise.run.peer import arrivals, decided, in_use, review, status
from peerwise.run.peer.arrivals import parcel_of
from peerwise.run.peer.training import trained


@pytest.fixture
def pulled(published_sites: Sites, worker: Worker) -> Sites:
    published_sites.pull("north", worker)
    return published_sites


def test_the_figures_are_those_of_the_models_on_own_validation_rows(pulled: Sites, worker: Worker) -> None:
    found = review(pulled["north"], worker)
    site = pulled["north"].site()
    with one_thread():
        own = mean_probabilities(site, trained(site).files, site.val.X).argmax(axis=1)
    assert (found["rows"], found["rows_are"]) == (len(site.val), "validation")
    assert found["own_accuracy"] == np.mean(own == site.val.y)
    assert found["metric"] == "balanced_accuracy"
    assert found["own_metric"] == balanced_accuracy(site.val.y, own)
    assert found["own_wrong"] == int((own != site.val.y).sum())
    for told, arrival in zip(found["arrivals"], arrivals(pulled["north"]), strict=True):
        data = parcel_of(pulled["north"], arrival)["models"]["logistic"]
        says = OnnxModel(data, name="reference").predict_proba(site.val.X).argmax(axis=1)
        model = told["models"]["logistic"]
        assert model["accuracy"] == np.mean(says == site.val.y)
        assert model["metric"] == pytest.approx(balanced_accuracy(site.val.y, says))
        assert not model["near_constant"]
        assert model["right_where_own_fails"] == int((says == site.val.y)[own != site.val.y].sum())
        assert model["never_answers"] == [name for code, name in enumerate(CLASSES) if not (says == code).any()]
        assert (model["bytes"], model["failed"]) == (len(data), None)
        assert told["card"]["classes"] == list(CLASSES)
        assert told["decided"] == "waiting"


def test_a_model_that_never_names_a_class_is_told(pulled: Sites, worker: Worker) -> None:
    pulled.send("south", {"blind": file()})
    pulled.pull("north", worker)
    model = review(pulled["north"], worker, "south")["arrivals"][0]["models"]["blind"]
    assert model["never_answers"] == ["ill", "unclear"], "all its answers are alike, so the first class has them"
    assert model["near_constant"]


def test_one_site_can_be_reviewed_alone(pulled: Sites, worker: Worker) -> None:
    assert [one["site"] for one in review(pulled["north"], worker, "east")["arrivals"]] == ["east"]
    with pytest.raises(ConfigError, match=r"'west'.*east"):
        review(pulled["north"], worker, "west")


def test_before_the_first_pull_there_is_nothing_to_review(published_sites: Sites, worker: Worker) -> None:
    assert review(published_sites["north"], worker)["arrivals"] == []
    with pytest.raises(ConfigError, match="run 'peerwise pull' first"):
        review(published_sites["north"], worker, "south")


@pytest.mark.parametrize("what", ["accepted", "refused"])
def test_a_decision_is_kept_with_who_when_and_why(what: str, pulled: Sites, worker: Worker) -> None:
    before = pulled["north"].now()
    decided(pulled["north"], "south", None, what, "looked at with Dr. Schmidt")
    line = pulled.told("north", what)[0]
    assert line["who"] == f"{getpass.getuser()}@north"
    assert before <= line["when"] <= pulled["north"].now()
    assert (line["site"], line["why"]) == ("south", "looked at with Dr. Schmidt")
    assert line["version"] == arrivals(pulled["north"])[1].version
    assert ("south" in in_use(pulled["north"])) == (what == "accepted")
    pulled.pull("north", worker)
    told = review(pulled["north"], worker, "south")["arrivals"][0]
    assert (told["decided"], told["why"]) == (what, "looked at with Dr. Schmidt"), "it survives the next pull"


def test_the_last_decision_counts(pulled: Sites) -> None:
    for what in ("accepted", "refused", "accepted"):
        decided(pulled["north"], "south", None, what, "on second thought")
    assert set(in_use(pulled["north"])) == {"south"}
    assert [len(pulled.told("north", what)) for what in ("accepted", "refused")] == [2, 1], "all are kept"


@pytest.mark.parametrize("why", ["", " \n"])
def test_a_decision_needs_a_reason(why: str, pulled: Sites) -> None:
    with pytest.raises(ConfigError, match="reason is empty"):
        decided(pulled["north"], "south", None, "accepted", why)
    assert in_use(pulled["north"]) == {}


def test_a_decision_needs_a_peer_and_a_version_that_are_here(pulled: Sites) -> None:
    with pytest.raises(ConfigError, match="'sout'"):
        decided(pulled["north"], "sout", None, "accepted", "helps")
    with pytest.raises(ConfigError, match="is not here"):
        decided(pulled["north"], "south", 5, "accepted", "helps")
    assert pulled.told("north", "accepted") == []


def test_an_older_version_stays_in_use_until_the_newer_one_is_accepted(pulled: Sites, worker: Worker) -> None:
    pulled.change("north", ask="always")
    pulled.accept("north", "south")
    old = in_use(pulled["north"])["south"].version
    new = pulled.send("south", {"m": file()})
    pulled.pull("north", worker)
    assert [one.version for one in arrivals(pulled["north"]) if one.site == "south"] == [old, new]
    assert in_use(pulled["north"])["south"].version == old
    decided(pulled["north"], "south", new, "refused", "worse")
    assert in_use(pulled["north"])["south"].version == old
    decided(pulled["north"], "south", new, "accepted", "better after all")
    assert [one.version for one in arrivals(pulled["north"]) if one.site == "south"] == [new], "the old one is gone"


def test_reviewing_changes_nothing(pulled: Sites, worker: Worker) -> None:
    before = (status(pulled["north"]), pulled["north"].ledger.head())
    review(pulled["north"], worker)
    assert (status(pulled["north"]), pulled["north"].ledger.head()) == before
