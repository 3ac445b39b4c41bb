"""What a public model tells of a site's rows: large leaves, and differential privacy with its noise as promised."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from scipy import stats
from small_federations import sequence_sites, table_site

from peerwise.data import Feature, Rows, Site
from peerwise.errors import ConfigError
from peerwise.federation import answer
from peerwise.methods import private_forest as forest
from peerwise.methods.public_models import leaf_forest
from peerwise.methods.stacking import Stacking
from peerwise.models import OnnxModel
from peerwise.run import run_method

FEATURES = (Feature("age"), Feature("colour", ("red", "green", "blue")), Feature("weight"))
RANGES = {"age": [0.0, 100.0], "weight": [0.0, 200.0]}


def people(rows: int, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(0, 100, rows), rng.integers(0, 3, rows), rng.uniform(0, 200, rows)])
    X[rng.random(X.shape) < 0.1] = np.nan
    return Rows(X.astype(np.float32), (np.nan_to_num(X[:, 0]) > 50).astype(np.int64))


def made(rows: Rows, epsilon: float = 1.0, trees: int = 0, noise: int = 1) -> bytes:
    chance = {"rng": np.random.default_rng(trees), "noise": np.random.default_rng(noise)}
    return forest.private_forest(rows, FEATURES, RANGES, classes=2, epsilon=epsilon, **chance)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_the_noise_is_discrete_laplace_as_scipy_has_it(epsilon: float) -> None:
    drawn = forest.discrete_laplace(epsilon, (40_000,), np.random.default_rng(3))
    known = stats.dlaplace(epsilon)
    values = np.arange(-3, 4)
    shares = np.array([(drawn == value).mean() for value in values])
    assert np.allclose(shares, known.pmf(values), atol=0.01)
    assert drawn.var() == pytest.approx(known.var(), rel=0.05)
    assert drawn.dtype.kind == "i"


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_one_row_more_changes_the_chance_of_any_release_by_at_most_e_to_the_epsilon(epsilon: float) -> None:
    """Histograms of what is released for a count of 4 and for one of 5: no value is likelier by more than e^epsilon,
    but for the chance of counting, and the values below and above are so by just that."""
    draws = 400_000
    four, five = (count + forest.discrete_laplace(epsilon, (draws,), np.random.default_rng(count)) for count in (4, 5))
    tails = []
    for value in range(-20, 30):
        seen = [int((released == value).sum()) for released in (four, five)]
        if min(seen) >= 400:
            slack = 5 * np.sqrt(1 / seen[0] + 1 / seen[1])
            ratio = float(np.log(seen[1] / seen[0]))
            assert abs(ratio) <= epsilon + slack
            tails.append((ratio - (epsilon if value >= 5 else -epsilon)) / slack)
    assert len(tails) >= 4
    assert np.abs(tails).max() < 1


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_every_count_of_every_leaf_has_that_noise_in_the_file_itself(epsilon: float) -> None:
    """Without rows all counts are noise: how often a leaf is undecided, how often sure of a class by k, is known."""
    nobody = people(3).take(slice(0, 0))
    files = [made(nobody, epsilon, seed, seed) for seed in range(4)]
    said = np.concatenate([leaf_values(data) for data in files])
    known, pseudo = stats.dlaplace(epsilon), forest.PSEUDO_COUNT / 2
    ends = np.maximum(np.arange(-80, 81), 0)
    chance = np.outer(known.pmf(np.arange(-80, 81)), known.pmf(np.arange(-80, 81)))
    shown = (ends[:, None] + pseudo) / (ends[:, None] + ends + 2 * pseudo)
    for value in (0.5, (1 + pseudo) / (1 + 2 * pseudo), pseudo / (2 + 2 * pseudo)):
        expected = chance[np.isclose(shown, value)].sum()
        share = np.isclose(said[:, 0], value, atol=1e-5).mean()
        assert share == pytest.approx(expected, abs=4 * np.sqrt(expected / len(said)))
    assert len(said) == 4 * forest.TREES * 2**forest.DEPTH


def leaf_values(data: bytes) -> NDArray[np.float64]:
    """(leaves, classes): the probabilities of each leaf of each tree."""
    weights = next(values for name, values in tree_attributes(data).items() if name == "target_weights")
    return np.asarray(weights, float).reshape(-1, 2) * forest.TREES


def tree_attributes(data: bytes) -> dict[str, Any]:
    node = next(n for n in onnx.load_from_string(data).graph.node if n.op_type == "TreeEnsembleRegressor")
    return {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}


def test_one_row_more_changes_one_count_of_one_leaf_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Releases with and without the last row, from which the noise was taken, so that counts can be seen."""
    monkeypatch.setattr(forest, "discrete_laplace", lambda epsilon, shape, rng: np.zeros(shape, np.int64))
    rows = people(112)
    without, alone = leaf_values(made(rows.take(slice(0, 100)))), 0
    for row in range(100, 112):
        whole = leaf_values(made(rows.take(slice(0, row + 1))))
        (leaf,) = np.flatnonzero(np.abs(whole - without).max(axis=1) > 1e-6)
        assert whole[leaf, rows.y[row]] > without[leaf, rows.y[row]]
        if without[leaf, 0] == pytest.approx(0.5):  # nobody was there: (1 + 0.5) / (1 + 1) of its class
            assert whole[leaf, rows.y[row]] == pytest.approx(0.75)
            alone += 1
        without = whole
    assert alone > 3


