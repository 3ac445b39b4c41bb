"""FedProto, FedTGP and FedGH: class means by hand, what the hub makes of them, and answers by the nearest prototype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from net_federations import image_sites, table_sites
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import log_softmax, softmax
from torch import Tensor, nn

from peerwise.data import Rows, Site
from peerwise.errors import ConfigError, ParcelError
from peerwise.federation import Session, answer, combine
from peerwise.methods.by_rounds import ByRounds
from peerwise.methods.embeddings import SentMeans, class_means, nearest_probabilities, sent_means
from peerwise.methods.fedgh import FedGH, trained_head
from peerwise.methods.fedproto import FedProto, pulled_loss
from peerwise.methods.fedtgp import FedTGP, adaptive_margin, margin_loss
from peerwise.models.fitted import tensors
from peerwise.models.nets import Net, in_parts
from peerwise.models.sgd import SGD
from peerwise.parcels import Parcel, pack, unpack
from peerwise.run import run_method

RNG = np.random.default_rng


def few_epochs(**budget: Any) -> FedTGP:
    return FedTGP(server_epochs=5, **budget)


METHODS: list[Callable[..., ByRounds]] = [FedProto, few_epochs, FedGH]


def begun(method: ByRounds, sites: list[Site]) -> list[Site]:
    for site in sites:
        Session(method, site)
    return sites


def shared(method: ByRounds, sites: list[Site], round: int = 0) -> dict[str, Parcel]:
    return {site.name: method.share(site, round) for site in sites}


def sent(means: list[list[float]], labels: list[int]) -> Parcel:
    return Parcel(means=np.array(means, dtype=np.float32), labels=np.array(labels))


def embedded(method: ByRounds, site: Site, rows: Rows) -> NDArray[Any]:
    net = method.net(site)
    return in_parts(net, net.embed, tensors(rows.X)).numpy().astype(np.float64)


def local_means(method: ByRounds, site: Site) -> dict[int, NDArray[Any]]:
    found = embedded(method, site, site.train)
    return {int(label): found[site.train.y == label].mean(axis=0) for label in np.unique(site.train.y)}


def test_with_one_site_the_global_prototypes_are_its_own_class_means() -> None:
    method = FedProto(embedding=20, rounds=1)
    site = image_sites()[2]
    run_method(method, [site])
    own = local_means(method, site)
    prototypes = site.state["prototypes"]
    assert set(np.flatnonzero(~np.isnan(prototypes).any(axis=1))) == set(own) == set(range(7))
    for label, mean in own.items():
        assert prototypes[label] == pytest.approx(mean, abs=1e-5)
    nearest = cdist(embedded(method, site, site.test), prototypes[:7]).argmin(axis=1)
    assert np.array_equal(answer(method, site, site.test.X).argmax(axis=1), nearest)


def test_two_sites_count_alike_whatever_they_have_and_a_class_of_nobody_is_not_told() -> None:
    inbox = {"a": sent([[0, 2], [4, 4]], [0, 2]), "b": sent([[2, 4]], [0])}
    heard, memory = FedProto(embedding=2).combine(inbox, {}, RNG(0))
    assert heard["labels"].tolist() == [0, 2]
    assert heard["prototypes"].tolist() == [[1, 3], [4, 4]]
    assert memory == {}
    assert set(heard) == {"labels", "prototypes"}


def test_a_class_whose_sites_are_away_keeps_the_prototype_heard_last() -> None:
    method = FedProto(embedding=2, rounds=2)
    site = begun(method, table_sites()[:1])[0]
    method.absorb(site, 0, Parcel(prototypes=np.array([[1, 1], [2, 2]], np.float32), labels=np.array([0, 2])))
    method.absorb(site, 1, Parcel(prototypes=np.array([[3, 3]], np.float32), labels=np.array([0])))
    prototypes = site.state["prototypes"]
    assert prototypes[[0, 2]].tolist() == [[3, 3], [2, 2]]
    assert np.isnan(prototypes[1]).all()
    found = answer(method, site, site.train.X)
    assert (found[:, 1] == 0).all()
    assert np.allclose(found.sum(axis=1), 1)
    with pytest.raises(ParcelError, match="expected 2 numbers each"):
        method.absorb(site, 2, Parcel(prototypes=np.ones((1, 3), np.float32), labels=np.array([0])))


def test_before_any_prototype_is_heard_the_head_answers() -> None:
    method = FedProto(rounds=1)
    site = begun(method, table_sites()[:1])[0]
    with torch.no_grad():
        logits = method.net(site).eval()(*tensors(site.train.X)).numpy()
    assert answer(method, site, site.train.X) == pytest.approx(softmax(logits.astype(float), axis=1), abs=1e-6)


def test_probabilities_fall_with_the_squared_distance() -> None:
    rows, prototypes = RNG(0).normal(size=(9, 4)), RNG(1).normal(size=(5, 4))
    prototypes[3] = np.nan
    known = [0, 1, 2, 4]
    found = nearest_probabilities(rows, prototypes)
    expected = softmax(-cdist(rows, prototypes[known], "sqeuclidean"), axis=1)
    assert found[:, known] == pytest.approx(expected, abs=1e-12)
    assert not found[:, 3].any()


def test_class_means_see_every_row_without_dropout() -> None:
    method = FedProto(rounds=1, embedding=16)
    site = begun(method, table_sites()[1:2])[0]
    net = method.net(site).train()
    means, labels = class_means(net, (*tensors(site.train.X), torch.from_numpy(site.train.y)), 3)
    assert labels.tolist() == [0, 1]
    own = local_means(method, site)
    assert means == pytest.approx(np.stack([own[0], own[1]]), abs=1e-5)


def tiny_net(weight: NDArray[Any], head: NDArray[Any], bias: NDArray[Any]) -> Net:
    """h = x a, logits = h W' + b."""
    net = Net(nn.Sequential(nn.Linear(1, 2, bias=False), nn.Linear(2, 2)), None, seed=0).double()
    with torch.no_grad():
        net.backbone[0].weight[:, 0] = torch.from_numpy(weight)  # type: ignore[index,union-attr]
        net.head.weight[:] = torch.from_numpy(head)
        net.head.bias[:] = torch.from_numpy(bias)
    return net


