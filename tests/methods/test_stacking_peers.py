"""Peers' models that a site cannot stack on: left out with the reason, and the others stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from small_federations import table_site
from torch import nn

from peerwise.data import Feature, Site
from peerwise.methods.pool_models import PEERS_LEFT_OUT
from peerwise.methods.stacking import Stacking
from peerwise.models.fitted import NetFitted
from peerwise.models.zoo.tables import Constant
from peerwise.parcels import Parcel
from peerwise.run.rounds import answer

LABELS = [0, 1, 2] * 8
FEATURES = [[f"f{place}", []] for place in range(4)]
DEFAULTS = {f"f{place}": 0.0 for place in range(4)}


class UpTo(nn.Module):
    """NaN where the first feature is above a limit."""

    def __init__(self, limit: float) -> None:
        super().__init__()
        self.limit, self.linear = limit, nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.linear(x) + 1e-6 * torch.sqrt(self.limit - x[:, :1])
        return out


def file_of(net: nn.Module) -> bytes:
    return NetFitted(net, np.zeros((2, 4), np.float32), None).to_onnx()


def net(limit: float = 50.0) -> bytes:
    torch.manual_seed(3)
    return file_of(UpTo(limit))


def sent(model: Any, classes: tuple[str, ...] = ("a", "b", "c"), **more: Any) -> Parcel:
    given = {"features": FEATURES, "defaults": DEFAULTS, **more}
    return Parcel(models={"net": model}, classes=list(classes), **given)


def here(inbox: dict[str, Parcel]) -> tuple[Stacking, Site]:
    site = table_site("here", LABELS, LABELS[:6], [0, 1, 2] * 3)
    method = Stacking(meta="logistic", folds=2)
    method.share(site, 0)
    method.absorb(site, 0, inbox)
    return method, site


BAD = {
    "nan": (sent(net(-99.0)), "net", "on train and validation rows: BadOutputs: model 'net@nan' returned a non-finite"),
    "same": (
        sent(file_of(Constant(torch.tensor([[0.1, 0.2, 0.7]])))),
        "net",
        "it says the same of all 30 train and validation rows here: there is nothing to learn from it",
    ),
    "other classes": (sent(net(), ("a", "b")), "*", "ClassMismatch: site 'other classes' answers over ['a', 'b']"),
    "strangers": (
        sent(net(), features=[[f"g{place}", []] for place in range(4)], defaults={f"g{p}": 0.0 for p in range(4)}),
        "net",
        "it says the same of all 30 train and validation rows here",
    ),
    "a type": (
        sent(net(), features=[["f0", ["low", "high"]], *FEATURES[1:]]),
        "*",
        "DataError: feature 'f0' is a category at site 'a type' and a number here",
    ),
    "no features": (
        Parcel(models={"net": net()}, classes=["a", "b", "c"]),
        "*",
        "ParcelError: site 'no features' sent",
    ),
    "cut": (sent(net()[:99]), "net", "on train and validation rows: BrokenFile"),
    "narrow": (sent(net(), features=FEATURES[:3]), "net", "on train and validation rows: ModelError: 'net@narrow'"),
}


def test_whoever_cannot_be_used_is_left_out_with_the_reason_and_the_others_stay() -> None:
    good = {"fine": sent(net())}
    method, site = here({**{name: parcel for name, (parcel, _, _) in BAD.items()}, **good})
    told = site.state[PEERS_LEFT_OUT]
    assert set(told) == {f"{model}@{name}" for name, (_, model, _) in BAD.items()}
    for name, (_, model, words) in BAD.items():
        assert words in told[f"{model}@{name}"]
    assert method.details(site, site.test.X)["models"] == ["net@fine", "logistic@here"]
    alone_method, alone = here(good)
    assert PEERS_LEFT_OUT not in alone.state
    assert np.array_equal(answer(method, site, site.test.X), answer(alone_method, alone, site.test.X))


def test_where_all_fail_the_own_models_are_stacked() -> None:
    method, site = here({name: parcel for name, (parcel, _, _) in BAD.items()})
    assert method.details(site, site.test.X)["models"] == ["logistic@here"]
    assert set(site.state["contribution"]["impurity"] or {}) == set()


def test_a_new_row_on_which_a_model_fails_is_answered_by_the_own_models() -> None:
    method, site = here({"fine": sent(net()), "far": sent(net(1e6))})
    X = np.array(site.test.X)
    usual = answer(method, site, X)
    X[[2, 5], 0] = 51.0
    found, details = answer(method, site, X), method.details(site, X)
    others = [0, 1, 3, 4, 6, 7, 8]
    assert np.allclose(found[others], usual[others], atol=1e-6)
    assert np.allclose(found[[2, 5]], details["own"][[2, 5]])
    assert details["fallback"].tolist() == [row in (2, 5) for row in range(9)]
    assert details["models"] == ["net@far", "net@fine", "logistic@here"]
    assert details["trust"][[2, 5]].tolist() == [[0, 0, 1], [0, 0, 1]]
    assert (details["says"][[2, 5], 1] == -1).all()
    assert details["left_out"]["net@fine"].startswith("on some of the rows to answer, left to the own models: BadOutp")


def test_a_peer_with_more_features_than_here_is_asked_with_its_defaults() -> None:
    class Reads(nn.Module):
        """Sure of class 2 where the fifth feature, which nobody here has, is its default; of class 0 elsewhere."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            there = (x[:, 4:5] - 7.0).abs() < 1e-3
            return torch.where(there, x[:, :1], -x[:, :1]) * torch.tensor([[1.0, 0.0, -1.0]])

    data = NetFitted(Reads(), np.zeros((2, 5), np.float32), None).to_onnx()
    wide = sent(data, features=[*FEATURES, ["new", []]], defaults={**DEFAULTS, "new": 7.0})
    method, site = here({"wide": wide})
    site.features = tuple(Feature(f"f{place}") for place in range(4))
    says = method.details(site, site.test.X)["says"][:, 1]
    assert says.tolist() == np.where(np.asarray(site.test.X)[:, 0] > 0, 0, 2).tolist()
