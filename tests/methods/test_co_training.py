"""FedMosaic, FedCT and PerFed-CKT: what sites say about public rows, and what they learn from it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from public_federations import SMALL, answers, digits, heard_by_all
from sklearn.linear_model import LogisticRegression

from peerwise.data import Feature, Rows, Site, load, make_sites
from peerwise.errors import ConfigError, DataError
from peerwise.federation import PEERS_LEFT_OUT, RUN, Session, answer, combine
from peerwise.methods.co_training import _sum_loss
from peerwise.methods.fedct import FedCT
from peerwise.methods.fedmosaic import FedMosaic, adaptive_weight
from peerwise.methods.local_rounds import LocalRounds
from peerwise.methods.perfedckt import PerFedCKT, cluster_means
from peerwise.methods.public import class_frequency, majority, unpack_votes
from peerwise.methods.refitting import file_probabilities, refitted
from peerwise.models.sgd import SGD
from peerwise.models.training import train
from peerwise.run import run_method
from peerwise.run.participation import Participation


def test_without_trust_in_others_it_is_local_training() -> None:
    alone, together = digits(), digits()
    run_method(LocalRounds(**SMALL), alone)
    run_method(FedMosaic(fixed_lambda=0.0, **SMALL), together)
    for one, other in zip(
        answers(alone, LocalRounds(**SMALL)), answers(together, FedMosaic(fixed_lambda=0.0, **SMALL)), strict=True
    ):
        assert np.array_equal(one, other)


@given(st.floats(0, 50), st.floats(0, 50))
def test_lambda_is_never_below_zero_nor_above_e(own: float, common: float) -> None:
    assert 0 <= adaptive_weight(own, common) <= math.e


def test_lambda_by_hand() -> None:
    assert adaptive_weight(0.5, 0.75) == pytest.approx(math.exp(-0.5), rel=1e-6)
    assert adaptive_weight(0.5, 0.5) == pytest.approx(1.0)
    assert adaptive_weight(0.5, 0.0) == pytest.approx(math.e, rel=1e-6)
    assert adaptive_weight(0.0, 1.0) == 0.0


@pytest.mark.parametrize("bits", [4, 8])
def test_the_bytes_counted_are_the_bits_of_the_formula(bits: int) -> None:
    sites = digits(public=45)
    method = FedMosaic(bits=bits, rounds=2, lr=0.1)
    rounds = heard_by_all(method, sites, 2)
    for site in sites:
        parcels = [posted[site.name] for posted in rounds]
        for parcel in parcels:
            assert len(parcel["votes"]) == math.ceil(45 * (4 + bits) / 8)
            assert parcel.nbytes - len(parcel["votes"]) < 350  # the manifest: names and hashes
        assert site.state[RUN]["sent"] == sum(parcel.nbytes for parcel in parcels)
        assert site.state[RUN]["received"] < 2 * (math.ceil(45 * 4 / 8) + 350)


def test_fedct_sends_labels_alone() -> None:
    sites = digits(public=45)
    posted = heard_by_all(FedCT(rounds=1, lr=0.1), sites, 1)[0]
    assert all(len(parcel["votes"]) == math.ceil(45 * 4 / 8) for parcel in posted.values())


def test_equal_expertise_is_a_majority_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    method = FedMosaic(rounds=1, lr=0.1)
    monkeypatch.setattr(FedMosaic, "opinion", lambda self, site, round, p: (p.argmax(axis=1), np.full(len(p), 0.5)))
    sites = digits(sites=5)
    posted = heard_by_all(method, sites, 1)[0]
    votes = [unpack_votes(parcel["votes"], 40, 10, 8)[0] for parcel in posted.values()]
    assert np.array_equal(sites[0].state["consensus"], majority(votes, 10))


def test_a_site_says_nothing_about_a_class_that_it_lacks() -> None:
    found = class_frequency(np.array([0, 1, 2]), np.array([5.0, 5.0, 0.0]))
    assert found[2] == 0.0  # and what is below 1e-6 counts as 1e-6 in the consensus


@pytest.mark.parametrize("method", [FedMosaic(rounds=4, period=2, lr=0.1), FedCT(rounds=4, period=2, lr=0.1)])
def test_sites_speak_in_every_second_round_only(method: Any) -> None:
    sites = digits()
    rounds = heard_by_all(method, sites, 4)
    assert [len(posted) for posted in rounds] == [0, 3, 0, 3]
    assert "consensus" in sites[0].state


@pytest.mark.parametrize("public", [1, 7])
@pytest.mark.parametrize("kind", [FedMosaic, FedCT, PerFedCKT])
def test_a_tiny_public_set_will_do(kind: Any, public: int) -> None:
    sites = digits(public=public)
    run_method(kind(**SMALL), sites)
    assert all(np.isfinite(found).all() for found in answers(sites, kind(**SMALL)))


def test_public_rows_may_lack_classes() -> None:
    sites = digits(public=60, public_alpha=0.05)
    run_method(FedMosaic(**SMALL), sites)
    assert all(np.isfinite(found).all() for found in answers(sites, FedMosaic(**SMALL)))


def flipped(site: Site) -> Site:
    """A site whose every label is wrong in the same way."""
    turned = {part: getattr(site, part) for part in ("train", "val", "test")}
    return site.replace(**{part: Rows(rows.X, (rows.y + 1) % 10) for part, rows in turned.items()})


def test_a_site_with_flipped_labels_ends_up_alone() -> None:
    """Its lambda is near 0 while others still listen: later all fit their own rows so well that none does."""
    first, *others = digits(public=200, sites=5)
    sites = [flipped(first), *others]
    run_method(FedMosaic("confidence", rounds=30, period=1, lr=0.1), sites)
    trusts = {site.name: np.array(site.state[RUN]["curves"]["lambda"])[1:, 1] for site in sites}
    alone = int(np.argmax(trusts[first.name] < 0.01))
    assert alone > 0
    assert max(trusts[site.name][alone] for site in others) > 0.3
    assert trusts[first.name][alone:].max() < 0.01


def test_any_model_takes_part() -> None:
    sites = digits(public=80, sites=4)
    kinds = ("mlp", "logistic", "forest", "mlp")
    sites = [site.replace(recipes=(kind,)) for site, kind in zip(sites, kinds, strict=True)]
    method = FedMosaic(rounds=8, lr=0.1)
    run_method(method, sites)
    for site in sites:
        right = (answer(method, site, site.test.X).argmax(axis=1) == site.test.y).mean()
        assert right > 0.6
        assert site.state[RUN]["took_part"] == list(range(8))


def test_a_refitted_model_is_that_of_weighted_rows() -> None:
    site = digits(public=30)[0]
    X, y, weight = site.public, np.arange(30) % 10, 0.7
    site.state["model"] = refitted(site, "logistic", (X, y, weight), seed=0)
    both = np.concatenate([site.train.X, X])
    labels = np.concatenate([site.train.y, y])
    weights = np.concatenate([np.ones(len(site.train)), np.full(30, weight)])
    spread = both.std(axis=0)
    scaled = ((both - both.mean(axis=0)) / np.where(spread > 0, spread, 1.0)).astype(np.float32)

    def off(weights: Any) -> float:
        oracle = LogisticRegression(max_iter=1000, class_weight="balanced").fit(scaled, labels, sample_weight=weights)
        return float(np.abs(file_probabilities(site, both) - oracle.predict_proba(scaled)).max())

    # Solvers stop where they are near enough, a little elsewhere on every processor; other weights are far off.
    assert off(weights) < 0.015 < off(np.ones(len(both))) / 4


def test_one_step_by_hand() -> None:
    """logits = (w1 x, w2 x): the gradient of own loss + lambda x public loss, worked out in numpy."""
    net = torch.nn.Linear(1, 2, bias=False)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[0.3], [-0.2]]))
    x, y = np.array([1.0, -2.0]), np.array([0, 1])
    u, label, weight, lr = np.array([0.5, 1.5]), np.array([1, 1]), 0.4, 0.1

    def slope(w: Any, rows: Any, labels: Any) -> Any:
        shares = np.exp(np.outer(rows, w))
        shares /= shares.sum(axis=1, keepdims=True)
        return ((shares - np.eye(2)[labels]) * rows[:, None]).mean(axis=0)

    before = np.array([0.3, -0.2])
    expected = before - lr * (slope(before, x, y) + weight * slope(before, u, label))
    batch = ((torch.tensor(u, dtype=torch.float32)[:, None],), torch.tensor(label))
    own = (torch.tensor(x, dtype=torch.float32)[:, None], torch.tensor(y))
    train(
        net,
        own,
        loss=_sum_loss(lambda count: batch, weight),
        optimizer=SGD(net.parameters(), lr),
        epochs=1,
        patience=None,
    )
    assert net.weight.detach().numpy()[:, 0] == pytest.approx(expected, abs=1e-6)


def test_an_undecided_row_teaches_nothing() -> None:
    """With a quorum that nobody reaches, a qualified majority is local training."""
    noise = np.random.default_rng(0).normal(0, 100, (30, 64)).astype(np.float32)
    alone = digits(sites=5, public=30)
    together = [site.replace(public=noise) for site in digits(sites=5, public=30)]
    method = FedCT("qualified", quorum=1.0, **SMALL)
    run_method(LocalRounds(**SMALL), alone)
    run_method(method, together)
    assert all((site.state["consensus"] < 0).all() for site in together)
    for one, other in zip(answers(alone, LocalRounds(**SMALL)), answers(together, method), strict=True):
        assert np.array_equal(one, other)


def test_logits_are_averaged_within_clusters() -> None:
    near, far = np.zeros((2, 4, 3)), np.full((3, 4, 3), 9.0)
    near[1], far[2] = 1.0, 12.0
    found = cluster_means(np.concatenate([near, far]).astype(np.float32), 2, seed=0)
    assert np.allclose(found[:2], 0.5)
    assert np.allclose(found[2:], 10.0)


def test_each_site_hears_its_own_cluster_only() -> None:
    sites = digits(public=20, sites=4)
    run_method(PerFedCKT(clusters=2, rounds=2, lr=0.05), sites)
    logits = 20 * 10 * 4
    for site in sites:
        assert site.state["cluster"].shape == (20, 10)
        assert 2 * logits <= site.state[RUN]["received"] < 2 * (logits + 700)


@pytest.mark.parametrize(("rounds", "spoken"), [(1, [0]), (5, [1, 3]), (20, [9, 19]), (60, [29, 59])])
def test_without_a_period_sites_learn_something_before_they_speak(rounds: int, spoken: list[int]) -> None:
    method = FedMosaic(rounds=rounds)
    assert [round for round in range(rounds) if method.shares_in(round)] == spoken


def test_missing_public_rows_are_refused_before_any_work() -> None:
    with pytest.raises(DataError, match=r"no public rows.*public=500"):
        run_method(FedMosaic(rounds=2), digits(public=0))


def test_different_public_rows_are_refused_before_any_work() -> None:
    sites = digits()
    sites[1] = sites[1].replace(public=sites[1].public[::-1].copy())  # type: ignore[index]
    with pytest.raises(DataError, match=rf"site '{sites[1].name}' has other public rows \(sha256"):
        run_method(FedMosaic(rounds=2), sites)


def test_a_peer_that_speaks_about_other_rows_is_left_out_and_named() -> None:
    method = FedMosaic(rounds=1, lr=0.1)
    sites = digits(sites=4)
    posted = heard_by_all(method, sites, 1)[0]
    odd = sorted(posted)[1]
    changed = {**posted, odd: type(posted[odd])(**{**posted[odd], "public": "0" * 64})}
    told, _ = combine(method, 0, changed, {}, 0)
    assert list(told.left_out) == [odd]
    assert "'public' is 000000000000" in told.left_out[odd]
    Session(method, sites[0]).step(told, 1, shares=False)
    assert odd in str(sites[0].state[PEERS_LEFT_OUT])


def test_a_peer_that_sends_damaged_votes_is_left_out() -> None:
    method = FedMosaic(rounds=1, lr=0.1)
    posted = heard_by_all(method, digits(sites=3), 1)[0]
    odd = sorted(posted)[0]
    changed = {**posted, odd: type(posted[odd])(**{**posted[odd], "votes": b"short"})}
    told, _ = combine(method, 0, changed, {}, 0)
    assert "5 bytes about 40 public rows" in told.left_out[odd]


@pytest.mark.parametrize(
    ("kind", "settings", "says"),
    [
        (FedMosaic, {"bits": 0}, "bits is 0"),
        (FedMosaic, {"fixed_lambda": -1.0}, "fixed_lambda is -1"),
        (FedMosaic, {"period": 0}, "period is 0"),
        (FedMosaic, {"epsilon": 0.0}, "epsilon 0"),
        (FedMosaic, {"private": "dp"}, "private: unknown private 'dp'"),
        (FedMosaic, {"expertise": "entropy"}, "expertise: unknown expertise 'entropy'"),
        (FedCT, {"vote": "Majority"}, "vote: unknown vote 'Majority'"),
        (FedCT, {"quorum": 0.4}, "quorum is 0.4"),
        (PerFedCKT, {"clusters": 0}, "clusters is 0"),
        (PerFedCKT, {"lam": 0.0}, "lam is 0"),
    ],
)
def test_settings_that_cannot_be_are_refused_at_once(kind: Any, settings: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        kind(**settings)


def test_perfedckt_needs_nets_and_says_so() -> None:
    with pytest.raises(DataError, match=r"'forest', which is no neural network.*fedmosaic"):
        run_method(PerFedCKT(rounds=2), digits(recipes=("forest",)))


def test_logits_far_apart_do_not_throw_perfedckt_off() -> None:
    method = PerFedCKT(rounds=6, local_epochs=3, batch_size=16, lr=0.3)
    sites = digits(public=100, sites=5)
    run_method(method, sites)  # stops at a loss that is no number
    assert all(np.isfinite(found).all() for found in answers(sites, method))


def test_different_nets_learn_from_one_consensus() -> None:
    for kind in (FedMosaic, FedCT, PerFedCKT):
        method = kind(rounds=4, lr=0.05)
        sites = different_nets()
        run_method(method, sites)
        assert all(np.isfinite(found).all() for found in answers(sites, method))


def different_nets() -> list[Site]:
    sites = make_sites(load("digits"), "dirichlet", 3, alpha=1.0, public=20, recipes=("mlp",))
    kinds = ("cnn8", "lenet", "cnn16")

    def drawn(X: Any) -> Any:
        return np.kron(X.reshape(-1, 1, 8, 8), np.ones((1, 1, 4, 4))).astype(np.uint8)[:40] * 15

    return [
        site.replace(
            kind="image",
            recipes=(kind,),
            features=(),
            public=drawn(site.public),
            **{
                part: Rows(drawn(getattr(site, part).X), getattr(site, part).y[:40])
                for part in ("train", "val", "test")
            },
        )
        for site, kind in zip(sites, kinds, strict=True)
    ]


def test_a_site_that_only_listens_tells_no_new_lambda() -> None:
    sites = digits(sites=4)
    run_method(FedMosaic(rounds=6, lr=0.1, period=1), sites, participation=Participation(join=0.5))
    for site in sites:
        assert [round for round, _ in site.state[RUN]["curves"]["lambda"]] == site.state[RUN]["took_part"]


def test_curves_are_told_for_every_round() -> None:
    sites = digits()
    run_method(FedMosaic(rounds=4, period=1, lr=0.1), sites)
    curves = sites[0].state[RUN]["curves"]
    for name in ("lambda", "own loss", "changed pseudo-labels", "validation accuracy"):
        assert [round for round, _ in curves[name]] == [0, 1, 2, 3]
    assert [round for round, _ in curves["public loss"]] == [1, 2, 3]
    assert curves["lambda"][0] == [0, 0.0]
    assert curves["changed pseudo-labels"][0] == [0, 1.0]


def test_features_are_named_alike() -> None:
    sites = digits()
    sites[0] = sites[0].replace(features=tuple(Feature(f"other {place}") for place in range(64)))
    with pytest.raises(DataError, match="different columns"):
        run_method(FedMosaic(rounds=2), sites)
