"""Methods by name: those of this package and of anybody's, with their parameters checked before any work."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np
import pandas as pd
import pytest
import torch

from packages import installed
from peerwise.data import load, make_sites
from peerwise.errors import ConfigError
from peerwise.methods import (
    Centralised,
    GlobalEnsemble,
    Local,
    Method,
    OneShot,
    describe,
    make_method,
    method_class,
    method_names,
    method_parameters,
)
from peerwise.methods.by_rounds import BUDGET, Budget, ByRounds
from peerwise.methods.registry import described
from peerwise.run import Experiment
from peerwise.run.contenders import contenders
from peerwise.trust import BestSingle, DecisionMLP, FedDES, NeighbourhoodAccuracy, PeerwiseClassifier, PriorAdapted

SHIPPED = {
    "local": Local,
    "global_ensemble": GlobalEnsemble,
    "centralised": Centralised,
    "peerwise": PeerwiseClassifier,
    "feddes": FedDES,
    "best_single": BestSingle,
    "prior_adapted": PriorAdapted,
    "neighbourhood": NeighbourhoodAccuracy,
    "decision_mlp": DecisionMLP,
}


class Stranger(Method):
    """A method of somebody else's package.

    Its second line is not its description.
    """

    def __init__(self, rounds: int = 7, mu: float = 0.1, mode: Literal["mean", "median"] = "mean") -> None:
        self.rounds, self.mu, self.mode = rounds, mu, mode

    def predict_proba(self, site: Any, X: Any) -> Any:
        return np.full((len(X), len(site.classes)), 1 / len(site.classes))


@pytest.fixture
def with_stranger(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    offered = {"stranger": f"{__name__}:Stranger", "ill": "no_such_module:Ill"}
    monkeypatch.syspath_prepend(str(installed(tmp_path, {"peerwise.methods": offered})))


def test_the_installed_package_offers_these_methods() -> None:
    assert set(SHIPPED) <= set(method_names())
    assert {name: method_class(name) for name in SHIPPED} == SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_every_method_can_be_made_and_describes_itself(name: str) -> None:
    method = make_method(name, {}, folds=4, epochs=2)
    assert isinstance(method, Method)
    assert (method.folds, method.epochs) == (4, 2)  # type: ignore[attr-defined]
    assert len(describe(name)) > 20


def test_parameters_are_those_of_the_constructor_without_what_the_run_gives() -> None:
    assert method_parameters("local") == {}
    assert method_parameters("global_ensemble") == {"vote": "soft"}
    feddes = method_parameters("feddes")
    assert feddes["k"] == 5
    assert feddes["epochs"] == 300
    assert not {"pool", "own", "device"} & set(feddes)


def test_settings_reach_the_learner_and_base_training_is_the_runs() -> None:
    method = make_method("feddes", {"k": 7, "epochs": 9}, folds=3, epochs=2)
    assert isinstance(method, OneShot)
    assert (method.learner.k, method.learner.epochs, method.epochs) == (7, 9, 2)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("fedes", {}, r"unknown method 'fedes': did you mean 'feddes'\? Choices: .*local"),
        ("feddes", {"kk": 3}, r"method.feddes: unknown parameter 'kk': did you mean 'k'\?.*hidden"),
        ("local", {"k": 3}, r"method.local: unknown parameter 'k': there are none"),
        ("local", {"folds": 3}, r"method.local: unknown parameter 'folds'"),
        ("peerwise", {"pool": None}, "unknown parameter 'pool'"),
        ("peerwise", {"k": "many"}, r"method.peerwise.k is 'many': expected a whole number"),
        ("peerwise", {"k": True}, r"method.peerwise.k is True: expected a whole number"),
        ("peerwise", {"k": 2.5}, r"method.peerwise.k is 2.5: expected a whole number"),
        ("feddes", {"lr": "fast"}, r"method.feddes.lr is 'fast': expected a finite number"),
        ("feddes", {"lr": float("nan")}, r"method.feddes.lr is nan: expected a finite number"),
        ("feddes", {"vote": "loud"}, r"method.feddes.vote is 'loud': expected 'hard' or 'soft'"),
        ("feddes", {"calibrate": 1}, r"method.feddes.calibrate is 1: expected true or false"),
        ("peerwise", 5, r"method.peerwise is 5: expected a table of parameters"),
    ],
)
def test_wrong_names_and_values_are_refused_with_the_choices(name: str, settings: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_method(name, settings, folds=5, epochs=None)


def test_whole_numbers_pass_for_numbers_and_nothing_where_nothing_is_allowed() -> None:
    method = make_method("feddes", {"lr": 1, "random_state": None}, folds=5, epochs=None)
    assert method.learner.lr == 1  # type: ignore[attr-defined]


@pytest.mark.usefixtures("with_stranger")
def test_a_method_of_another_package_is_found_with_its_parameters() -> None:
    assert "stranger" in method_names()
    assert method_parameters("stranger") == {"rounds": 7, "mu": 0.1, "mode": "mean"}
    assert describe("stranger") == "A method of somebody else's package."
    method = make_method("stranger", {"rounds": 2, "mode": "median"}, folds=5, epochs=1)
    assert (method.rounds, method.mode) == (2, "median")  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="'mean' or 'median'"):
        make_method("stranger", {"mode": "max"}, folds=5, epochs=1)


class Heir(Stranger):
    """A method that takes over another's constructor."""


