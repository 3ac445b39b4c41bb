"""FedOV and FedSOV: the check kit, sites that know one class, peers that send nonsense, small parcels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from net_federations import image_sites, series_sites
from tiny_nets import images, play, said, tables

from peerwise.checks import check_method
from peerwise.checks.method import awkward_sites
from peerwise.data import Rows, Site
from peerwise.errors import ConfigError, DataError
from peerwise.federation import PEERS_LEFT_OUT, Broadcast, Session, answer
from peerwise.methods.fedov import FedOV
from peerwise.methods.fedsov import FedSOV
from peerwise.methods.open_voting import OpenVoting
from peerwise.models.nets import net_weights, new_net
from peerwise.parcels import Keep, Parcel
from peerwise.parcels.sparse import dense_weights, sparse_weights
from peerwise.run import run_method

QUICK: dict[str, OpenVoting] = {
    "fedov": FedOV(local_epochs=1, attack_steps=1),
    "fedsov": FedSOV(local_epochs=2, prune_stages=1, prune_epochs=1),
    "unpruned": FedSOV(local_epochs=2, compress="none"),
    "magnitude": FedSOV(local_epochs=1, compress="magnitude", prune_epochs=1),
}
BOTH = ["fedov", "fedsov"]


@pytest.mark.parametrize("name", BOTH)
def test_the_check_kit_passes_on_tables(name: str) -> None:
    check_method(QUICK[name])


def test_the_check_kit_passes_on_images() -> None:
    check_method(
        FedSOV(local_epochs=1, batch_size=8, prune_stages=1, prune_epochs=1), lambda: images((6, 9), "simple_cnn")
    )


@pytest.mark.parametrize("name", QUICK)
def test_different_nets_vote_together(name: str) -> None:
    sites = image_sites(("cnn8", "lenet"), rows=24)
    run_method(QUICK[name], sites)
    found = QUICK[name].predict_with_details(sites[0], sites[0].test.X)[1]
    assert found["models"] == ["cnn8@site-0", "lenet@site-1"]
    assert PEERS_LEFT_OUT not in sites[0].state


def _one_class_each() -> list[Site]:
    """At one site the second column follows the first, at the other its opposite; each column alone tells nothing."""
    made = []
    for place, sign in enumerate((1, -1)):
        rng = np.random.default_rng(place)
        first = rng.uniform(1, 3, 120) * rng.choice([-1, 1], 120)
        X = np.stack([first, sign * first + rng.normal(0, 0.1, 120)], axis=1).astype(np.float32)
        y = np.full(120, place)
        parts = [Rows(X[part], y[part]) for part in (slice(0, 80), slice(80, 90), slice(90, 120))]
        made.append(Site(f"site {place}", "table", ("same", "opposite"), *parts, recipes=("mlp",)))
    return made


@pytest.mark.parametrize("method", [FedOV(local_epochs=40), FedSOV(local_epochs=40, sparsity=0.5)])
def test_sites_with_one_class_each_learn_the_other_from_each_other(method: OpenVoting) -> None:
    """No site's own net can tell two classes apart; the vote can, because the other says that it does not know."""
    sites = _one_class_each()
    run_method(method, sites)
    for site in sites:
        right = [answer(method, site, other.test.X).argmax(axis=1) == other.test.y for other in sites]
        assert np.mean(right) > 0.9
        own = [method.predict_with_details(site, other.test.X)[1]["own"].argmax(axis=1) for other in sites]
        assert np.mean(own == site.train.y[0]) > 0.9


