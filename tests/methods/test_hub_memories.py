"""What the hub remembers from round to round, and what sites make of it: SCAFFOLD, FedDyn, FedGF, MoFedSAM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tiny_nets import begun, furthest, images, play, tables

from peerwise.methods.fedavg import FedAvg
from peerwise.methods.fedbn import FedBN
from peerwise.methods.feddyn import FedDyn
from peerwise.methods.fedgf import FedGF
from peerwise.methods.fedprox import FedProx
from peerwise.methods.fedsam import FedSAM
from peerwise.methods.mofedsam import MoFedSAM
from peerwise.methods.moon import Moon
from peerwise.methods.moves import ByMoves
from peerwise.methods.scaffold import Scaffold
from peerwise.models.nets import net_parameters
from peerwise.parcels import Parcel

LR = 0.1
BY_WEIGHTS: list[type[FedAvg]] = [FedAvg, FedProx, FedBN, Moon, FedSAM]
BY_MOVES: list[type[ByMoves]] = [FedDyn, MoFedSAM, FedGF, Scaffold]


def moves(value: float, control: float = 0.0, rows: int = 10) -> Parcel:
    arrays = {"w": np.array([value], np.float32), "control of w": np.array([control], np.float32)}
    return Parcel(moves=arrays, rows=rows)


def test_scaffold_hub_by_hand_with_a_site_away_and_a_late_one() -> None:
    hub, rng = Scaffold(), np.random.default_rng(0)
    told, memory = hub.combine({"a": moves(1, 2), "b": moves(3, 6)}, {}, rng)
    assert (told["total"]["w"], told["control"]["w"]) == (pytest.approx(2), pytest.approx(4))
    told, memory = hub.combine({"a": moves(1, 2)}, memory, rng)  # c += (1 / 2) 2
    assert (told["total"]["w"], told["control"]["w"]) == (pytest.approx(3), pytest.approx(5))
    told, memory = hub.combine({"c": moves(0, 8)}, memory, rng)  # controls are now 4, 6 and 8
    assert told["control"]["w"] == pytest.approx(6)
    assert set(told["total"]) == set(told["control"]) == {"w"}


def test_scaffold_hub_keeps_the_mean_of_the_controls_when_small_sites_are_often_alone() -> None:
    """Rows 990 and 10, controls 1 and -1: whoever is there, the common control is their mean by rows."""
    hub, rng = Scaffold(), np.random.default_rng(0)
    told, memory = hub.combine({"large": moves(0, 1, 990), "small": moves(0, -1, 10)}, {}, rng)
    for _ in range(3):
        told, memory = hub.combine({"small": moves(0, 2, 10)}, memory, rng)
        told, memory = hub.combine({"large": moves(0, 0, 990), "small": moves(0, -2, 10)}, memory, rng)
    assert told["control"]["w"] == pytest.approx(0.98)


def test_feddyn_hub_keeps_the_mean_of_the_slopes_when_small_sites_are_often_alone() -> None:
    hub, rng = FedDyn(alpha=0.5), np.random.default_rng(0)
    _, memory = hub.combine({"large": moves(0, rows=990), "small": moves(0, rows=10)}, {}, rng)
    for way in (4.0, -4.0, 2.0):
        _, memory = hub.combine({"small": moves(way, rows=10)}, memory, rng)
    assert memory["slope"]["w"] == pytest.approx(-0.5 * 2.0 * 0.01)


def test_means_weigh_sites_by_their_rows() -> None:
    for kind in (Scaffold, FedGF, MoFedSAM):
        told, _ = kind().combine({"a": moves(1, 1, 30), "b": moves(5, 5, 10)}, {}, np.random.default_rng(0))
        assert told["total"]["w"] == pytest.approx(2), kind


def test_feddyn_hub_by_hand() -> None:
    hub, rng = FedDyn(alpha=0.5), np.random.default_rng(0)
    told, memory = hub.combine({"a": moves(1), "b": moves(3)}, {}, rng)
    assert memory["slope"]["w"] == pytest.approx(-0.5 * 2)
    assert told["total"]["w"] == pytest.approx(2 + 2)
    told, memory = hub.combine({"a": moves(1)}, memory, rng)  # h = -1 - 0.5 * 1 / 2
    assert memory["slope"]["w"] == pytest.approx(-1.25)
    assert told["total"]["w"] == pytest.approx(4 + 1 + 2.5)


def test_feddyn_site_by_hand() -> None:
    method = FedDyn(alpha=0.5, lr=LR, batch_size=64)
    site = begun(method, images((12,)))[0]
    for round in range(2):
        before, slope_before = net_parameters(method.net(site)), dict(site.state["slope"])
        net = method.net(site)
        loss = torch.nn.functional.cross_entropy(net(torch.from_numpy(site.train.X)), torch.from_numpy(site.train.y))
        loss.backward()
        moved = method.share(site, round)["moves"]
        for name, parameter in net.named_parameters():
            assert np.allclose(moved[name], -LR * (parameter.grad.numpy() - slope_before[name]), atol=1e-6)
            assert np.allclose(site.state["slope"][name], slope_before[name] - 0.5 * moved[name], atol=1e-6)
        assert not np.array_equal(before["head.bias"], site.state["net"]["head.bias"])


def test_fedgf_counts_the_rounds_in_which_sites_went_far() -> None:
    hub, memory, parts = FedGF(threshold=2.0, window=3), {}, []
    for length in (1, 3, 3, 1, 1, 1):
        told, memory = hub.combine({"a": moves(length), "b": moves(-length)}, memory, np.random.default_rng(0))
        parts.append(told["part"])
    assert parts == pytest.approx([0, 1 / 2, 2 / 3, 2 / 3, 1 / 3, 0])


def test_fedgf_by_default_compares_with_its_first_round() -> None:
    hub, memory, parts = FedGF(), {}, []
    for length in (2, 3, 1, 4):
        told, memory = hub.combine({"a": moves(length - 1), "b": moves(length + 1)}, memory, np.random.default_rng(0))
        parts.append(told["part"])
    assert memory["threshold"] == pytest.approx(2)
    assert parts == pytest.approx([0, 1 / 2, 1 / 3, 1 / 2])


def test_fedgf_is_fedsam_until_sites_go_further_than_at_first() -> None:
    memory = play(FedGF(lr=LR, local_epochs=2), tables(), 15)[1]
    until = memory["diverged"].index(True) + 1
    for rounds in (until, until + 1):
        found = play(FedGF(lr=LR, local_epochs=2), tables(), rounds)[0]
        plain = play(FedSAM(lr=LR, local_epochs=2), tables(), rounds)[0]
        apart = [furthest(a.state["net"], b.state["net"]) for a, b in zip(found, plain, strict=True)]
        assert max(apart) < 1e-5 if rounds == until else min(apart) > 1e-4


def test_fedgf_site_looks_up_the_slope_that_all_came_down() -> None:
    method = FedGF(rho=0.3, lr=LR, batch_size=64)
    site = play(method, images((12, 12)))[0][0]
    site.state["common part"] = 1.0
    net, last = method.net(site), site.state["move"]
    length = np.sqrt(sum(np.square(move).sum() for move in last.values()))
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            parameter -= 0.3 * torch.tensor(last[name] / length)
    torch.nn.functional.cross_entropy(net(torch.from_numpy(site.train.X)), torch.from_numpy(site.train.y)).backward()
    moved = method.share(site, 1)["moves"]
    assert all(np.allclose(moved[name], -LR * value.grad.numpy(), atol=1e-6) for name, value in net.named_parameters())
    assert method.curves(site) == {"common part": 1.0}


def test_mofedsam_sites_go_on_as_all_went_in_the_last_round() -> None:
    method = MoFedSAM(beta=0.1, rho=0.0, lr=LR, batch_size=64)
    site = play(method, images((12, 12)))[0][0]
    net = method.net(site)
    loss = torch.nn.functional.cross_entropy(net(torch.from_numpy(site.train.X)), torch.from_numpy(site.train.y))
    loss.backward()
    last = site.state["move"]
    assert furthest(last, zeros(last)) > 0
    moved = method.share(site, 1)["moves"]
    for name, parameter in net.named_parameters():
        assert np.allclose(moved[name], -LR * 0.1 * parameter.grad.numpy() + 0.9 * last[name], atol=1e-6)


def zeros(arrays: dict[str, Any]) -> dict[str, Any]:
    return {name: np.zeros_like(array) for name, array in arrays.items()}