def test_fedproto_takes_the_step_of_its_loss() -> None:
    """Rows of class 0 are pulled to its prototype, those of class 1, which has none, are not."""
    x, y, lam, lr = np.array([[0.5], [-1.0], [2.0]]), np.array([0, 1, 0]), 3.0, 0.1
    a, head, bias = np.array([0.4, -0.6]), np.array([[0.3, 0.1], [-0.2, 0.5]]), np.array([0.1, -0.1])
    prototypes = np.array([[1.0, -1.0], [np.nan, np.nan]])
    h = x * a
    p = softmax(h @ head.T + bias, axis=1)
    outer = (p - np.eye(2)[y]) / 3
    apart = np.where((y == 0)[:, None], h - prototypes[0], 0.0)
    h_grad = outer @ head + lam * 2 * apart / (3 * 2)
    net = tiny_net(a, head, bias)
    loss = pulled_loss(torch.from_numpy(prototypes), lam)(net, (torch.from_numpy(x), torch.from_numpy(y)))
    expected = -np.log(p[np.arange(3), y]).mean() + lam * (apart**2).mean(axis=1).mean()
    assert loss.item() == pytest.approx(expected, rel=1e-9)
    loss.backward()  # type: ignore[no-untyped-call]
    SGD(net.parameters(), lr).step()
    assert net.backbone[0].weight.detach().numpy()[:, 0] == pytest.approx(  # type: ignore[index,union-attr]
        a - lr * (h_grad * x).sum(axis=0), abs=1e-6
    )
    assert net.head.weight.detach().numpy() == pytest.approx(head - lr * outer.T @ h, abs=1e-6)


def test_a_stronger_pull_brings_rows_nearer_to_their_prototypes() -> None:
    distances = []
    for lam in (0.0, 1.0, 10.0):
        method = FedProto(lam=lam, rounds=3, lr=0.05)
        sites = begun(method, image_sites(rows=60))
        for number in range(3):
            heard, _ = method.combine(shared(method, sites, number), {}, RNG(0))
            for site in sites:
                method.absorb(site, number, heard)
        means = [local_means(method, site) for site in sites]
        prototypes = sites[0].state["prototypes"]
        distances.append(np.mean([((mean - prototypes[c]) ** 2).mean() for own in means for c, mean in own.items()]))
    assert distances[0] > distances[1] > distances[2]