def test_details_say_who_voted_who_did_not_know_and_what_each_net_says() -> None:
    sites = tables()
    method = FedOV(local_epochs=2, top=2)
    run_method(method, sites)
    site = sites[1]
    found = method.predict_with_details(site, site.test.X)[1]
    n, models = len(site.test), len(sites)
    outputs = method.open_outputs(site, site.test.X)
    assert outputs.shape == (n, models, 4)
    assert found["trust"].shape == found["unknown"].shape == found["says"].shape == found["by_k"].shape == (n, models)
    assert ((found["trust"] > 0).sum(axis=1) <= 2).all()
    np.testing.assert_allclose(found["trust"].sum(axis=1), 1)
    np.testing.assert_allclose(found["unknown"], outputs[:, :, -1], rtol=1e-6)
    assert found["models"] == [f"mlp@{name}" for name in sorted(other.name for other in sites)]
    assert found["known_classes"] == [0, 1]
    np.testing.assert_allclose(found["own"].sum(axis=1), 1)
    assert found["fallback"].shape == (n,)
    assert (found["by_k"][:, 1] == answer(method, site, site.test.X).argmax(axis=1)).all()


def test_ten_tickets_are_together_larger_than_one_whole_net_by_what_stays_whole_and_where_the_rest_stands() -> None:
    """1.40 times its parameters and 1.65 times its bytes, as the documentation says."""
    ten = tuple("abcdefghij")
    sites = [site.replace(classes=ten) for site in images((12, 12), "simple_cnn")]
    sent, values = {}, {}
    for compress in ("none", "tickets"):
        method = FedSOV(1, prune_stages=1, prune_epochs=1, compress=compress, sites=10)
        play(method, sites)
        parcel = said(method, sites)["site 0"]
        sent[compress] = parcel.nbytes
        values[compress] = sum(np.count_nonzero(weight) for weight in dense_weights(parcel["weights"]).values())
    assert 10 * values["tickets"] / values["none"] == pytest.approx(1.40, abs=0.01)
    assert 10 * sent["tickets"] / sent["none"] == pytest.approx(1.65, abs=0.02)


def test_a_second_vote_with_the_same_nets_trains_nothing() -> None:
    keep = Keep()
    sites = tables(keep=keep)
    run_method(FedOV(2, top=1), sites)
    seconds = [site.state["seconds"]["train"] for site in sites]
    again = tables(keep=keep)
    run_method(FedOV(2, top=4), again)
    assert [site.state["seconds"]["train"] for site in again] == seconds
    other = tables(keep=keep)
    run_method(FedOV(3, top=4), other)
    assert [site.state["seconds"]["train"] for site in other] != seconds


def _bad(parcel: Parcel, change: str) -> Parcel:
    weights = dense_weights(parcel["weights"])
    if change == "classes":
        return Parcel(**{**parcel, "classes": ["low", "high", "middle"]})
    if change == "recipe":
        return Parcel(**{**parcel, "recipe": "no_such_net"})
    if change == "no net":
        return Parcel(**{**parcel, "recipe": "forest"})
    if change == "kind":
        return Parcel(**{**parcel, "recipe": "cnn8"})
    if change == "keys":
        return Parcel(model=b"x")
    if change == "shape":
        weights["head.weight"] = weights["head.weight"][:, :-1]
    if change == "missing":
        del weights["head.bias"]
    if change == "nan":
        weights["head.bias"] = np.array([np.nan, *weights["head.bias"][1:]], dtype=np.float32)
    if change == "huge":
        weights = {n: np.full_like(w, 3e38) if n.endswith("weight") else w for n, w in weights.items()}
    if change == "tree":
        return Parcel(**{**parcel, "weights": {"values": 7}})
    return Parcel(**{**parcel, "weights": sparse_weights(weights)})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("classes", "answers over"),
        ("recipe", "no_such_net"),
        ("no net", "no neural network"),
        ("kind", "a net for image rows: expected one for table rows"),
        ("keys", "expected a recipe, weights and classes"),
        ("shape", "head.weight"),
        ("missing", "head.bias"),
        ("nan", "holds non-finite values"),
        ("huge", "non-finite"),
        ("tree", "missing or too many"),
    ],
)
def test_a_peer_that_sends_what_cannot_be_used_is_left_out_and_named(change: str, says: str) -> None:
    method, sites = FedOV(local_epochs=1), tables()
    sessions = [Session(method, site) for site in sites]
    inbox = {session.site.name: session.step(None, 0) for session in sessions}
    inbox["full"] = _bad(inbox["full"], change)
    site = sites[1]
    sessions[1].step(Broadcast(0, inbox), 1, shares=False)
    assert set(site.state[PEERS_LEFT_OUT]) == {"*@full"}
    assert says in site.state[PEERS_LEFT_OUT]["*@full"]
    found = method.predict_with_details(site, site.test.X)[1]
    assert "mlp@full" not in found["models"]
    assert len(found["models"]) == 4
    np.testing.assert_allclose(answer(method, site, site.test.X).sum(axis=1), 1)


