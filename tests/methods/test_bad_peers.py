"""Peers' models that fail on a site's rows, and peers that send what cannot be used: left out, told, and no others."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_federations import table_site
from torch import nn

from peerwise.data import Rows, Site
from peerwise.errors import BadOutputs
from peerwise.federation import PEERS_LEFT_OUT, answer
from peerwise.methods import GlobalEnsemble, OneShot
from peerwise.models import OnnxModel
from peerwise.models.fitted import NetFitted
from peerwise.parcels import Keep, Parcel, pack, unpack
from peerwise.run import run_method
from peerwise.trust import BestSingle, FedDES, OwnOnly, PeerwiseClassifier, PriorAdapted, TrustLearner, UniformAverage

LABELS = [0, 1, 2] * 6
LIMIT = 50.0


class UpTo(nn.Module):
    """A net that says NaN where the first feature is above a limit."""

    def __init__(self, limit: float, width: int = 4, classes: int = 3) -> None:
        super().__init__()
        self.limit, self.linear = limit, nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.linear(x) + 1e-6 * torch.sqrt(self.limit - x[:, :1])
        return out


def net(limit: float = LIMIT, width: int = 4, classes: int = 3) -> bytes:
    torch.manual_seed(3)
    return NetFitted(UpTo(limit, width, classes), np.zeros((2, width), np.float32), None).to_onnx()


def one_row_at_a_time() -> bytes:
    graph = onnx.load_from_string(net())
    for value in (*graph.graph.input, *graph.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 1
    return graph.SerializeToString()


def sent(models: Any, classes: Any = ("a", "b", "c")) -> Parcel:
    return Parcel(models=models, classes=list(classes) if isinstance(classes, tuple) else classes)


GOOD = {"fine": sent({"net": net()}), "slow": sent({"net": one_row_at_a_time()})}
BAD: dict[str, tuple[Parcel, str, str]] = {
    "nan": (sent({"net": net(limit=-9.0)}), "net", "on train rows: BadOutputs: model 'net@nan' returned a non-finite"),
    "wide": (sent({"net": net(width=5)}), "net", "on train rows: ModelError: 'net@wide' cannot run on x(18, 4)"),
    "many": (
        sent({"net": net(classes=4)}),
        "net",
        "on train rows: BadOutputs: model 'net@many' returned shape (18, 4)",
    ),
    "cut": (sent({"net": net()[:99]}), "net", "on train rows: BrokenFile: 'net@cut' (99 bytes) is no readable ONNX"),
    "text": (sent({"net": "print(1)"}), "*", "ParcelError: site 'text' sent str called 'net': expected an ONNX file"),
    "named": (sent({"net@here": net()}), "*", "site 'named' sent bytes called 'net@here': expected an ONNX file"),
    "less": (sent({"net": net()}, ("a", "b")), "*", "ClassMismatch: site 'less' answers over ['a', 'b'], this site"),
    "order": (sent({"net": net()}, ("b", "a", "c")), "*", "ClassMismatch: site 'order' answers over ['b', 'a', 'c']"),
    "no classes": (sent({"net": net()}, None), "*", "TypeError"),
    "a number": (sent(5), "*", "ParcelError: site 'a number' sent ['classes', 'models']: expected models by name"),
    "a word": (Parcel(note="hello"), "*", "ParcelError: site 'a word' sent ['note']: expected models by name"),
}
KEEP = Keep()


def here(learner: TrustLearner, inbox: dict[str, Parcel], val: list[int] = LABELS) -> tuple[OneShot, Site]:
    site = table_site("here", LABELS, val, [0, 1, 2] * 3).replace(keep=KEEP)
    method = OneShot(learner, folds=2)
    method.share(site, 0)
    method.absorb(site, 0, inbox)
    site.state = unpack(*pack(site.state))
    return method, site


@settings(max_examples=20, deadline=None)
@given(st.sets(st.sampled_from(sorted(BAD)), min_size=1))
def test_whoever_fails_is_left_out_with_the_reason_and_the_others_stay_as_if_alone(bad: set[str]) -> None:
    method, site = here(UniformAverage(), {**{name: BAD[name][0] for name in bad}, **GOOD})
    told = site.state[PEERS_LEFT_OUT]
    assert set(told) == {f"{BAD[name][1]}@{name}" for name in bad}
    for name in bad:
        assert BAD[name][2] in told[f"{BAD[name][1]}@{name}"]
    assert site.state["learner"]["names"] == ["net@fine", "logistic@here", "net@slow"]
    alone_method, alone = here(UniformAverage(), GOOD)
    assert PEERS_LEFT_OUT not in alone.state
    assert np.array_equal(answer(method, site, site.test.X), answer(alone_method, alone, site.test.X))


def test_one_bad_model_of_a_peer_does_not_cost_its_others() -> None:
    _, site = here(PeerwiseClassifier(), {"peer": sent({"bad": net(-9.0), "good": net()})})
    assert set(site.state[PEERS_LEFT_OUT]) == {"bad@peer"}
    assert site.state["learner"]["names"] == ["logistic@here", "good@peer"]
    assert set(site.state["pool"]) == {"logistic@here", "good@peer"}


def test_a_model_that_fails_on_validation_rows_only_is_left_out_too() -> None:
    site = table_site("here", LABELS, LABELS, [0])
    X = np.asarray(site.val.X) + 100 * (np.arange(len(LABELS)) == 7)[:, None].astype(np.float32)
    site = site.replace(val=Rows(X, site.val.y))
    method = OneShot(BestSingle(), folds=2)
    method.share(site, 0)
    method.absorb(site, 0, GOOD)
    assert site.state["learner"]["names"] == ["logistic@here"]
    said = site.state[PEERS_LEFT_OUT]["net@fine"]
    assert said.startswith(
        "on validation rows: BadOutputs: model 'net@fine' returned a non-finite value in 1 of 18 rows"
    )


@pytest.mark.parametrize(
    "learner", [UniformAverage(), PeerwiseClassifier(), FedDES(epochs=2, hidden=8, heads=2)], ids=str
)
def test_where_all_peers_fail_the_own_models_are_the_pool(learner: TrustLearner) -> None:
    method, site = here(learner, {name: parcel for name, (parcel, _, _) in BAD.items()})
    assert site.state["learner"]["names"] == ["logistic@here"]
    assert len(site.state[PEERS_LEFT_OUT]) == len(BAD)
    own, alone = here(OwnOnly(), {})
    expected = answer(own, alone, site.test.X).argmax(axis=1)
    assert (answer(method, site, site.test.X).argmax(axis=1) == expected).all()


def test_an_own_model_that_fails_on_its_own_rows_is_no_peers_fault() -> None:
    site = table_site("here", LABELS, LABELS, [0])
    method = OneShot(BestSingle(), folds=2)
    method.share(site, 0)
    site.state["own"]["models"]["logistic"] = net(-9.0)
    with pytest.raises(BadOutputs, match="'logistic@here' returned a non-finite value in 18 of 18 rows"):
        method.absorb(site, 0, GOOD)


LEARNERS = [BestSingle(), UniformAverage(vote="hard"), PriorAdapted(), PeerwiseClassifier(), FedDES(epochs=2, hidden=8)]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
def test_a_new_row_on_which_a_model_fails_is_answered_by_the_own_models(learner: TrustLearner) -> None:
    method, site = here(learner, GOOD | {"far": sent({"net": net(1e6)})})
    X = np.array(site.test.X)
    usual = answer(method, site, X)
    X[[2, 5], 0] = LIMIT + 1
    found, details = answer(method, site, X), method.predict_with_details(site, X)[1]
    others = [0, 1, 3, 4, 6, 7, 8]
    assert np.allclose(found[others], usual[others], atol=1e-6), "no row answers for another"
    own = OnnxModel(site.state["pool"]["logistic@here"]).predict_proba(X)
    assert np.allclose(found[[2, 5]], own[[2, 5]], atol=1e-6)
    assert np.allclose(details["own"], own, atol=1e-6)
    assert details["models"] == ["net@far", "net@fine", "logistic@here", "net@slow"]
    assert details["trust"][[2, 5]].tolist() == [[0, 0, 1, 0]] * 2
    assert details["fallback"][[2, 5]].all()
    assert (details["says"][[2, 5]][:, [1, 3]] == -1).all()
    assert (details["says"][[2, 5]][:, [0, 2]] >= 0).all()
    assert (details["says"][others] >= 0).all()
    assert set(details["left_out"]) == {"net@fine", "net@slow"}
    assert details["left_out"]["net@fine"].startswith("on 2 of 9 rows to answer, left to the own models: BadOutputs")
    alone = np.concatenate([answer(method, site, X[row : row + 1]) for row in range(len(X))])
    assert np.allclose(found, alone, atol=1e-6)


def test_where_nothing_fails_nothing_is_told() -> None:
    method, site = here(GlobalEnsemble().learner, GOOD)
    assert PEERS_LEFT_OUT not in site.state
    assert "left_out" not in method.predict_with_details(site, site.test.X)[1]


def test_in_one_process_what_is_left_out_is_a_warning() -> None:
    sites = [table_site(name, LABELS, [], [0, 1, 2]) for name in "ab"]
    sites[1] = sites[1].replace(classes=("a", "c", "b"))
    with pytest.warns(UserWarning, match=r"site 'a' does without \*@b: ClassMismatch: site 'b' answers over"):
        run_method(OneShot(BestSingle(), folds=2), sites)
    assert sites[0].state["learner"]["names"] == ["logistic@a"]