def test_every_row_has_a_leaf_in_every_tree() -> None:
    rows = people(300)
    trees = [forest.draw_tree(FEATURES, RANGES, np.random.default_rng(number)) for number in range(4)]
    for tree in trees:
        leaves = tree.leaves(np.asarray(rows.X))
        assert leaves.min() >= 0
        assert leaves.max() < 2**forest.DEPTH


def test_no_row_shapes_a_tree() -> None:
    """Trees of other rows, drawn by the same chance, ask the same questions."""

    def questions(data: bytes) -> dict[str, Any]:
        return {name: values for name, values in tree_attributes(data).items() if name.startswith("nodes_")}

    assert questions(made(people(300), noise=1)) == questions(made(people(20, seed=9), noise=2))


def test_the_file_answers_as_the_trees_do_also_where_values_are_missing() -> None:
    rows = people(400)
    data = made(rows, epsilon=50.0)
    rng, noise = np.random.default_rng(0), np.random.default_rng(1)
    trees = [forest.draw_tree(FEATURES, RANGES, rng) for _ in range(forest.TREES)]
    home = noise.integers(forest.TREES, size=len(rows))
    new = people(100, seed=5)
    expected = np.zeros((100, 2))
    for number, tree in enumerate(trees):
        counts = np.zeros((2**forest.DEPTH, 2))
        here = home == number
        np.add.at(counts, (tree.leaves(np.asarray(rows.X)[here]), rows.y[here]), 1)
        counts = np.maximum(counts + forest.discrete_laplace(50.0, counts.shape, noise), 0) + 0.5
        expected += (counts / counts.sum(axis=1, keepdims=True))[tree.leaves(np.asarray(new.X))] / forest.TREES
    assert np.isnan(np.asarray(new.X)).any()
    assert np.allclose(OnnxModel(data).predict_proba(new.X), expected, atol=1e-5)


def test_it_learns_something_and_less_under_more_noise() -> None:
    rows, new = people(2000), people(1000, seed=8)

    def score(epsilon: float) -> float:
        said = [OnnxModel(made(rows, epsilon, seed, seed)).predict_proba(new.X)[:, 1] for seed in range(3)]
        return float(np.mean([np.corrcoef(each, new.y)[0, 1] for each in said]))

    assert score(4.0) > 0.6
    assert score(4.0) > score(0.5) > score(0.02)


def private_sites(*names: str, **changes: Any) -> list[Site]:
    sites = [table_site(name, [0, 1, 2] * 20, [0, 1, 2] * 6, [0, 1, 2] * 4) for name in names]
    return [site.replace(**changes) for site in sites]


DECLARED = {f"f{place}": [-4.0, 6.0] for place in range(4)}


def test_nothing_but_the_forest_tells_of_the_rows() -> None:
    site = private_sites("a")[0]
    method = Stacking(privacy="dp", ranges=DECLARED, meta="logistic", folds=2)
    parcel = method.share(site, 0)
    assert set(parcel["models"]) == {"private_forest"}
    assert parcel["defaults"] == [None] * 4
    other = site.replace(train=Rows(np.asarray(site.train.X) * 2 + 1, site.train.y), state={})
    again = method.share(other, 0)
    assert {key: again[key] for key in again if key != "models"} == {
        key: parcel[key] for key in parcel if key != "models"
    }
    method.absorb(site, 0, {})
    assert len(method.share(site, 1)) == 0, "contribution scores come from the rows and have no noise"
    assert "contribution" in site.state


def test_the_guarantee_is_told_and_there_is_none_without_noise() -> None:
    site = private_sites("a")[0]
    told = Stacking(privacy="dp", epsilon=0.5).privacy(site)
    assert told is not None
    assert (told["epsilon"], told["delta"]) == (0.5, 0.0)
    assert {"unit", "rounds", "mechanism", "accountant"} <= set(told)
    assert "one row added or removed; several rows of one person multiply epsilon" in told["unit"]
    assert "up to the precision of the sampler" in told["accountant"]
    assert Stacking().privacy(site) is None
    assert Stacking(privacy="leaf").privacy(site) is None


def test_private_federations_stack_and_public_rows_stand_for_declared_ranges() -> None:
    public = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    for sites, method in (
        (private_sites("a", "b", public=public), Stacking(privacy="dp", meta="logistic", folds=2)),
        (private_sites("a", "b"), Stacking(privacy="dp", ranges=DECLARED, meta="logistic", folds=2)),
    ):
        run_method(method, sites)
        assert method.predict_with_details(sites[0], sites[0].test.X)[1]["models"] == ["logistic@a", "private_forest@b"]
        assert np.allclose(answer(method, sites[0], sites[0].test.X).sum(axis=1), 1)