class Budgeted(Method):
    """A method with a budget, and rounds of its own choice."""

    def __init__(self, mu: float = 0.5, rounds: int = 3, **budget: Unpack[Budget]) -> None:
        self.mu, self.rounds, self.budget = mu, rounds, budget

    def predict_proba(self, site: Any, X: Any) -> Any:
        return np.full((len(X), len(site.classes)), 1 / len(site.classes))


@pytest.fixture
def with_more(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    offered = {name.lower(): f"{__name__}:{name}" for name in ("Heir", "Budgeted")}
    monkeypatch.syspath_prepend(str(installed(tmp_path, {"peerwise.methods": offered})))


@pytest.mark.usefixtures("with_more")
def test_a_constructor_that_was_inherited_is_checked_as_well() -> None:
    with pytest.raises(ConfigError, match=r"method.heir.mu is 'x': expected a finite number"):
        make_method("heir", {"mu": "x"}, folds=5, epochs=None)


def test_a_budget_is_told_and_set_key_by_key() -> None:
    assert method_parameters("fedavg") == BUDGET
    method = make_method("fedavg", {"lr": 0.5, "rounds": 3}, folds=5, epochs=None)
    assert (method.lr, method.rounds, method.batch_size) == (0.5, 3, 32)  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"method.fedavg: unknown parameter 'lrr': did you mean 'lr'\?.*optimizer"):
        make_method("fedavg", {"lrr": 1}, folds=5, epochs=None)
    with pytest.raises(ConfigError, match=r"method.fedavg.optimizer is 'rmsprop': expected 'sgd' or 'adam'"):
        make_method("fedavg", {"optimizer": "rmsprop"}, folds=5, epochs=None)


@pytest.mark.usefixtures("with_more")
def test_a_methods_own_default_goes_before_that_of_the_budget() -> None:
    assert method_parameters("budgeted") == {**BUDGET, "mu": 0.5, "rounds": 3}
    method = make_method("budgeted", {"mu": 1, "lr": 0.1}, folds=5, epochs=None)
    assert (method.rounds, method.mu, method.budget) == (3, 1, {"lr": 0.1})  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"method.budgeted.lr is 'x': expected a finite number"):
        make_method("budgeted", {"lr": "x"}, folds=5, epochs=None)


@pytest.mark.parametrize("name", ["local", "centralised"])
def test_a_reference_of_the_pool_and_one_with_rounds_are_two_names(name: str) -> None:
    assert method_parameters(name) == {}
    assert not isinstance(make_method(name, {}, folds=5, epochs=None), ByRounds)
    assert method_parameters(f"{name}_rounds") == BUDGET
    method = make_method(f"{name}_rounds", {"lr": 0.5}, folds=5, epochs=None)
    assert isinstance(method, ByRounds)
    assert method.lr == 0.5


