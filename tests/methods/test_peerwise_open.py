"""PeerwiseClassifier over open-set nets: learned at home, with the peers' word on whether they know a row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from net_federations import image_sites

from peerwise.checks import check_method
from peerwise.errors import ConfigError
from peerwise.federation import RUN, Session, answer
from peerwise.methods.fedsov import FedSOV
from peerwise.methods.peerwise_open import PeerwiseOpen
from peerwise.parcels import Keep
from peerwise.run import run_method

LIGHT = {"local_epochs": 15, "batch_size": 16, "lr": 0.003, "folds": 2}


def split_digits():
    """Digits up to 4 at one site, from 5 at the next, some of all at the third."""
    sites = image_sites(("cnn8", "cnn8", "cnn8"), rows=90)
    low, high = sites[0].train.y < 5, sites[1].train.y >= 5
    sites[0] = sites[0].replace(train=sites[0].train.take(low))
    sites[1] = sites[1].replace(train=sites[1].train.take(high))
    sites[2] = sites[2].replace(train=sites[2].train.take(slice(30)))
    return sites


@pytest.fixture(scope="module")
def fitted():
    sites = split_digits()
    found = {}
    for signal in ("none", "column", "mask"):
        method = PeerwiseOpen(signal=signal, **LIGHT)
        run_method(method, sites)
        found[signal] = method, [site.replace() for site in sites]
    return found


def test_it_keeps_the_contract_of_a_method():
    check_method(PeerwiseOpen(local_epochs=1, folds=2))


@pytest.mark.parametrize("signal", ["none", "column", "mask"])
def test_a_site_answers_better_than_its_own_net(fitted, signal):
    method, sites = fitted[signal]
    poor = sites[2]
    every = [site.test for site in sites[:2]]
    X, y = np.concatenate([rows.X for rows in every]), np.concatenate([rows.y for rows in every])
    own = method.predict_with_details(poor, X)[1]["own"].argmax(axis=1)
    assert (answer(method, poor, X).argmax(axis=1) == y).mean() > (own == y).mean()


def test_who_says_unknown_is_not_consulted(fitted):
    method, sites = fitted["mask"]
    details = method.predict_with_details(sites[2], sites[0].test.X)[1]
    lost = method.open_outputs(sites[2], sites[0].test.X).argmax(axis=2) == 10
    some = ~lost.all(axis=1)
    assert (lost & some[:, None]).any()
    assert (details["trust"][lost & some[:, None]] == 0).all()
    assert np.allclose(details["trust"].sum(axis=1), 1)


def test_without_the_signal_some_of_those_are(fitted):
    method, sites = fitted["none"]
    details = method.predict_with_details(sites[2], sites[0].test.X)[1]
    assert (details["trust"][details["unknown"] > 0.5] > 0).any()


def test_with_a_mask_the_answer_is_the_mean_that_the_trust_says(fitted):
    method, sites = fitted["mask"]
    details = method.predict_with_details(sites[2], sites[2].test.X)[1]
    known = method.open_outputs(sites[2], sites[2].test.X)[:, :, :-1]
    mixed = np.einsum("nm,nmc->nc", details["trust"], known / known.sum(axis=2, keepdims=True))
    assert np.allclose(answer(method, sites[2], sites[2].test.X), mixed, atol=1e-6)


def test_the_own_net_is_judged_on_rows_that_it_has_not_seen(fitted):
    """Trained to the end, a net knows its own rows; what is learned from are the answers of others like it."""
    method, sites = fitted["none"]
    for site in sites:
        seen = method.open_outputs(site, site.train.X)[:, int(site.name[-1])]
        held_out = site.state["held_out"]
        assert held_out.shape == seen.shape
        codes = np.arange(len(site.train))
        assert held_out[codes, site.train.y].mean() < seen[codes, site.train.y].mean()


def test_rows_of_other_groups_are_answered_anew():
    """What is kept of one run must not answer for another in which the rows of one person stay together."""
    keep, method, found = Keep(), PeerwiseOpen(local_epochs=1, folds=2), []
    for group in (None, np.array(["one person"] * 20, dtype=object)):
        site = image_sites(("cnn8", "cnn8"), rows=20)[0]
        site = site.replace(keep=keep, train=replace(site.train, group=group))
        Session(method, site)
        method.share(site, 0)
        found.append(site.state["held_out"])
    assert not np.array_equal(*found)
    assert (found[1][:, -1] == 1).all()  # one group leaves nothing to learn from


def test_it_sends_what_the_vote_sends():
    sites = split_digits()
    mine, whole = PeerwiseOpen(local_epochs=1, folds=2), FedSOV(local_epochs=1, compress="none")
    sent = []
    for method in (mine, whole):
        run_method(method, sites)
        sent.append([site.state[RUN]["sent"] for site in sites])
    assert sent[0] == sent[1]


def test_canary_labels_of_the_test_rows_change_nothing():
    sites = split_digits()
    turned = [site.replace(test=replace(site.test, y=(site.test.y + 1) % 10)) for site in split_digits()]
    method = PeerwiseOpen(local_epochs=1, folds=2)
    for federation in (sites, turned):
        run_method(method, federation)
    for one, other in zip(sites, turned, strict=True):
        assert np.array_equal(answer(method, one, one.test.X), answer(method, other, other.test.X))


def test_settings_that_cannot_work_are_refused():
    with pytest.raises(ConfigError, match="folds is 1: expected at least 2"):
        PeerwiseOpen(folds=1)
    with pytest.raises(ConfigError, match="signal='some'"):
        PeerwiseOpen(signal="some")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="metric='recall'"):
        PeerwiseOpen(metric="recall")  # type: ignore[arg-type]


def test_it_begins_at_every_site_alike():
    one, two, _ = split_digits()
    method = PeerwiseOpen(local_epochs=1)
    Session(method, one)
    Session(method, two)
    assert one.state["first"] == two.state["first"]
