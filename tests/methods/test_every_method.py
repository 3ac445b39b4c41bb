"""What holds for every method with rounds: the check kit, names, budgets, and what is refused before any work."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from peerwise.checks import check_method
from peerwise.checks.method import awkward_sites
from peerwise.data import load, make_sites
from peerwise.errors import ConfigError, DataError
from peerwise.federation import answer
from peerwise.methods import Method, method_class, method_names
from peerwise.methods.by_rounds import BUDGET, ByRounds
from peerwise.methods.centralised_rounds import CentralisedRounds
from peerwise.methods.co_training import CoTraining
from peerwise.methods.local_rounds import LocalRounds
from peerwise.run import run_method

AVERAGING = ["fedavg", "fedprox", "fedbn", "scaffold", "moon", "feddyn", "fedsam", "mofedsam", "fedgf"]
PERSONAL = ["ditto", "apfl", "perfedavg", "pfedme", "fedphp"]
KNOWLEDGE = ["fml", "fedkd", "lgfedavg", "fedgh", "fedproto", "fedtgp"]
NAMES = [*AVERAGING, *PERSONAL, *KNOWLEDGE, "fedmosaic", "fedct", "perfedckt"]
KINDS: dict[str, Any] = {name: method_class(name) for name in NAMES}
SAME_NETS = {*AVERAGING, *PERSONAL}
EVERY = {**KINDS, "local_rounds": LocalRounds, "centralised_rounds": CentralisedRounds}


@pytest.mark.parametrize("name", EVERY)
def test_every_method_passes_the_check_kit(name: str) -> None:
    check_method(EVERY[name](rounds=3, lr=0.05))


@pytest.mark.parametrize("settings", [{"private": "training"}, {"private": "release"}, {"expertise": "confidence"}])
def test_every_kind_of_fedmosaic_passes_the_check_kit(settings: dict[str, Any]) -> None:
    check_method(KINDS["fedmosaic"](rounds=2, lr=0.05, **settings))


def test_a_federation_with_models_of_any_kind_passes_the_check_kit() -> None:
    def mixed() -> list[Any]:
        kinds = ("mlp", "logistic", "forest", "logistic", "mlp")
        return [site.replace(recipes=(kind,)) for site, kind in zip(awkward_sites(), kinds, strict=True)]

    check_method(KINDS["fedmosaic"](rounds=2, lr=0.05), mixed)


def test_every_name_of_the_papers_is_there() -> None:
    assert {*NAMES, "local", "local_rounds", "centralised", "centralised_rounds", "peerwise"} <= set(method_names())


@pytest.mark.parametrize("name", EVERY)
def test_every_method_takes_the_same_budget(name: str) -> None:
    kind = EVERY[name]
    method = kind(rounds=7, local_epochs=2, batch_size=5, lr=0.5)
    assert isinstance(method, ByRounds)
    assert (method.local_epochs, method.batch_size, method.lr) == (2, 5, 0.5)
    assert getattr(method, "budget_rounds", method.rounds) == 7
    assert any(p.kind is inspect.Parameter.VAR_KEYWORD for p in inspect.signature(kind).parameters.values())


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"rounds": 0}, "rounds is 0: expected at least 1"),
        ({"lr": 0.0}, "lr is 0.0: expected a learning rate above 0"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"optimizer": "rmsprop"}, "unknown optimizer 'rmsprop'"),
    ],
)
def test_a_budget_that_cannot_be_is_refused(name: str, settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        EVERY[name](**settings)
    with pytest.raises(TypeError, match="unknown parameter 'round'"):
        EVERY[name](round=3)


@pytest.mark.parametrize("name", sorted(SAME_NETS))
def test_methods_that_average_weights_refuse_different_nets_before_any_work(name: str) -> None:
    first, second, *_ = awkward_sites(("mlp",))
    image = second.replace(kind="image", recipes=("cnn8",))
    with pytest.raises(DataError, match=r"has a mlp, site .* a cnn8: .* needs the same architecture everywhere"):
        KINDS[name]().check_sites([first, image])


@pytest.mark.parametrize("name", sorted(set(NAMES) - SAME_NETS))
def test_the_others_take_sites_with_different_nets(name: str) -> None:
    first, second, *_ = awkward_sites(("mlp",))
    image = second.replace(kind="image", recipes=("cnn8",))
    KINDS[name]().check_sites([first, image])


@pytest.mark.parametrize("name", sorted(name for name in NAMES if not issubclass(KINDS[name], CoTraining)))
def test_sites_without_a_net_are_refused_with_the_choices(name: str) -> None:
    with pytest.raises(DataError, match=r"no neural network among its models \(logistic, forest\).*models='mlp'"):
        KINDS[name]().check_sites(awkward_sites())


@pytest.mark.parametrize("name", NAMES)
def test_every_docstring_says_its_equation_and_where_it_departs(name: str) -> None:
    text = " ".join((inspect.getdoc(KINDS[name]) or "").split())
    assert "Departs from the paper" in text
    assert any(mark in text for mark in ("<-", " = ", " + "))


OFF: dict[str, dict[str, Any]] = {
    "fedprox": {"mu": 0.0},
    "moon": {"mu": 0.0},
    "fedsam": {"rho": 0.0},
    "ditto": {"mu": 0.0},
    "apfl": {"alpha": 1.0},
    "pfedme": {"beta": 0.0},
    "fedphp": {"lam": 1.0},
    "fedmosaic": {"fixed_lambda": 0.0},
    "fedproto": {"lam": 0.0},
    "fedtgp": {"lam": 0.0},
    "fml": {"alpha": 1.0, "beta": 1.0},
}


@pytest.mark.parametrize("name", OFF)
def test_no_default_switches_a_method_off(name: str) -> None:
    """With the value that makes it another method's twin it answers otherwise than by default."""
    found = []
    for settings in ({}, OFF[name]):
        method = KINDS[name](rounds=6, lr=0.1, **settings)
        site, other = make_sites(load("digits"), "dirichlet", 2, alpha=0.5, public=40, recipes=("mlp",))
        run_method(method, [site, other])
        found.append(answer(method, site, site.test.X))
    assert np.abs(found[0] - found[1]).max() > 1e-4


def test_the_budget_of_all_is_one() -> None:
    assert set(BUDGET) == {"rounds", "local_epochs", "batch_size", "optimizer", "lr"}
    assert issubclass(ByRounds, Method)
