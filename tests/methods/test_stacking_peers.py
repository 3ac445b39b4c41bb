"""Peers' models that a site cannot stack on: left out with the reason, and the others stay."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from small_federations import table_site
from torch import nn

from peerwise.data import Feature, Site
from peerwise.federation import PEERS_LEFT_OUT, answer
from peerwise.methods.contribution_scores import contribution_of, read_scores
from peerwise.methods.stacking import Stacking
from peerwise.models.fitted import NetFitted
from peerwise.models.zoo.tables import Constant
from peerwise.parcels import Parcel, pack, unpack
from peerwise.run import run_method

LABELS = [0, 1, 2] * 8
FEATURES = [[f"f{place}", []] for place in range(4)]
DEFAULTS: list[float | None] = [0.0] * 4
HUGE = 10**400  # a whole number that no float can hold


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
        sent(net(), features=[[f"g{place}", []] for place in range(4)]),
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
    "cut": (sent(net()[:99]), "net", "BrokenFile: 'net@cut' (99 bytes) is no readable ONNX file"),
    "narrow": (
        sent(net(), features=FEATURES[:3], defaults=DEFAULTS[:3]),
        "net",
        "ParcelError: model 'net@narrow' takes 4 columns, and its site declares 3 features",
    ),
    "wide": (
        sent(net(), features=[*FEATURES, *([f"x{p}", []] for p in range(9))], defaults=[*DEFAULTS, *[0.0] * 9]),
        "net",
        "ParcelError: model 'net@wide' takes 4 columns, and its site declares 13 features",
    ),
    "huge": (sent(net(), defaults=[HUGE, *DEFAULTS[1:]]), "*", "ParcelError: site 'huge' sent the default 1000"),
    "too large": (sent(net(), defaults=[1e300, *DEFAULTS[1:]]), "*", "a number that float32 can hold"),
    "endless": (sent(net(), defaults=[float("inf"), *DEFAULTS[1:]]), "*", "the default inf of 'f0'"),
    "true": (sent(net(), defaults=[True, *DEFAULTS[1:]]), "*", "the default True of 'f0'"),
    "an array": (sent(net(), defaults=np.zeros(4)), "*", "no features that can be read"),
    "arrays": (sent(net(), defaults=[np.zeros(3), *DEFAULTS[1:]]), "*", "the default [0. 0. 0.] of 'f0'"),
    "by name": (sent(net(), defaults={f"f{p}": 0.0 for p in range(4)}), "*", "no features that can be read"),
    "features of bytes": (sent(net(), features=b"abcd"), "*", "no features that can be read"),
    "names of lists": (sent(net(), features=[[["f0"], []], *FEATURES[1:]]), "*", "sent the feature [['f0'], []]"),
    "no columns": (sent(net(), features=[], defaults=[]), "*", "ParcelError: site 'no columns' sent no features"),
    "a code": (
        sent(net(), features=[["g", ["x", "y"]], *FEATURES[1:]], defaults=[2.0, *DEFAULTS[1:]]),
        "*",
        "the default 2.0 of 'g': expected a code from 0 to 1",
    ),
    "half a code": (
        sent(net(), features=[["g", ["x", "y"]], *FEATURES[1:]], defaults=[0.5, *DEFAULTS[1:]]),
        "*",
        "the default 0.5 of 'g': expected a code from 0 to 1",
    ),
    "a category twice": (sent(net(), features=[["g", ["x", "x"]], *FEATURES[1:]]), "*", "each once"),
}


def test_whoever_cannot_be_used_is_left_out_with_the_reason_and_the_others_stay() -> None:
    good = {"fine": sent(net())}
    method, site = here({**{name: parcel for name, (parcel, _, _) in BAD.items()}, **good})
    told = site.state[PEERS_LEFT_OUT]
    assert set(told) == {f"{model}@{name}" for name, (_, model, _) in BAD.items()}
    for name, (_, model, words) in BAD.items():
        assert words in told[f"{model}@{name}"]
    assert method.predict_with_details(site, site.test.X)[1]["models"] == ["net@fine", "logistic@here"]
    alone_method, alone = here(good)
    assert PEERS_LEFT_OUT not in alone.state
    assert np.array_equal(answer(method, site, site.test.X), answer(alone_method, alone, site.test.X))


def test_where_all_fail_the_own_models_are_stacked() -> None:
    method, site = here({name: parcel for name, (parcel, _, _) in BAD.items()})
    assert method.predict_with_details(site, site.test.X)[1]["models"] == ["logistic@here"]
    assert set(site.state["contribution"]["impurity"] or {}) == set()


def test_a_new_row_on_which_a_model_fails_is_answered_by_the_own_models() -> None:
    method, site = here({"fine": sent(net()), "far": sent(net(1e6))})
    X = np.array(site.test.X)
    usual = answer(method, site, X)
    X[[2, 5], 0] = 51.0
    found, details = answer(method, site, X), method.predict_with_details(site, X)[1]
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
    wide = sent(data, features=[*FEATURES, ["new", []]], defaults=[*DEFAULTS, 7.0])
    method, site = here({"wide": wide})
    site = site.replace(features=tuple(Feature(f"f{place}") for place in range(4)))
    says = method.predict_with_details(site, site.test.X)[1]["says"][:, 1]
    assert says.tolist() == np.where(np.asarray(site.test.X)[:, 0] > 0, 0, 2).tolist()


def test_a_peer_that_declares_features_without_end_is_left_out_before_any_column_is_made() -> None:
    many = [[f"x{place}", []] for place in range(200_000)]
    _, site = here({"endless": sent(net(), features=many, defaults=[0.0] * len(many))})
    assert site.state[PEERS_LEFT_OUT]["net@endless"].startswith("ParcelError: model 'net@endless' takes 4 columns")
    assert site.state["schemas"] == {}


def test_a_failure_that_nobody_foresaw_costs_that_peer_alone() -> None:
    class Odd(Parcel):
        def get(self, *_: Any) -> Any:
            raise ZeroDivisionError("surprise")

    odd = Odd(models={"net": net()}, classes=["a", "b", "c"], features=FEATURES, defaults=DEFAULTS)
    method, site = here({"odd": odd, "fine": sent(net())})
    assert site.state[PEERS_LEFT_OUT] == {"*@odd": "ZeroDivisionError: surprise"}
    assert method.predict_with_details(site, site.test.X)[1]["models"] == ["net@fine", "logistic@here"]
    found, unread = read_scores({"odd": odd, "b": Parcel(contribution=scores())})
    assert list(found) == ["b"]
    assert unread == {"scores@odd": "ZeroDivisionError: surprise"}


def scores(peer: Any = 0.4, own: Any = 0.6, name: Any = "a", lost: Any = None, own_lost: Any = None) -> dict[str, Any]:
    return {
        "impurity": {name: peer},
        "permutation": None if lost is None else {"a": lost},
        "self": {"impurity": own, "permutation": own_lost},
    }


WRONG_SCORES = [
    scores(peer=HUGE),
    scores(peer=10**5000),
    scores(peer=True, own=0.0),
    scores(peer=-0.5, own=1.5),
    scores(peer=1e300),
    scores(peer=np.zeros(2)),
    scores(peer=float("nan")),
    scores(peer=0.1, own=0.1),
    scores(own=None),
    scores(name=3),
    scores(name="$blob"),
    scores(lost=1.5, own_lost=0.0),
    scores(lost=-1.5, own_lost=0.0),
    scores(lost=0.1, own_lost=False),
    scores(lost=0.1),
    scores(own_lost=0.1),
    scores() | {"impurity": np.zeros(3)},
    scores() | {"self": np.zeros(3)},
    [1],
]


@pytest.mark.parametrize("place", range(len(WRONG_SCORES)))
def test_scores_that_cannot_be_cost_that_peer_alone(place: int) -> None:
    found, unread = read_scores({"b": Parcel(contribution=WRONG_SCORES[place]), "c": Parcel(contribution=scores())})
    assert list(found) == ["c"]
    assert list(unread) == ["scores@b"]


def test_scores_as_they_are_sent_are_read() -> None:
    sent_scores = {"b": scores(lost=-0.02, own_lost=1.0), "c": scores(), "d": scores() | {"impurity": None}}
    sent_scores["d"]["self"] = {"impurity": None, "permutation": None}
    found, unread = read_scores({name: Parcel(contribution=each) for name, each in sent_scores.items()})
    assert found == sent_scores
    assert unread == {}


def test_a_site_whose_models_are_each_indispensable_is_read_too() -> None:
    """Each of two models may lose half: together that is all there is to lose."""
    learner: Any = SimpleNamespace(reason_="", importances_=None, permutation_=np.array([0.6, 0.6, 0.1]))
    said = contribution_of("a", ["b", "b", "a"], learner)
    assert said["permutation"] == {"b": 1.0}
    assert read_scores({"a": Parcel(contribution=said)})[1] == {}


def test_a_column_whose_name_begins_with_a_dollar_is_sent_and_kept() -> None:
    sites = [table_site(name, LABELS, LABELS[:6], LABELS[:9]) for name in "ab"]
    odd = (Feature("$ spent"), Feature("$blob"))
    sites = [site.replace(features=(*odd, *site.features[2:])) for site in sites]
    method = Stacking(meta="logistic", folds=2)
    run_method(method, sites)
    assert method.predict_with_details(sites[0], sites[0].test.X)[1]["models"] == ["logistic@a", "logistic@b"]
    parcel = Parcel(**dict(method.share(sites[0], 0)))
    assert Parcel.decode(*parcel.encode())["features"][0] == ["$ spent", []]
    assert unpack(*pack(sites[0].state))["schemas"] == sites[0].state["schemas"]