def test_a_tag_names_the_same_method_again() -> None:
    assert method_class("peerwise:wide") is PeerwiseClassifier
    method = make_method("peerwise:wide", {"k": 9}, folds=5, epochs=None)
    assert method.learner.k == 9  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"method.peerwise:wide.k is 'x'"):
        make_method("peerwise:wide", {"k": "x"}, folds=5, epochs=None)


def test_a_learner_setting_out_of_range_is_refused_before_any_training() -> None:
    with pytest.raises(ConfigError, match="k=0: expected a whole number, at least 1"):
        make_method("peerwise", {"k": 0}, folds=5, epochs=None)


def test_a_method_that_has_to_know_the_number_of_sites_is_told_by_the_run() -> None:
    told = make_method("fedsov", {}, folds=5, epochs=None, sites=4)
    assert told.plan().sparsity == 0.75
    asked_for = make_method("fedsov", {"sites": 20}, folds=5, epochs=None, sites=4)
    assert asked_for.plan().sparsity == 0.95
    sites = make_sites(load("digits"), "dirichlet", 3, recipes=("mlp",))
    experiment = Experiment(dataset="digits", sites=3, models="mlp", methods="local,fedsov")
    (contender,) = contenders(experiment, sites)["fedsov"]
    assert contender.method.sites == 3


def test_entry_points_under_names_that_cannot_be_used_are_warned_about(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    offered = {"my name": f"{__name__}:Stranger", "fedavg": f"{__name__}:Heir", "heir": f"{__name__}:Heir"}
    monkeypatch.syspath_prepend(str(installed(tmp_path, {"peerwise.methods": offered})))
    with pytest.warns(UserWarning, match="some_package offers") as warned:
        assert "heir" in method_names()
    assert "my name" not in method_names()
    assert method_class("fedavg").__module__ == "peerwise.methods.fedavg"
    assert [str(each.message) for each in warned] == [
        "some_package offers 'my name' in peerwise.methods, but that name is not of letters, digits, '.', '-' and '_'",
        "some_package offers 'fedavg' in peerwise.methods, but that name is built in",
    ]


def with_closure(added: Any) -> Any:
    return lambda x: x + added


class Adder:
    def __init__(self, added: int) -> None:
        self.added = added

    def add(self, x: int) -> int:
        return x + self.added


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda x: x + 1, lambda x: x + 5),
        (lambda x: np.log(x), lambda x: np.exp(x)),
        (lambda x, by=1: x + by, lambda x, by=5: x + by),
        (lambda x, *, by=1: x + by, lambda x, *, by=5: x + by),
        (lambda x: [y + 1 for y in x], lambda x: [y + 5 for y in x]),
        (with_closure(1), with_closure(5)),
        (with_closure(with_closure(1)), with_closure(with_closure(5))),
        (partial(max, 1), partial(max, 5)),
        (Adder(1).add, Adder(5).add),
        (torch.tensor([1.0]), torch.tensor([2.0])),
        (with_closure(torch.tensor([1.0])), with_closure(torch.tensor([2.0]))),
        (torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)),
        (pd.DataFrame({"a": range(1000)}), pd.DataFrame({"a": [*range(500), -1, *range(501, 1000)]})),
        (np.random.default_rng(1), np.random.default_rng(2)),
    ],
)
def test_what_computes_something_else_is_described_otherwise(one: Any, other: Any) -> None:
    assert described(one) != described(other)
    assert described(one) == described(copy.deepcopy(one))


def test_a_function_may_refer_to_modules_and_to_itself() -> None:
    import math

    def even(x: int) -> bool:
        return x == 0 or odd(x - 1)

    def odd(x: int) -> bool:
        return x != 0 and even(x - 1) and bool(math.pi)

    assert described(even) != described(odd)


def test_a_function_is_described_alike_in_every_process() -> None:
    code = (
        "from peerwise.methods.registry import described\n"
        "def f(x, by=1): return x in {'a', 'b', 'c', 'd', 'e'} and by and f\n"
        "print(described([f, lambda x: [y for y in x], {'a', 'b', 'c'}]))"
    )
    told = {
        subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True,
                       check=True).stdout
        for seed in "123"
    }  # fmt: skip
    assert len(told) == 1
