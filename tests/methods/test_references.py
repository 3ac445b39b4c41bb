"""Local, the global ensemble and the centralised models, and that models are trained once for all methods."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from small_federations import awkward, hospitals, sequence_sites, table_site

from peerwise.data import Rows, concatenate
from peerwise.federation import answer
from peerwise.methods import Centralised, GlobalEnsemble, Local, Method, OneShot
from peerwise.methods.own_models import own_models
from peerwise.models import ZOO, OnnxModel
from peerwise.parcels import Keep
from peerwise.run import run_method
from peerwise.trust import BestSingle, OwnOnly


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each recipe was trained."""
    counted: Counter[str] = Counter()
    for name in ("logistic", "mlp"):
        recipe = ZOO[name]

        def fit(*rows: Any, fit: Any = recipe.fit, name: str = name, **settings: Any) -> Any:
            counted[name] += 1
            return fit(*rows, **settings)

        monkeypatch.setitem(ZOO, name, replace(recipe, fit=fit))
    return counted


def softmax(logits: Any) -> Any:
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def test_local_is_the_mean_of_the_own_models_and_sends_nothing() -> None:
    site = hospitals("logistic", "forest")[3]
    method = Local()
    run_method(method, [site])
    own = own_models(site, held_out=False).files
    expected = np.mean([softmax(OnnxModel(data).predict_logits(site.test.X)) for data in own.values()], axis=0)
    assert np.allclose(answer(method, site, site.test.X), expected, atol=1e-5)
    assert site.state["run"]["sent"] == 0
    assert not method.share(site, 0)


def test_own_only_says_what_local_says() -> None:
    sites, alone = (awkward("logistic", "mlp") for _ in range(2))
    run_method(OneShot(OwnOnly(), folds=3, epochs=2), sites)
    run_method(Local(folds=3, epochs=2), alone)
    for one, other in zip(sites, alone, strict=True):
        ours = answer(OneShot(OwnOnly()), one, one.test.X)
        assert np.allclose(ours, answer(Local(), other, other.test.X), atol=1e-5), one.name


def test_the_global_ensemble_is_the_plain_mean_of_everybody() -> None:
    sites = hospitals("logistic")
    method = GlobalEnsemble()
    run_method(method, sites)
    files = [OnnxModel(data) for data in sites[0].state["pool"].values()]
    expected = np.mean([softmax(model.predict_logits(sites[0].test.X)) for model in files], axis=0)
    assert len(files) == 4
    assert np.allclose(answer(method, sites[0], sites[0].test.X), expected, atol=1e-5)


def test_centralised_trains_once_on_everybodys_rows(trainings: Counter[str]) -> None:
    keep = Keep()
    sites = hospitals("logistic", keep=keep)
    method = Centralised()
    run_method(method, sites)
    assert trainings == {"logistic": 1}
    together = sites[0].replace(
        name="everybody",
        train=Rows(concatenate([s.train.X for s in sites]), np.concatenate([s.train.y for s in sites])),
        val=Rows(concatenate([s.val.X for s in sites]), np.concatenate([s.val.y for s in sites])),
    )
    expected = OnnxModel(own_models(together, held_out=False).files["logistic"])
    for site in sites:
        found = answer(method, site, site.test.X)
        assert np.allclose(found, softmax(expected.predict_logits(site.test.X)), atol=1e-5)
    assert method.simulation_only


def test_centralised_trains_every_recipe_that_some_site_has() -> None:
    sites = [table_site("a", [0, 1, 2] * 5, [], [0], "logistic"), table_site("b", [0, 1, 2] * 5, [], [0], "forest")]
    run_method(Centralised(), sites)
    assert set(sites[0].state["models"]) == {"logistic", "forest"}


@pytest.mark.parametrize(
    "method", [Centralised(epochs=1), OneShot(BestSingle(), folds=2, epochs=1)], ids=["all", "one"]
)
def test_sequences_work_as_tables_do(method: Method) -> None:
    sites = sequence_sites("cnn1d")
    run_method(method, sites)
    assert answer(method, sites[0], sites[0].test.X).shape == (4, 2)


@pytest.mark.parametrize("recipe", ["logistic", "mlp"])
def test_several_methods_train_each_model_once(trainings: Counter[str], recipe: str) -> None:
    site = table_site("here", [0, 1, 2] * 8, [0, 1, 2], [0, 1], recipe)
    for method in (
        Local(4, 2),
        OneShot(OwnOnly(), 4, 2),
        GlobalEnsemble(folds=4, epochs=2),
        OneShot(BestSingle(), 4, 2),
    ):
        run_method(method, [site])
    assert trainings == {recipe: 4 + 1}


def test_without_validation_rows_local_and_the_others_share_one_model_too(trainings: Counter[str]) -> None:
    site = table_site("here", [0, 1, 2] * 8, [], [0, 1], "mlp")
    run_method(Local(folds=3, epochs=4), [site])
    local = dict(site.state["models"])
    run_method(OneShot(OwnOnly(), folds=3, epochs=4), [site])
    assert site.state["own"]["models"] == local
    assert trainings == {"mlp": 3 + 1}


def test_other_rows_or_another_seed_are_trained_anew(trainings: Counter[str]) -> None:
    site = table_site("here", [0, 1, 2] * 8, [0, 1, 2], [0, 1], "logistic")
    run_method(Local(), [site])
    site = site.replace(seed=1)
    run_method(Local(), [site])
    site = site.replace(train=site.train.take(np.arange(20)))
    run_method(Local(), [site])
    assert trainings == {"logistic": 3}