def test_the_margin_is_the_largest_gap_to_a_nearest_class_up_to_the_threshold() -> None:
    inbox = {"a": sent([[0, 0], [1, 3]], [0, 1]), "b": sent([[2, 0], [1, 10]], [0, 2])}
    means = sent_means(inbox)
    # class centres (1, 0), (1, 3), (1, 10): gaps 3, 3 and 7
    assert adaptive_margin(means, 100.0) == pytest.approx(7.0)
    assert adaptive_margin(means, 5.0) == 5.0
    assert adaptive_margin(sent_means({"a": sent([[1, 1]], [4])}), 100.0) == 0.0


class Fixed(nn.Module):
    def __init__(self, prototypes: NDArray[Any]) -> None:
        super().__init__()
        self.prototypes = nn.Parameter(torch.tensor(prototypes))

    def forward(self) -> Tensor:
        return self.prototypes


def test_fedtgp_takes_the_step_of_its_loss() -> None:
    means, labels, margin, lr = RNG(0).normal(size=(5, 3)), np.array([0, 1, 1, 2, 0]), 1.7, 0.2
    prototypes = RNG(1).normal(size=(3, 3))
    distances, hot = cdist(means, prototypes), np.eye(3)[labels]
    scores = -(distances + margin * hot)
    # d loss / d distance = (own - softmax) / n, d distance / d P = (P - m) / distance
    outer = (hot - softmax(scores, axis=1)) / 5
    grad = ((outer / distances)[:, :, None] * (prototypes[None] - means[:, None])).sum(axis=0)
    net = Fixed(prototypes)
    loss = margin_loss(margin)(net, (torch.from_numpy(means), torch.from_numpy(labels)))
    assert loss.item() == pytest.approx(-log_softmax(scores, axis=1)[np.arange(5), labels].mean(), rel=1e-9)
    loss.backward()  # type: ignore[no-untyped-call]
    SGD(net.parameters(), lr).step()
    assert net.prototypes.detach().numpy() == pytest.approx(prototypes - lr * grad, abs=1e-6)


def test_fedtgp_goes_on_from_the_hubs_memory_and_knows_a_new_class_beside_the_old_ones() -> None:
    method = FedTGP(embedding=2, server_epochs=20, lr=0.1)
    first = {"a": sent([[0, 0], [4, 4]], [0, 5]), "b": sent([[1, 0]], [0])}
    heard, memory = method.combine(first, {}, RNG(0))
    assert heard["labels"].tolist() == [0, 5]
    again, _ = method.combine(first, {}, RNG(0))
    assert heard == again
    kept = unpack(*pack(memory))
    later, memory = method.combine({"b": sent([[1, 0], [-4, 4]], [0, 3])}, kept, RNG(1))
    assert later["labels"].tolist() == [0, 3, 5]
    same, _ = method.combine({"b": sent([[1, 0], [-4, 4]], [0, 3])}, kept, RNG(1))
    fresh, _ = method.combine({"b": sent([[1, 0], [-4, 4]], [0, 3])}, {}, RNG(1))
    assert later == same
    assert fresh["labels"].tolist() == [0, 3]


def test_fedtgps_prototypes_come_to_lie_next_to_their_own_class() -> None:
    method = FedTGP(embedding=4, lr=0.1, server_epochs=100)
    centres = 3 * np.eye(4)[:3]
    means = (centres[None] + RNG(0).normal(scale=0.2, size=(6, 3, 4))).astype(np.float32)
    inbox = {f"site-{place}": Parcel(means=mean, labels=np.arange(3)) for place, mean in enumerate(means)}
    memory: dict[str, Any] = {}
    for number in range(3):
        heard, memory = method.combine(inbox, memory, RNG(number))
    assert np.array_equal(cdist(centres, heard["prototypes"]).argmin(axis=1), [0, 1, 2])


