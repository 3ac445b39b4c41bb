"""FedAvg's kin with one common net: special cases that must agree, and every update against the formula by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_nets import TwoWeights, begun, distance, furthest, images, play, rows, said, same, slope, tables, uphill

from peerwise.errors import ConfigError, ParcelError
from peerwise.federation import combine
from peerwise.methods.fedavg import FedAvg
from peerwise.methods.fedbn import FedBN
from peerwise.methods.feddyn import FedDyn
from peerwise.methods.fedgf import FedGF, common_step
from peerwise.methods.fedprox import FedProx
from peerwise.methods.fedsam import FedSAM
from peerwise.methods.mofedsam import MoFedSAM, momentum_step
from peerwise.methods.moon import Moon, contrast
from peerwise.methods.moves import ByMoves
from peerwise.methods.scaffold import Scaffold
from peerwise.methods.steps import gradient, gradient_at, pulled_step, sharp_gradient
from peerwise.models.nets import batch_norm_names, net_parameters
from peerwise.models.sgd import SGD
from peerwise.models.training import steps_an_epoch, train
from peerwise.parcels import Parcel

LR = 0.1
BY_WEIGHTS: list[type[FedAvg]] = [FedAvg, FedProx, FedBN, Moon, FedSAM]
BY_MOVES: list[type[ByMoves]] = [FedDyn, MoFedSAM, FedGF, Scaffold]


def test_one_local_step_of_fedavg_is_one_step_on_the_pooled_rows() -> None:
    method = FedAvg(rounds=1, batch_size=64, lr=LR)
    sites = begun(method, images())
    pooled = method.net(sites[0])
    X = np.concatenate([site.train.X for site in sites])
    y = np.concatenate([site.train.y for site in sites])
    torch.nn.functional.cross_entropy(pooled(torch.from_numpy(X)), torch.from_numpy(y)).backward()
    expected = {name: (p - LR * p.grad).detach().numpy() for name, p in pooled.named_parameters()}
    play(method, sites)
    for site in sites:
        assert furthest({name: site.state["net"][name] for name in expected}, expected) < 1e-6


def test_sites_drift_apart_with_more_local_steps() -> None:
    apart = []
    for epochs in (1, 3, 9):
        one, two, _ = (
            parcel["weights"] for parcel in said_by(FedAvg(local_epochs=epochs, batch_size=4), images()).values()
        )
        apart.append(distance(one, two))
    assert 0 < apart[0] < apart[1] < apart[2]


def said_by(method: FedAvg, sites: list[Any]) -> dict[str, Parcel]:
    return said(method, begun(method, sites))


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("off", [FedProx(mu=0), FedSAM(rho=0), FedBN()], ids=lambda method: method.called)
def test_switched_off_they_are_fedavg(off: FedAvg, optimizer: Any) -> None:
    off.optimizer = optimizer
    assert same(play(off, tables(), 2)[0], play(FedAvg(optimizer=optimizer), tables(), 2)[0])


SIMPLER = {FedProx: FedAvg, Moon: FedAvg, FedSAM: FedAvg, FedDyn: FedAvg, Scaffold: FedAvg}


@pytest.mark.parametrize(("kind", "simpler"), [*SIMPLER.items(), (MoFedSAM, FedSAM)])
def test_defaults_do_not_switch_a_method_off(kind: type[FedAvg], simpler: type[FedAvg]) -> None:
    found, plain = (play(each(lr=LR, local_epochs=2), tables(), 3)[0] for each in (kind, simpler))
    assert all(distance(a.state["net"], b.state["net"]) > 1e-5 for a, b in zip(found, plain, strict=True))


def test_fedprox_holds_sites_nearer_the_stronger_it_is() -> None:
    gone = []
    for mu in (0.0, 1.0, 10.0):
        method = FedProx(mu=mu, local_epochs=5, batch_size=4)
        sites = begun(method, images((12,)))
        before = net_parameters(method.net(sites[0]))
        gone.append(distance(said(method, sites)["site 0"]["weights"], before))
    assert gone[0] > gone[1] > gone[2] > 0


def test_fedbn_keeps_every_batch_norm_parameter_at_home() -> None:
    method = FedBN(lr=LR)
    sites = begun(method, images((4, 5), "mobilenet_v2"))
    net = method.net(sites[0])
    own, every = batch_norm_names(net), set(net_parameters(net))
    assert own
    assert not any("bn" in name for name in own)
    parcels = said(method, sites)
    trained = [dict(site.state["net"]) for site in sites]
    told, _ = method.combine(parcels, {}, np.random.default_rng(0))
    assert set(told["weights"]) == set(parcels["site 0"]["weights"]) == every - own
    for site, before in zip(sites, trained, strict=True):
        method.absorb(site, 0, told)
        assert all(np.array_equal(site.state["net"][name], before[name]) for name in own)
        assert all(np.array_equal(site.state["net"][name], told["weights"][name]) for name in every - own)
    assert any(not np.array_equal(trained[0][name], trained[1][name]) for name in own)


def test_first_rounds_without_memory() -> None:
    fedavg, fedsam = play(FedAvg(), tables())[0], play(FedSAM(), tables())[0]
    for method, expected in ((Scaffold(), fedavg), (MoFedSAM(), fedsam), (FedGF(), fedsam), (Moon(), fedavg)):
        for site, reference in zip(play(method, tables())[0], expected, strict=True):
            assert furthest(site.state["net"], reference.state["net"]) < 1e-6, method.called


def test_feddyn_goes_twice_as_far_in_its_first_round_without_a_pull() -> None:
    weak = FedDyn(alpha=1e-6, lr=LR)
    start = dict(begun(weak, tables())[0].state["start"])
    found, plain = play(weak, tables())[0][0].state["net"], play(FedAvg(lr=LR), tables())[0][0].state["net"]
    for name, before in start.items():
        assert np.allclose(found[name] - before, 2 * (plain[name] - before), atol=1e-6)


def stepped(make: Any) -> np.ndarray[Any, Any]:
    """Where the update that `make(net, optimizer)` makes leads from (0.3, -0.8)."""
    net = TwoWeights(0.3, -0.8)
    make(net, SGD(net.parameters(), LR))(rows())
    return net.now


W = np.array([0.3, -0.8])
TOWARDS, PUSH = np.array([1.0, 2.0]), np.array([-0.4, 0.1])


def tensors(*values: Any) -> list[torch.Tensor]:
    return [torch.tensor(value) for value in values]


def test_pulled_step_by_hand() -> None:
    found = stepped(lambda net, sgd: pulled_step(net, sgd, towards=tensors(TOWARDS), strength=0.7, push=tensors(PUSH)))
    assert found == pytest.approx(W - LR * (slope(W) + 0.7 * (W - TOWARDS) + PUSH), abs=1e-9)


def test_momentum_step_by_hand() -> None:
    plain = stepped(lambda net, sgd: momentum_step(net, sgd, 0.3, 0.2, None))
    assert plain == pytest.approx(W - LR * slope(uphill(W, 0.3)), abs=1e-9)
    going = stepped(lambda net, sgd: momentum_step(net, sgd, 0.3, 0.2, tensors(PUSH)))
    assert going == pytest.approx(W - LR * (0.2 * slope(uphill(W, 0.3)) + 0.8 * PUSH), abs=1e-9)


def test_step_between_own_and_common_flatness_by_hand() -> None:
    found = stepped(lambda net, sgd: common_step(net, sgd, 0.3, tensors(TOWARDS), 0.25))
    assert found == pytest.approx(W - LR * slope(0.25 * TOWARDS + 0.75 * uphill(W, 0.3)), abs=1e-9)


def test_sharp_gradient_leaves_the_weights_and_survives_a_flat_place() -> None:
    net = TwoWeights(0.3, -0.8)
    assert sharp_gradient(net, rows(), 0.3)[1][0].numpy() == pytest.approx(slope(uphill(W, 0.3)), abs=1e-9)
    assert (net.now == W).all()
    flat = rows(np.zeros(2), np.array([0, 1]))
    assert (sharp_gradient(net, flat, 0.3)[1][0] == 0).all()


def with_batch_norm() -> tuple[torch.nn.Sequential, Any]:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout(), torch.nn.Linear(3, 2))
    return net.train(), (torch.randn(4, 2), torch.tensor([0, 1, 0, 1]))


def test_a_look_elsewhere_is_not_remembered_by_batch_norm() -> None:
    net, batch = with_batch_norm()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    gradient_at(net, batch, [value + 1 for value in net.parameters()])
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    net(batch[0])
    assert not torch.equal(net[1].running_mean, before["1.running_mean"])  # it records again


def test_without_radius_the_sharp_gradient_is_the_gradient_with_batch_norm_and_dropout_too() -> None:
    (plain, batch), (sharp, _) = with_batch_norm(), with_batch_norm()
    torch.manual_seed(3)
    expected = gradient(plain, batch)
    torch.manual_seed(3)
    found = sharp_gradient(sharp, batch, 0.0)
    assert found[0] == expected[0]
    assert all(torch.equal(a, b) for a, b in zip(found[1], expected[1], strict=True))
    assert all(torch.equal(value, plain.state_dict()[name]) for name, value in sharp.state_dict().items())


def test_contrast_by_hand() -> None:
    z, near, away = (np.random.default_rng(place).normal(size=(4, 3)) for place in range(3))

    def cosine(a: Any, b: Any) -> Any:
        return (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)

    close, far = np.exp(cosine(z, near) / 0.5), np.exp(cosine(z, away) / 0.5)
    found = contrast(*(torch.tensor(values) for values in (z, near, away)), 0.5)
    assert found.item() == pytest.approx(-np.log(close / (close + far)).mean(), abs=1e-9)


def test_scaffold_controls_follow_the_paper_over_two_rounds() -> None:
    method = Scaffold(lr=LR, batch_size=5, local_epochs=2)
    sites = begun(method, images((12, 12)))
    start = dict(sites[0].state["start"])
    parcels = said(method, sites)
    told, memory = method.combine(parcels, {}, np.random.default_rng(0))
    steps = 2 * 3
    for site in sites:
        moved = parcels[site.name]["moves"]
        for name in start:
            assert np.allclose(site.state["control"][name], -moved[name] / (steps * LR), atol=1e-6)
        method.absorb(site, 0, told)
    for name in start:
        mean = np.mean([site.state["control"][name] for site in sites], axis=0)
        assert np.allclose(sites[0].state["common control"][name], mean, atol=1e-6)
    before = {name: dict(site.state["control"]) for name, site in zip(parcels, sites, strict=True)}
    second = said(method, sites, 1)
    for site in sites:
        common, moved = site.state["common control"], second[site.name]["moves"]
        for name in start:
            expected = before[site.name][name] - common[name] - moved[name] / (steps * LR)
            assert np.allclose(site.state["control"][name], expected, atol=1e-5)
    assert memory["sites"] == {"site 0": 12, "site 1": 12}


def test_scaffold_step_goes_along_the_gradient_less_the_own_control_plus_the_common_one() -> None:
    method = Scaffold(lr=LR, batch_size=64)
    site = play(method, images((12, 20)))[0][0]
    net, own, common = method.net(site), dict(site.state["control"]), site.state["common control"]
    assert distance(own, common) > 1e-3
    torch.nn.functional.cross_entropy(net(torch.from_numpy(site.train.X)), torch.from_numpy(site.train.y)).backward()
    moved = method.share(site, 1)["moves"]
    for name, parameter in net.named_parameters():
        assert np.allclose(moved[name], -LR * (parameter.grad.numpy() - own[name] + common[name]), atol=1e-6)


@given(st.integers(1, 80), st.integers(1, 40), st.integers(1, 3))
def test_steps_are_counted_as_the_loop_takes_them(number: int, batch_size: int, epochs: int) -> None:
    taken = []
    net = torch.nn.Linear(1, 2)
    data = torch.zeros(number, 1), torch.zeros(number, dtype=torch.int64)
    train(
        net, data, update=lambda batch: float(taken.append(1) or 0), epochs=epochs, batch_size=batch_size, patience=None
    )
    assert len(taken) == epochs * steps_an_epoch(number, batch_size)


@pytest.mark.parametrize("kind", [*BY_WEIGHTS, *BY_MOVES])
def test_nothing_is_sent_but_what_the_docstring_says(kind: type[FedAvg]) -> None:
    method = kind()
    sites = begun(method, tables())
    shapes = {name: array.shape for name, array in net_parameters(method.net(sites[0])).items()}
    item = "moves" if issubclass(kind, ByMoves) else "weights"
    expected = dict(shapes)
    if kind is Scaffold:
        expected |= {f"control of {name}": shape for name, shape in shapes.items()}
    parcels = said(method, sites)
    for site in sites:
        parcel = parcels[site.name]
        assert set(parcel) == {item, "rows"}
        assert {name: array.shape for name, array in parcel[item].items()} == expected
        assert parcel["rows"] == len(site.train)
    told, _ = method.combine(parcels, {}, np.random.default_rng(0))
    extra = {Scaffold: {"control"}, MoFedSAM: {"move"}, FedGF: {"move", "part"}}.get(kind, set())
    assert set(told) == {"total" if item == "moves" else "weights"} | extra


@pytest.mark.parametrize("kind", [*BY_WEIGHTS, *BY_MOVES])
def test_who_joins_late_has_the_common_weights_and_goes_on(kind: type[FedAvg]) -> None:
    method = kind()
    *early, late = begun(method, images((12, 12, 12)))
    memory: dict[str, Any] = {}
    for round in range(3):
        here = early if round < 2 else [*early, late]
        told, memory = method.combine(said(method, here, round), memory, np.random.default_rng(round))
        for site in early if round < 1 else [*early, late]:
            method.absorb(site, round, told)
        if round > 0:
            assert same([late], [early[0]])


@pytest.mark.parametrize("kind", [*BY_WEIGHTS, *BY_MOVES])
def test_a_sender_of_nonsense_is_left_out_and_named(kind: type[FedAvg]) -> None:
    method = kind()
    sites = begun(method, tables())
    parcels = said(method, sites)
    item = "moves" if issubclass(kind, ByMoves) else "weights"
    broken = {name: np.full_like(array, np.nan) for name, array in parcels["full"][item].items()}
    broadcast, memory = combine(method, 0, {**parcels, "full": Parcel(**{item: broken, "rows": 5})}, {}, 0)
    told = broadcast.content
    without = combine(method, 0, {n: p for n, p in parcels.items() if n != "full"}, {}, 0)[0].content
    assert list(broadcast.left_out) == ["full"]
    key = "total" if item == "moves" else "weights"
    assert all(np.array_equal(told[key][name], without[key][name]) for name in without[key])
    assert "full" not in memory.get("sites", [])


def test_another_net_is_refused() -> None:
    site = begun(FedDyn(), tables())[0]
    with pytest.raises(ParcelError, match="expected the same net"):
        FedDyn().absorb(site, 0, Parcel(total={"w": np.zeros(1, np.float32)}))


@pytest.mark.parametrize(
    ("kind", "values", "said"),
    [
        (FedProx, {"mu": -1}, "mu is -1: expected a finite number from 0 up"),
        (FedProx, {"mu": float("nan")}, "mu is nan"),
        (Moon, {"tau": 0}, "tau is 0"),
        (Moon, {"mu": -0.1}, "mu is -0.1"),
        (FedDyn, {"alpha": 0}, "alpha is 0"),
        (FedSAM, {"rho": -0.1}, "rho is -0.1"),
        (MoFedSAM, {"beta": 1.5}, "beta is 1.5: expected a finite number from 0.001 to 1"),
        (FedGF, {"threshold": -1}, "threshold is -1"),
        (FedGF, {"window": 0}, "window is 0"),
        (Scaffold, {"optimizer": "adam"}, "optimizer is 'adam'.*Use 'sgd'"),
    ],
)
def test_values_out_of_range_are_refused_at_once(kind: Any, values: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        kind(**values)