def test_a_site_alone_answers_with_its_own_net() -> None:
    method, site = FedOV(local_epochs=2), tables()[0]
    run_method(method, [site])
    found = method.predict_with_details(site, site.test.X)[1]
    np.testing.assert_allclose(answer(method, site, site.test.X), found["own"])
    assert found["models"] == ["mlp@full"]


def test_a_row_beyond_all_numbers_is_unknown_to_every_net() -> None:
    method, sites = FedOV(local_epochs=1), tables()
    run_method(method, sites)
    row = np.array([[np.inf, 0, 0, 0]], np.float32)
    found = method.predict_with_details(sites[0], row)[1]
    assert (found["unknown"] == 1).all()
    assert found["fallback"].all()
    np.testing.assert_allclose(answer(method, sites[0], row), 1 / 3)


@pytest.mark.parametrize("name", BOTH)
def test_labels_of_test_rows_change_nothing(name: str) -> None:
    """A canary: test rows with labels of their own kind, which no answer may follow."""
    answers = []
    for lie in (False, True):
        sites = tables()
        asked = [site.test.X for site in sites]
        if lie:
            sites = [site.replace(test=Rows(site.test.X + 100, (site.test.y + 1) % 3)) for site in sites]
        run_method(QUICK[name], sites)
        answers.append([answer(QUICK[name], site, X) for site, X in zip(sites, asked, strict=True)])
    assert all(np.array_equal(one, two) for one, two in zip(*answers, strict=True))


def test_federations_that_cannot_be_are_refused_before_any_work() -> None:
    with pytest.raises(DataError, match=r"no neural network among its models \(logistic, forest\).*models='mlp'"):
        FedOV().check_sites(awkward_sites())
    with pytest.raises(DataError, match="no outliers are known for sequence rows"):
        FedSOV().check_sites(series_sites())


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"local_epochs": 0}, "local_epochs is 0: expected at least 1"),
        ({"top": 0}, "top is 0: expected at least 1"),
        ({"lr": 0.0}, "lr is 0.0: expected a learning rate above 0"),
        ({"attack_size": -1.0}, "attack_size is -1.0"),
        ({"compress": "zip"}, "unknown way to compress 'zip'"),
        ({"sparsity": 1.5}, "sparsity is 1.5"),
        ({"sparsity": 1}, "sparsity is 1: expected less than 1"),
        ({"sites": 0}, "sites is 0"),
        ({"prune_stages": 0}, "prune_stages is 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        FedSOV(**settings)


def test_a_k_th_of_the_weights_is_left_where_k_sites_take_part() -> None:
    assert FedSOV(sites=5).plan().sparsity == pytest.approx(0.8)
    assert FedSOV(sites=20).plan().sparsity == pytest.approx(0.95)
    assert FedSOV(sites=20, sparsity=0.5).plan().sparsity == 0.5


def test_the_simple_cnn_has_about_the_published_number_of_parameters() -> None:
    grey = np.zeros((1, 1, 28, 28), np.uint8)
    sizes = {
        name: sum(w.size for w in net_weights(new_net(name, grey, (), 10, seed=0)).values())
        for name in ("simple_cnn", "large_cnn")
    }
    assert sizes["simple_cnn"] == pytest.approx(150_000, rel=0.03)
    assert 800_000 < sizes["large_cnn"] < 2_000_000