def test_fedghs_head_takes_one_step_of_gradient_on_the_class_means() -> None:
    weight, bias = np.array([[0.3, 0.1], [-0.2, 0.5], [0.0, 0.2]]), np.array([0.1, -0.1, 0.0])
    means, labels, lr = np.array([[1.0, 2.0], [-1.0, 0.5], [0.3, 0.3], [2.0, -1.0]]), np.array([0, 2, 2, 1]), 0.5
    outer = (softmax(means @ weight.T + bias, axis=1) - np.eye(3)[labels]) / 4
    head = {"head.weight": weight.astype(np.float32), "head.bias": bias.astype(np.float32)}
    found = trained_head(head, SentMeans(means.astype(np.float32), labels), lr, 32, 0)
    assert found["head.weight"] == pytest.approx(weight - lr * outer.T @ means, abs=1e-6)
    assert found["head.bias"] == pytest.approx(bias - lr * outer.sum(axis=0), abs=1e-6)


def test_fedgh_gives_all_sites_the_hubs_head_and_keeps_backbones_at_home() -> None:
    method = FedGH(embedding=24, rounds=2)
    sites = begun(method, image_sites())
    start = {name: value for name, value in sites[0].state["net"].items() if name.startswith("head.")}
    inbox = shared(method, sites)
    own = [dict(site.state["net"]) for site in sites]
    heard, memory = method.combine(inbox, {}, RNG(3))
    expected = trained_head(start, sent_means(inbox), 0.01, 32, int(RNG(3).integers(2**31)))
    for name, value in heard["head"].items():
        assert value == pytest.approx(expected[name], abs=1e-6)
    for site, before in zip(sites, own, strict=True):
        method.absorb(site, 0, heard)
        for name, value in site.state["net"].items():
            assert np.array_equal(value, heard["head"][name] if name.startswith("head.") else before[name])
    assert all(np.array_equal(memory["head"][name], heard["head"][name]) for name in heard["head"])


def test_parcels_weigh_what_the_present_classes_cost() -> None:
    """The first time FedGH also sends the head, because the hub has none to start from."""
    for make in METHODS:
        method = make(rounds=2)
        sites = begun(method, image_sites())
        first = shared(method, sites)
        assert ("head" in first["site-2"]) == isinstance(method, FedGH)
        heard, _ = method.combine(first, {}, RNG(0))
        for site in sites:
            method.absorb(site, 0, heard)
        parcel = method.share(sites[2], 1)
        assert set(parcel) == {"means", "labels"}
        assert parcel["means"].shape == (7, 128)
        assert parcel["means"].dtype == np.float32
        assert parcel["labels"].tolist() == list(range(7))


@pytest.mark.parametrize(
    "bad",
    [
        sent([[1, float("nan")]], [0]),
        sent([[1, 2]], [-1]),
        sent([[1, 2], [1, 2]], [1, 1]),
        sent([[1, 2]], [0, 1]),
        sent([[1, 2, 3]], [0]),
        Parcel(means=np.zeros((0, 2), np.float32), labels=np.zeros(0, np.int64)),
        Parcel(means="none", labels=3),
        Parcel(labels=np.array([0])),
    ],
    ids=["not finite", "negative", "twice", "lengths", "width", "empty", "text", "nothing"],
)
def test_a_sender_of_bad_means_is_left_out_and_named(bad: Parcel) -> None:
    good = {"a": sent([[0, 2]], [0]), "c": sent([[2, 2]], [0])}
    heard, _ = combine(FedProto(embedding=2), 0, {**good, "b": bad}, {}, 0)
    assert list(heard.left_out) == ["b"]
    assert heard.content["prototypes"].tolist() == [[1, 2]]
    with pytest.raises(ParcelError, match="none of the parcels of 1 sites can be used"):
        combine(FedProto(embedding=2), 0, {"b": bad}, {}, 0)


def test_values_that_make_no_sense_are_refused() -> None:
    for make, message in (
        (lambda: FedProto(lam=-1.0), "lam is -1.0"),
        (lambda: FedProto(lam=float("nan")), "lam is nan"),
        (lambda: FedProto(embedding=0), "embedding is 0"),
        (lambda: FedTGP(server_epochs=0), "server_epochs is 0"),
        (lambda: FedTGP(threshold=-1.0), "threshold is -1.0"),
        (lambda: FedGH(server_lr=0.0), "server_lr is 0.0"),
    ):
        with pytest.raises(ConfigError, match=message):
            make()