def test_another_epsilon_draws_other_noise_for_every_count() -> None:
    site = private_sites("a")[0]
    two = [Stacking(privacy="dp", ranges=DECLARED, epsilon=e, folds=2).public_models(site) for e in (1.0, 1.000001)]
    said = [OnnxModel(models["private_forest"]).predict_logits(site.train.X) for models in two]
    assert not np.allclose(said[0], said[1], atol=0.01)


def test_a_number_without_a_range_is_refused_before_anything_is_trained() -> None:
    with pytest.raises(ConfigError, match=r"site 'a': .* none is declared for f0, f1, f3.*ranges=\{'f0'"):
        run_method(Stacking(privacy="dp", ranges={"f2": [0, 1]}), private_sites("a"))
    with pytest.raises(ConfigError, match=r"ranges\['f0'\] is \[3.0, 1.0\]: expected \[lowest, highest\]"):
        run_method(Stacking(privacy="dp", ranges={**DECLARED, "f0": [3.0, 1.0]}), private_sites("a"))


@pytest.mark.parametrize("privacy", ["leaf", "dp"])
def test_forests_of_tables_are_refused_for_sequences(privacy: Any) -> None:
    with pytest.raises(ConfigError, match="site 'left' has sequence rows: privacy 'leaf' and 'dp' are forests of"):
        run_method(Stacking(privacy=privacy), sequence_sites("cnn1d"))


def test_every_leaf_rests_on_as_many_rows_as_were_asked_for() -> None:
    site = private_sites("a")[0]
    model: Any = leaf_forest(site.train, site, 12, seed=0)
    for tree in model._model.estimators_:
        at = tree.apply(np.asarray(site.train.X))
        assert np.unique(at, return_counts=True)[1].min() >= 12
        leaves = tree.tree_.children_left == -1
        assert tree.tree_.n_node_samples[leaves].min() >= 12


def test_a_row_that_was_drawn_twice_does_not_fill_a_leaf() -> None:
    """With 27 rows and leaves of 25 no tree can part them: every answer rests on all 27."""
    site = table_site("a", [0, 1, 2] * 9, [0, 1, 2] * 2, [0, 1, 2])
    model: Any = leaf_forest(site.train, site, 25, seed=0)
    leaves = [tree.tree_.n_node_samples[tree.tree_.children_left == -1] for tree in model._model.estimators_]
    assert {int(count) for each in leaves for count in each} == {27}


def test_a_site_with_fewer_rows_than_a_leaf_shows_no_model() -> None:
    sites = private_sites("a", "b")
    sites[1] = sites[1].replace(train=sites[1].train.take(slice(0, 9)))
    method = Stacking(privacy="leaf", min_leaf=10, meta="logistic", folds=2)
    assert set(method.share(sites[0], 0)["models"]) == {"leaf_forest"}
    assert method.share(sites[1], 0)["models"] == {}
    run_method(method, sites)
    assert method.predict_with_details(sites[0], sites[0].test.X)[1]["models"] == ["logistic@a"]
    assert method.predict_with_details(sites[1], sites[1].test.X)[1]["models"] == ["leaf_forest@a", "logistic@b"]


def test_settings_that_cannot_work_are_refused() -> None:
    for wrong, words in (
        ({"epsilon": 0.0}, "epsilon is 0.0: expected a finite number, at least 1e-06"),
        ({"epsilon": math.inf}, "epsilon is inf"),
        ({"epsilon": 30.5}, "epsilon is 30.5: expected a finite number, at least 1e-06 and at most 30"),
        ({"epsilon": "1"}, "epsilon is '1'"),
        ({"epsilon": True}, "epsilon is True"),
        ({"min_leaf": 0}, "min_leaf is 0"),
        ({"min_leaf": 2.5}, "min_leaf is 2.5: expected a whole number, at least 1"),
        ({"min_leaf": "3"}, "min_leaf is '3'"),
        ({"noise": True}, "noise is True: expected a finite number, at least 0"),
        ({"folds": 1}, "folds is 1: expected a whole number, at least 2"),
        ({"folds": "5"}, "folds is '5'"),
        ({"ranges": [1]}, r"ranges is \[1\]: expected \[lowest, highest\] by feature"),
        ({"ranges": {"f0": 5}}, r"ranges\['f0'\] is 5: expected \[lowest, highest\]"),
        ({"ranges": {"f0": ["a", "b"]}}, r"ranges\['f0'\] is \['a', 'b'\]"),
        ({"ranges": {"f0": None}}, r"ranges\['f0'\] is None"),
        ({"ranges": {"f0": [0, 10**400]}}, r"ranges\['f0'\] is \[0, 1000"),
        ({"noise": -1.0}, "noise is -1.0"),
        ({"privacy": "dq"}, "unknown privacy 'dq'. Choices: dp, leaf, none"),
        ({"variant": "pool"}, "unknown variant 'pool': did you mean 'pooled'"),
        ({"public": "forrest"}, "unknown model 'forrest'"),
        ({"public": "forest", "privacy": "dp"}, "expected 'same', it shows a forest"),
        ({"meta": "tree"}, "unknown meta-model 'tree'"),
    ):
        with pytest.raises(ConfigError, match=words):
            Stacking(**wrong)  # type: ignore[arg-type]
