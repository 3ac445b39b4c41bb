"""FedMosaic with privacy: what is guaranteed, what is noised, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from public_federations import SMALL, digits, heard_by_all

from peerwise.data import Rows, load, make_sites
from peerwise.errors import DataError, ModelError
from peerwise.methods.fedmosaic import FedMosaic
from peerwise.methods.public import unpack_votes
from peerwise.models.sgd import SGD
from peerwise.run import run_method


def test_private_training_hides_a_record_and_says_how_well() -> None:
    sites = digits(public=60, sites=2)
    method = FedMosaic(private="training", epsilon=4.0, **SMALL)
    run_method(method, sites)
    for site in sites:
        found = method.privacy(site)
        assert found is not None
        assert found["epsilon"] == pytest.approx(4.0, rel=5e-3)
        assert found["epsilon"] <= 4.0
        assert (found["delta"], found["rounds"]) == (1e-5, 3)
        assert "record" in found["unit"]
        assert "DP-SGD" in found["mechanism"]
        assert "class counts" in found["mechanism"]


def test_private_training_scales_inputs_by_public_rows() -> None:
    """Else means of the private rows would be in everything that is said."""
    one, other = digits(public=60, sites=2), digits(public=60, sites=2)
    other[0] = other[0].replace(train=Rows(other[0].train.X * 100, other[0].train.y))
    method = FedMosaic(private="training", **SMALL)
    for site in (one[0], other[0]):
        method.start(site, np.random.default_rng(0))
    for name, value in one[0].state["net"].items():
        assert np.array_equal(value, other[0].state["net"][name]), name


def test_private_release_changes_most_labels_and_hides_the_site() -> None:
    open_, hidden = digits(public=60, sites=2), digits(public=60, sites=2)
    said = heard_by_all(FedMosaic(rounds=2, lr=0.1), open_, 2)[0]
    method = FedMosaic(private="release", epsilon=8.0, rounds=2, lr=0.1)
    noised = heard_by_all(method, hidden, 2)[0]
    for name in said:
        plain, _ = unpack_votes(said[name]["votes"], 60, 10, 8)
        heard, _ = unpack_votes(noised[name]["votes"], 60, 10, 8)
        assert np.mean(plain != heard) > 0.5
    found = method.privacy(hidden[0])
    assert found is not None
    assert found["epsilon"] == pytest.approx(8.0, rel=5e-3)
    assert "site" in found["unit"]


def test_private_training_refuses_models_without_gradients() -> None:
    with pytest.raises(DataError, match=r"no gradients to make private.*private='release'"):
        run_method(FedMosaic(private="training", rounds=2), digits(recipes=("forest",)))


def test_two_settings_on_the_same_rows_draw_their_noise_anew() -> None:
    """Else the counts behind two noised ones could be solved for."""
    draws = []
    for epsilon in (2.0, 8.0):
        site = digits(public=60, sites=2)[0]
        FedMosaic(private="training", epsilon=epsilon, **SMALL).start(site, np.random.default_rng(0))
        true = np.bincount(site.train.y, minlength=10)
        noise = (site.state["counts"] - true) / site.state["noise"]["counts_sigma"]
        draws.append(noise[site.state["counts"] > 0])
    assert not np.allclose(draws[0][:3], draws[1][:3])


def test_as_many_private_steps_are_taken_as_are_accounted_for(monkeypatch: pytest.MonkeyPatch) -> None:
    site = digits(public=60, sites=2)[0]
    method = FedMosaic(private="training", rounds=2, local_epochs=2, batch_size=16, lr=0.1)
    method.start(site, np.random.default_rng(0))
    taken = 0
    step = SGD.step

    def counted(self: SGD) -> None:
        nonlocal taken
        taken += 1
        step(self)

    monkeypatch.setattr(SGD, "step", counted)
    for round in range(2):
        method.share(site, round)
    assert f"{taken} steps" in site.state["noise"]["guarantee"]["mechanism"]


def test_nets_that_cannot_be_trained_privately_are_refused_before_any_work() -> None:
    images = make_sites(load("digits"), "dirichlet", 2, alpha=1.0, public=20, recipes=("mlp",))
    sites = [
        site.replace(
            kind="image",
            recipes=("mobilenet_v2",),
            train=Rows(np.zeros((4, 1, 28, 28), dtype=np.uint8), np.arange(4)),
            public=np.zeros((5, 1, 28, 28), dtype=np.uint8),
            features=(),
        )
        for site in images
    ]
    with pytest.raises(ModelError, match="BatchNorm2d"):
        FedMosaic(private="training", rounds=2).check_sites(sites)
