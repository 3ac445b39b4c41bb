"""FML, FedKD and LG-FedAvg: what travels, what stays, and each step against the formula worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from net_federations import image_sites, series_sites, table_sites
from numpy.typing import NDArray
from torch import Tensor, nn

from peerwise.data import Site
from peerwise.errors import ConfigError, DataError
from peerwise.federation import Session, answer, combine
from peerwise.methods.by_rounds import ByRounds
from peerwise.methods.fedgh import FedGH
from peerwise.methods.fedkd import FedKD, distil_step
from peerwise.methods.fedproto import FedProto
from peerwise.methods.fedtgp import FedTGP
from peerwise.methods.fml import FML, mutual_step
from peerwise.methods.lgfedavg import LGFedAvg
from peerwise.methods.local_rounds import LocalRounds
from peerwise.methods.low_rank import compressed, in_shape_of, kept_rank, rebuilt, truncated
from peerwise.models.sgd import SGD
from peerwise.parcels import Parcel
from peerwise.run import run_method

RNG = np.random.default_rng
METHODS: list[Callable[..., ByRounds]] = [FML, FedKD, LGFedAvg]


def softmax(logits: NDArray[Any]) -> NDArray[Any]:
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def begun(method: ByRounds, sites: list[Site]) -> list[Site]:
    for site in sites:
        Session(method, site)
    return sites


def shared(method: ByRounds, sites: list[Site], round: int = 0) -> dict[str, Parcel]:
    return {site.name: method.share(site, round) for site in sites}


class TwoWeights(nn.Module):
    """logits = [w1 x, w2 x]."""

    def __init__(self, w: list[float]) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor(w, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.w


X = np.array([[0.5], [-1.0], [2.0]])
Y = np.array([0, 1, 1])
BATCH = (torch.from_numpy(X), torch.from_numpy(Y))
HOT = np.eye(2)[Y]


@pytest.mark.parametrize("scale", [1.0, 200.0])
def test_fml_takes_the_step_of_its_two_losses(scale: float) -> None:
    """Each net's gradient is that of its own loss, with the other's answers as given, and at most 10 long."""
    w, v, alpha, beta, lr, x = np.array([0.3, -0.2]), np.array([-0.1, 0.4]), 0.7, 0.4, 0.1, X * scale
    p, q = softmax(x * w), softmax(x * v)
    w_grad = ((alpha * (p - HOT) + (1 - alpha) * (p - q)) * x).mean(axis=0)
    v_grad = ((beta * (q - HOT) + (1 - beta) * (q - p)) * x).mean(axis=0)
    assert (max(np.linalg.norm(w_grad), np.linalg.norm(v_grad)) > 10) == (scale > 1)
    shorter = [min(1.0, 10 / np.linalg.norm(grad)) for grad in (w_grad, v_grad)]
    net, student = TwoWeights(w.tolist()), TwoWeights(v.tolist())
    batch = (torch.from_numpy(x), BATCH[1])
    loss = mutual_step(net, student, SGD([*net.parameters(), *student.parameters()], lr), batch, alpha, beta)
    entropy = -np.log(p[np.arange(3), Y]).mean()
    assert loss == pytest.approx(alpha * entropy + (1 - alpha) * (q * np.log(q / p)).sum(axis=1).mean(), rel=1e-9)
    assert net.w.detach().numpy() == pytest.approx(w - lr * w_grad * shorter[0], abs=1e-6)
    assert student.w.detach().numpy() == pytest.approx(v - lr * v_grad * shorter[1], abs=1e-6)


class Tiny(nn.Module):
    """h = e x, logits = [w1 h, w2 h]."""

    def __init__(self, e: float, w: list[float]) -> None:
        super().__init__()
        self.e = nn.Parameter(torch.tensor(e, dtype=torch.float64))
        self.head = TwoWeights(w)

    def embed(self, x: Tensor) -> Tensor:
        return x * self.e


def test_fedkd_takes_the_step_of_its_two_losses() -> None:
    e, w, d, v, m, lr = 0.8, np.array([0.3, -0.2]), 0.5, np.array([-0.1, 0.4]), 1.5, 0.1
    h, g = X * e, X * d
    p, q = softmax(h * w), softmax(g * v)
    entropies = [-np.log(each[np.arange(3), Y]).mean() for each in (p, q)]
    weight = 1 / sum(entropies)
    p_grad, q_grad = (p - HOT) + weight * (p - q), (q - HOT) + weight * (q - p)
    apart = h - m * g
    expected = {
        "w": w - lr * (p_grad * h).mean(axis=0),
        "e": e - lr * (((p_grad @ w)[:, None] + weight * 2 * apart) * X).mean(),
        "v": v - lr * (q_grad * g).mean(axis=0),
        "d": d - lr * (((q_grad @ v)[:, None] - weight * 2 * m * apart) * X).mean(),
        "m": m - lr * (-weight * 2 * apart * g).mean(),
    }
    net, student, between = Tiny(e, w.tolist()), Tiny(d, v.tolist()), nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(between.weight, m)
    parameters = [*net.parameters(), *student.parameters(), *between.parameters()]
    loss = distil_step(net, student, between, SGD(parameters, lr), BATCH)  # type: ignore[arg-type]
    apart_loss = (apart**2).mean()
    assert loss == pytest.approx(
        entropies[0] + weight * ((q * np.log(q / p)).sum(axis=1).mean() + apart_loss), rel=1e-9
    )
    found = {"w": net.head.w, "e": net.e, "v": student.head.w, "d": student.e, "m": between.weight}
    for name, value in found.items():
        assert value.detach().numpy() == pytest.approx(expected[name], abs=1e-6), name


def test_fedkd_does_not_divide_by_zero_where_nothing_is_left_to_learn() -> None:
    net, student, between = Tiny(1.0, [900.0, -900.0]), Tiny(1.0, [900.0, -900.0]), nn.Linear(1, 1).double()
    parameters = [*net.parameters(), *student.parameters()]
    batch = (torch.ones(2, 1, dtype=torch.float64), torch.zeros(2, dtype=torch.int64))
    assert np.isfinite(distil_step(net, student, between, SGD(parameters, 0.1), batch))  # type: ignore[arg-type]
    assert all(torch.isfinite(parameter).all() for parameter in parameters)


matrices = arrays(
    np.float64,
    st.tuples(st.integers(1, 7), st.integers(1, 7)),
    elements=st.floats(-1e3, 1e3, allow_subnormal=False).map(lambda value: round(value, 3)),
)


@settings(deadline=None, max_examples=100)
@given(matrices, st.floats(0.01, 1.0))
def test_truncation_keeps_the_stated_energy_with_the_fewest_values_and_never_none(
    matrix: NDArray[np.float64], energy: float
) -> None:
    left, right = truncated(matrix, energy)
    rank, total = left.shape[1], (matrix**2).sum()
    assert 1 <= rank <= min(matrix.shape)
    assert right.shape == (rank, matrix.shape[1])
    missed = ((matrix - left.astype(np.float64) @ right.astype(np.float64)) ** 2).sum()
    assert missed <= (1 - energy) * total + 1e-5 * total + 1e-12
    squares = np.linalg.svd(matrix, compute_uv=False) ** 2
    if rank > 1:
        assert squares[: rank - 1].sum() < energy * total * (1 + 1e-9)


@pytest.mark.parametrize(
    ("values", "energy", "rank"),
    [([3, 1], 0.9, 1), ([3, 1], 0.901, 2), ([1, 1, 1], 1.0, 3), ([0, 0], 0.95, 1), ([5], 0.1, 1), ([2, 0, 0], 1.0, 1)],
)
def test_the_rank_by_hand(values: list[float], energy: float, rank: int) -> None:
    assert kept_rank(np.array(values, dtype=float), energy) == rank


def test_compressed_weights_come_back_in_shape_and_cost_less() -> None:
    low = RNG(0).normal(size=(12, 1)) @ RNG(1).normal(size=(1, 20))
    weights = {
        "conv": low.reshape(12, 5, 2, 2).astype(np.float32),
        "noise": RNG(2).normal(size=(3, 4)).astype(np.float32),
        "bias": np.arange(4, dtype=np.float32),
    }
    packed = compressed(weights, 0.99)
    assert packed["conv"]["left"].shape == (12, 1)
    assert packed["conv"]["right"].shape == (1, 20)
    back = in_shape_of(weights, rebuilt(packed))
    assert back["conv"] == pytest.approx(weights["conv"], abs=1e-5)
    # Factors that would be larger than the matrix are not sent, so nothing is lost there.
    assert np.array_equal(back["noise"], weights["noise"])
    assert np.array_equal(back["bias"], weights["bias"])
    zero = in_shape_of({"z": np.zeros((4, 3))}, rebuilt(compressed({"z": np.zeros((4, 3))}, 0.95)))
    assert not zero["z"].any()


def test_fedkd_sends_and_hears_less_than_the_student_weighs() -> None:
    method, plain = FedKD(rounds=3), FML(rounds=3)
    sites = begun(method, image_sites())
    inbox = shared(method, sites)
    whole = plain.share(begun(plain, image_sites())[0], 0).nbytes
    broadcast, memory = combine(method, 0, inbox, {}, 0)
    heard = broadcast.content
    assert max(parcel.nbytes for parcel in inbox.values()) < whole
    assert heard.nbytes < whole
    values = sum(
        sum(part.size for part in item.values()) if isinstance(item, dict) else item.size
        for item in inbox["site-0"]["weights"].values()
    )
    student = sum(
        value.size for name, value in sites[0].state["student"].items() if not name.startswith("backbone.pool")
    )
    assert values < student
    for site in sites:
        method.absorb(site, 0, heard)
    first = sites[0].state["student"]
    assert all(np.array_equal(site.state["student"][name], first[name]) for site in sites for name in first)
    assert memory == {"round": 1}


def test_fedkd_keeps_more_energy_from_round_to_round() -> None:
    method = FedKD(rounds=4)
    assert [round(method.energy(number), 4) for number in range(4)] == [0.95, 0.96, 0.97, 0.98]
    assert FedKD(rounds=1).energy(0) == 0.95
    matrix = np.diag(np.sqrt(np.array([0.955, 0.015, 0.02, 0.01]))).repeat(8, axis=1)
    inbox = {"a": Parcel(weights={"w": matrix.astype(np.float32)})}
    memory: dict[str, Any] = {}
    ranks = []
    for _ in range(4):
        told, memory = combine(method, 0, inbox, memory, 0)
        ranks.append(told.content["weights"]["w"]["left"].shape[1])
    assert ranks == [1, 2, 2, 3]


def test_fedkd_goes_on_without_a_sender_of_bad_factors() -> None:
    method = FedKD(rounds=2)
    sites = begun(method, image_sites())
    inbox = shared(method, sites)
    good = combine(method, 0, {name: inbox[name] for name in ("site-0", "site-1")}, {}, 0)[0]
    name = next(name for name, item in inbox["site-2"]["weights"].items() if isinstance(item, dict))
    broken = {**inbox["site-2"]["weights"], name: {"left": np.ones((3, 2)), "right": np.ones((5, 3))}}
    heard = combine(method, 0, {**inbox, "site-2": Parcel(weights=broken)}, {}, 0)[0]
    assert list(heard.left_out) == ["site-2"]
    assert "(3, 2)" in heard.left_out["site-2"]
    assert heard.content == good.content


def test_fml_averages_students_alike_and_keeps_the_own_net_at_home() -> None:
    method = FML(rounds=2)
    sites = begun(method, image_sites())
    assert all(
        np.array_equal(site.state["student"][name], value)
        for site in sites
        for name, value in sites[0].state["student"].items()
    )
    inbox = shared(method, sites)
    own = [dict(site.state["net"]) for site in sites]
    heard, _ = method.combine(inbox, {}, RNG(0))
    for site, before in zip(sites, own, strict=True):
        method.absorb(site, 0, heard)
        assert all(np.array_equal(site.state["net"][name], before[name]) for name in before)
    for name, value in heard["weights"].items():
        expected = np.mean([parcel["weights"][name].astype(float) for parcel in inbox.values()], axis=0)
        assert value == pytest.approx(expected, abs=1e-6)
        assert np.array_equal(sites[1].state["student"][name], value)
    assert all(set(parcel) == {"weights"} for parcel in inbox.values())
    assert set(heard["weights"]) == set(sites[0].state["student"])


def test_fml_with_all_weight_on_labels_trains_the_own_net_as_if_alone() -> None:
    # cnn8 and cnn16 have no dropout, so both trainings draw the same chance
    together, alone = image_sites(("cnn16", "cnn8")), image_sites(("cnn16", "cnn8"))
    run_method(FML(alpha=1.0, rounds=2), together)
    run_method(LocalRounds(rounds=2), alone)
    for one, other in zip(together, alone, strict=True):
        for name, value in one.state["net"].items():
            assert value == pytest.approx(other.state["net"][name], abs=1e-6)


def test_lgfedavg_shares_heads_and_keeps_backbones_bit_for_bit() -> None:
    method = LGFedAvg(embedding=32, rounds=2)
    sites = begun(method, image_sites(rows=30))
    sites[0] = sites[0].replace(train=sites[0].train.take(slice(0, 10)))
    inbox = shared(method, sites)
    before = [dict(site.state["net"]) for site in sites]
    heard, _ = method.combine(inbox, {}, RNG(0))
    for site, own in zip(sites, before, strict=True):
        method.absorb(site, 0, heard)
        for name, value in site.state["net"].items():
            assert np.array_equal(value, heard["weights"][name] if name.startswith("head.") else own[name])
    for parcel in inbox.values():
        assert set(parcel) == {"weights", "rows"}
        shapes = {name: value.shape for name, value in parcel["weights"].items()}
        assert shapes == {"head.weight": (10, 32), "head.bias": (10,)}
    rows = {"site-0": 10, "site-1": 30, "site-2": 30}
    expected = sum(rows[name] * inbox[name]["weights"]["head.bias"].astype(float) for name in rows) / 70
    assert heard["weights"]["head.bias"] == pytest.approx(expected, abs=1e-6)


def few_epochs(**budget: Any) -> FedTGP:
    return FedTGP(server_epochs=3, **budget)


@pytest.mark.parametrize("method", [*METHODS, FedProto, FedGH, few_epochs])
@pytest.mark.parametrize("sites", [image_sites, table_sites, series_sites])
def test_sites_with_different_nets_learn_together(
    method: Callable[..., ByRounds], sites: Callable[[], list[Site]]
) -> None:
    here, chosen = sites(), method(rounds=1)
    run_method(chosen, here)
    for site in here:
        found = answer(chosen, site, site.train.X)
        assert np.allclose(found.sum(axis=1), 1)


@pytest.mark.parametrize("method", [*METHODS, FedProto, FedGH, few_epochs])
def test_a_site_that_joins_late_hears_first_and_then_takes_part(method: Callable[..., ByRounds]) -> None:
    chosen = method(rounds=3)
    sites = begun(chosen, image_sites())
    heard, memory = combine(chosen, 0, shared(chosen, sites[:2]), {}, 0)
    for site in sites:
        chosen.absorb(site, 0, heard.content)
    heard, _ = combine(chosen, 1, shared(chosen, sites[1:], 1), memory, 0)
    assert not heard.left_out
    for site in sites:
        chosen.absorb(site, 1, heard.content)


def test_values_out_of_range_are_refused() -> None:
    for make, message in (
        (lambda: FML(alpha=1.2), "alpha is 1.2"),
        (lambda: FML(beta=-0.1), "beta is -0.1"),
        (lambda: FML(student="forest"), "'forest', no neural network"),
        (lambda: FML(student="cnn9"), "cnn9"),
        (lambda: FedKD(energy_start=0.0), "energy_start is 0.0"),
        (lambda: FedKD(energy_end=1.5), "energy_end is 1.5"),
        (lambda: LGFedAvg(embedding=0), "embedding is 0"),
    ):
        with pytest.raises(ConfigError, match=message):
            make()


def test_a_student_for_other_rows_is_refused_before_any_work() -> None:
    with pytest.raises(DataError, match="student 'mlp' takes table rows, site 'site-0' has image rows"):
        FML(student="mlp").check_sites(image_sites())
