"""A vertical federation on real rows: sites that see different columns of Adult, end to end."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from peerwise.data import Site, load, make_sites
from peerwise.federation import answer
from peerwise.methods.stacking import Stacking
from peerwise.metrics import balanced_accuracy
from peerwise.parcels import Keep
from peerwise.run import run_method

pytestmark = pytest.mark.skipif("PEERWISE_DATA" not in os.environ, reason="PEERWISE_DATA is not set: no Adult rows")
KEEP = Keep()


@pytest.fixture(scope="module")
def adult() -> Any:
    every = load("adult")
    return every.take(np.random.default_rng(0).permutation(len(every))[:6000])


def run(adult: Any, **settings: Any) -> tuple[Stacking, list[Site]]:
    sites = make_sites(adult, "vertical", 3, seed=0, recipes=("logistic",), share_of_columns=0.6)
    sites = [site.replace(keep=KEEP) for site in sites]
    method = Stacking(**{"meta": DecisionTreeClassifier(max_depth=5), "folds": 2, **settings})
    run_method(method, sites)
    return method, sites


@pytest.mark.parametrize("variant", ["cv", "held_out", "pooled"])
def test_sites_with_different_columns_stack_each_others_models(adult: Any, variant: Any) -> None:
    method, sites = run(adult, variant=variant)
    assert len({site.features for site in sites}) == 3
    for site in sites:
        found = method.predict_with_details(site, site.test.X)[1]
        assert len(found["models"]) == 3
        assert "peers_left_out" not in site.state
        answers = answer(method, site, site.test.X)
        assert np.allclose(answers.sum(axis=1), 1)
        assert balanced_accuracy(site.test.y, answers.argmax(axis=1)) > 0.6
        row = found["contribution"]["impurity"]
        assert set(row) == {other.name for other in sites} - {site.name}
        assert sum(row.values()) + found["contribution"]["self"]["impurity"] == pytest.approx(1)


def test_a_peers_model_sees_its_own_columns_here_with_the_defaults_it_was_sent_with(adult: Any) -> None:
    from peerwise.models import OnnxModel

    method, sites = run(adult)
    here, peer = sites[0], sites[1]
    mine = {feature.name: place for place, feature in enumerate(here.features)}
    defaults = method.defaults(peer)
    X = np.asarray(here.test.X)
    columns = [
        X[:, mine[feature.name]] if feature.name in mine else np.full(len(X), defaults[feature.name], np.float32)
        for feature in peer.features
    ]
    said = OnnxModel(here.state["pool"][f"logistic@{peer.name}"]).predict_logits(np.column_stack(columns))
    place = method.predict_with_details(here, X)[1]["models"].index(f"logistic@{peer.name}")
    assert (method.predict_with_details(here, X)[1]["says"][:, place] == said.argmax(axis=1)).all()


def test_noisier_defaults_send_other_values_and_leave_categories_alone(adult: Any) -> None:
    _, sites = run(adult)
    plain, loud = Stacking(noise=0.0).defaults(sites[0]), Stacking(noise=8.0).defaults(sites[0])
    for feature in sites[0].features:
        assert (plain[feature.name] == loud[feature.name]) == feature.is_category
