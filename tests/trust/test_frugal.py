"""Frugal answers: fewer models are asked, and what they are asked for is hardly missed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from trust_cases import LEARNERS

from peerwise import PeerwiseClassifier, UniformAverage
from peerwise.errors import ConfigError, ParcelError
from peerwise.parcels import Store
from peerwise.trust.frugal import Cascade
from peerwise.trust.frugal_limits import limits
from peerwise.trust.frugal_stages import ranked

MODELS, CLASSES = 8, 3
DATA = os.environ.get("PEERWISE_DATA")
POOL = Path(DATA or ".").parent / "pools" / "digits_dir0.3_s0__tabular_heterogeneous_3.npz"


def pool(seed: int, rows: int = 240):
    """Rows, half of which the own model (2) knows; on the others it doubts, and model 5 knows. The rest guess."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, rows)
    hard = rng.random(rows) < 0.3
    logits = rng.normal(0, 0.3, (rows, MODELS, CLASSES))
    each = np.arange(rows)
    logits[each, 2, y] += np.where(hard, 0.0, 5.0)
    logits[each, 5, y] += np.where(hard, 5.0, 1.0)
    X = np.stack([hard + rng.normal(0, 0.1, rows), y + rng.normal(0, 0.5, rows)], axis=1).astype(np.float32)
    return logits.astype(np.float32), y, X, hard


class Asked:
    """Answers from a table, and remembers every question."""

    def __init__(self, logits):
        self.logits = logits
        self.count = np.zeros(logits.shape[:2], int)

    def __call__(self, columns, rows):
        self.count[np.ix_(rows, columns)] += 1
        return self.logits[np.ix_(rows, columns)]


LOGITS, Y, X, _ = pool(0)
NEW, NEW_Y, NEW_X, HARD = pool(1)


@pytest.fixture(scope="module")
def cascade():
    found = Cascade.fit(PeerwiseClassifier(random_state=0), LOGITS, Y, X, own=[2])
    assert found is not None
    return found


@pytest.fixture(scope="module")
def full():
    return PeerwiseClassifier(own=[2], random_state=0).fit_outputs(LOGITS, Y, X)


def test_easy_rows_ask_the_own_model_alone_and_hard_ones_those_that_know(cascade):
    asked = Asked(NEW)
    found = cascade.answer(asked, len(NEW), NEW_X)
    assert found.consulted[:, 2].all()
    alone = found.consulted.sum(axis=1) == 1
    assert alone[~HARD].mean() > 0.9
    assert found.consulted[HARD, 5].mean() > 10 * found.consulted[~HARD, 5].mean()
    assert found.consulted.mean() < 0.4
    answers = found.probabilities.argmax(axis=1)
    assert (answers == NEW_Y)[HARD].mean() > 0.95
    assert (answers == NEW_Y)[~HARD].mean() > 0.95
    assert (NEW[:, 2].argmax(axis=1) == NEW_Y).mean() < 0.9


def test_no_model_is_asked_twice_about_a_row_and_what_was_asked_is_told(cascade):
    asked = Asked(NEW)
    found = cascade.answer(asked, len(NEW), NEW_X)
    assert asked.count.max() == 1
    np.testing.assert_array_equal(asked.count == 1, found.consulted)
    for stage, columns in enumerate(cascade.stages):
        expected = np.isin(np.arange(MODELS), columns)
        assert (found.consulted[found.stage == stage] == expected).all()
    assert (found.trust[~found.consulted] == 0).all()
    np.testing.assert_allclose(found.trust.sum(axis=1), 1)
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1)


def test_stages_grow_from_the_own_models_to_all(cascade):
    assert cascade.stages[0][:1] == (2,)
    assert cascade.stages[-1] == tuple(range(MODELS))
    for smaller, larger in zip(cascade.stages, cascade.stages[1:], strict=False):
        assert set(smaller) < set(larger)
    assert cascade.lost <= 0.005
    assert 0 < cascade.share < 1
    assert cascade.rows == len(Y)


def never_stopping(cascade):
    parts = [type(part)(part.columns, part.learner, 2.0) for part in cascade.parts]
    return Cascade(tuple(parts), cascade.own, cascade.lost, cascade.share, cascade.rows)


def test_a_row_that_reaches_the_end_is_answered_to_the_bit_as_by_all_models(cascade, full):
    found = never_stopping(cascade).answer(Asked(NEW), len(NEW), NEW_X)
    assert found.consulted.all()
    decision = full.decide_outputs(NEW, NEW_X)
    np.testing.assert_array_equal(found.probabilities, full.predict_proba_outputs(NEW, NEW_X))
    np.testing.assert_array_equal(found.trust, decision.trust)
    np.testing.assert_array_equal(found.fallback, decision.fallback)


def test_among_others_too_the_end_is_the_learner_of_all_models():
    """Rows on which no two models agree and the site's labels are chance: some go through all stages."""
    rng = np.random.default_rng(3)
    logits, y, X, _ = pool(3)
    y = np.where(rng.random(len(y)) < 0.1, rng.integers(0, CLASSES, len(y)), y)
    cascade = Cascade.fit(PeerwiseClassifier(random_state=0), logits, y, X, own=[2], tolerance=0.002)
    assert cascade is not None
    odd = (NEW + rng.normal(0, 2.0, NEW.shape)).astype(np.float32)
    found = cascade.answer(Asked(odd), len(odd), NEW_X)
    end = found.stage == len(cascade.stages) - 1
    assert 0 < end.sum() < len(odd)
    learner = PeerwiseClassifier(own=[2], random_state=0).fit_outputs(logits, y, X)
    np.testing.assert_array_equal(found.probabilities[end], learner.predict_proba_outputs(odd[end], NEW_X[end]))
    np.testing.assert_array_equal(found.trust[end], learner.trust_outputs(odd[end], NEW_X[end]))


def test_a_learner_that_is_there_already_is_the_last_stage(full):
    found = Cascade.fit(PeerwiseClassifier(random_state=0), LOGITS, Y, X, own=[2], full=full)
    assert found is not None
    assert found.parts[-1].learner is full


def test_rows_do_not_depend_on_the_rows_beside_them(cascade):
    together = cascade.answer(Asked(NEW), len(NEW), NEW_X)
    for row in range(0, len(NEW), 24):
        alone = cascade.answer(Asked(NEW[row : row + 1]), 1, NEW_X[row : row + 1])
        assert alone.stage[0] == together.stage[row]
        np.testing.assert_allclose(alone.probabilities[0], together.probabilities[row], atol=1e-9)


def test_a_model_without_an_answer_leaves_the_row_to_the_own_models(cascade):
    broken = NEW.copy()
    broken[:, 5] = np.nan
    asked = Asked(broken)
    found = cascade.answer(asked, len(NEW), NEW_X)
    failed = found.stage == -1
    np.testing.assert_array_equal(failed, found.consulted[:, 5])
    assert 0 < failed.sum() < len(NEW)
    assert found.fallback[failed].all()
    assert (found.trust[failed] == np.eye(MODELS)[2]).all()
    own = np.exp(NEW[:, 2]) / np.exp(NEW[:, 2]).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.probabilities[failed], own[failed], atol=1e-6)
    whole = cascade.answer(Asked(NEW), len(NEW), NEW_X)
    np.testing.assert_allclose(found.probabilities[~failed], whole.probabilities[~failed], atol=1e-9)


def test_even_without_the_own_models_there_is_an_answer(cascade):
    broken = NEW.copy()
    broken[7, 2] = np.inf
    found = cascade.answer(Asked(broken), len(NEW), NEW_X)
    assert found.stage[7] == -1
    assert found.fallback[7]
    np.testing.assert_allclose(found.probabilities[7], 1 / CLASSES)
    assert (found.stage[np.arange(len(NEW)) != 7] >= 0).all()


def test_no_rows_are_no_answers(cascade):
    asked = Asked(NEW[:0])
    found = cascade.answer(asked, 0, NEW_X[:0])
    assert found.probabilities.shape == (0, CLASSES)
    assert found.consulted.shape == (0, MODELS)


@pytest.mark.parametrize("name", ["peerwise", "peerwise_balanced", "neighbourhood", "prior_adapted", "best", "uniform"])
def test_a_cascade_of_any_learner_comes_back_exactly(name, tmp_path):
    found = Cascade.fit(clone(LEARNERS[name]), LOGITS, Y, X, own=[2], tolerance=0.2)
    assert found is not None
    Store(tmp_path).save("cascade", found.to_tree())
    twin = Cascade.from_tree(type(LEARNERS[name]), Store(tmp_path).load("cascade"))
    before, after = (each.answer(Asked(NEW), len(NEW), NEW_X) for each in (found, twin))
    for part in ("probabilities", "trust", "fallback", "consulted", "stage"):
        np.testing.assert_array_equal(getattr(before, part), getattr(after, part))
    assert (twin.own, twin.lost, twin.share, twin.rows) == (found.own, found.lost, found.share, found.rows)


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: tree.pop("stages"),
        lambda tree: tree.update(stages=[]),
        lambda tree: tree["stages"][0].pop("learner"),
        lambda tree: tree["stages"][0].update(columns=[99]),
        lambda tree: tree["stages"][0].update(columns=[-1]),
        lambda tree: tree["stages"][0].update(columns=None),
        lambda tree: tree["stages"][-1].update(columns=list(range(MODELS))[::-1]),
        lambda tree: tree["stages"][0].update(enough=float("nan")),
        lambda tree: tree["stages"].reverse(),
        lambda tree: tree["stages"].pop(),
        lambda tree: tree.update(own=[4]),
        lambda tree: tree.update(own=["2"]),
    ],
)
def test_a_cascade_that_was_tampered_with_is_refused(cascade, change):
    tree = cascade.to_tree()
    change(tree)
    with pytest.raises(ParcelError, match="saved cascade"):
        Cascade.from_tree(PeerwiseClassifier, tree)


def test_another_kind_of_learner_is_refused(cascade):
    with pytest.raises(ParcelError, match="saved PeerwiseClassifier: expected a UniformAverage"):
        Cascade.from_tree(UniformAverage, cascade.to_tree())


def test_what_is_kept_but_for_arrays_is_plain_json(cascade):
    plain = json.loads(json.dumps({key: value for key, value in cascade.to_tree().items() if key != "stages"}))
    assert plain["own"] == [2]


def test_with_few_rows_few_peers_or_one_patient_there_is_no_cascade():
    learner = PeerwiseClassifier(random_state=0)
    assert Cascade.fit(learner, LOGITS[:40], Y[:40], X[:40], own=[2]) is None
    assert Cascade.fit(learner, LOGITS[:, :3], Y, X, own=[2]) is None
    assert Cascade.fit(learner, LOGITS, Y, X, own=[2], group=np.zeros(len(Y))) is None


def test_where_every_model_counts_there_is_no_cascade():
    """No sureness tells anything: all models guess, and only their sum is right."""
    rng = np.random.default_rng(0)
    parts = rng.normal(0, 1, (400, MODELS))
    y = (parts.sum(axis=1) > 0).astype(int)
    logits = np.stack([np.zeros_like(parts), 0.2 * parts], axis=2).astype(np.float32)
    found = Cascade.fit(UniformAverage(), logits, y, own=[0], tolerance=0.0)
    assert found is None or found.share > 0.8


def test_without_own_models_the_most_useful_peers_begin():
    found = Cascade.fit(PeerwiseClassifier(random_state=0), LOGITS, Y, X, own=[])
    assert found is not None
    assert set(found.stages[0]) == {2, 5}


def test_rows_of_one_class_and_inputs_that_are_not_given_are_no_obstacle():
    one = np.ones(len(Y), int)
    found = Cascade.fit(PeerwiseClassifier(random_state=0), LOGITS, one, own=[2])
    assert found is not None
    assert np.isfinite(found.answer(Asked(NEW), len(NEW), None).probabilities).all()


def test_the_same_seed_gives_the_same_cascade(cascade):
    twin = Cascade.fit(PeerwiseClassifier(random_state=0), LOGITS, Y, X, own=[2])
    assert twin is not None
    assert twin.stages == cascade.stages
    assert [part.enough for part in twin.parts] == [part.enough for part in cascade.parts]


def test_patients_are_kept_together(monkeypatch):
    """Each patient's rows are all alike, so a learner that has seen one knows the others: no fold may split them."""
    seen = []
    patients = np.arange(len(Y)) // 4
    fit_outputs = PeerwiseClassifier.fit_outputs

    def watched(self, outputs, y, X=None, **rest):
        seen.append(set(rest["group"].tolist()))
        return fit_outputs(self, outputs, y, X, **rest)

    monkeypatch.setattr(PeerwiseClassifier, "fit_outputs", watched)
    Cascade.fit(PeerwiseClassifier(random_state=0), LOGITS, Y, X, own=[2], group=patients)
    whole = set(patients.tolist())
    folds = [whole - each for each in seen[:5]]
    assert set.union(*folds) == whole
    assert sum(map(len, folds)) == len(whole)


@pytest.mark.parametrize("tolerance", [-0.1, 1.0, float("nan")])
def test_a_tolerance_that_is_no_share_is_refused(tolerance):
    with pytest.raises(ConfigError, match="expected a share of the answers"):
        Cascade.fit(PeerwiseClassifier(), LOGITS, Y, X, own=[2], tolerance=tolerance)


def test_limits_lose_no_more_than_is_tolerated_and_more_tolerance_saves_more():
    rng = np.random.default_rng(0)
    sureness = rng.random((2, 500))
    lost = rng.random((2, 500)) > sureness**0.1
    for tolerance in (0.0, 0.01, 0.05, 0.2):
        found = limits(sureness, lost, [0.2, 0.5], tolerance)
        if found is None:
            assert tolerance < 0.01
            continue
        assert found.lost <= 2 * tolerance
    shares = [limits(sureness, lost, [0.2, 0.5], tolerance).share for tolerance in (0.05, 0.2)]
    assert shares[1] < shares[0]


def test_models_come_in_the_order_of_what_they_add_to_the_vote():
    answers = np.array([0, 1, 2, 0, 1, 2])
    says = np.stack([np.zeros(6, int), [0, 1, 0, 0, 1, 0], [0, 1, 0, 0, 1, 0], [2, 0, 2, 1, 0, 2]], axis=1)
    trust = np.array([[0.1, 0.4, 0.2, 0.3]] * 6)
    assert ranked(trust, says, answers, [0]) == [0, 1, 2, 3]
    trust = np.where((answers == 2)[:, None], [0.1, 0.1, 0.1, 0.7], [0.2, 0.4, 0.3, 0.1])
    assert ranked(trust, says, answers, [0])[:3] == [0, 1, 3]


@pytest.mark.slow
@pytest.mark.skipif(not DATA, reason="set PEERWISE_DATA to the folder of the data sets")
@pytest.mark.skipif(not POOL.is_file(), reason="the folder of pools is not beside that of the data sets")
def test_the_digits_pool_answers_as_well_with_less_than_forty_per_cent_of_the_evaluations():
    gained, asked = [], []
    with np.load(POOL, allow_pickle=False) as z:
        for site in range(10):
            logits, y = (
                np.concatenate([z[f"{part}_{x}_{site}"] for part in ("train", "val")]) for x in ("logits", "y")
            )
            found = Cascade.fit(PeerwiseClassifier(random_state=0), logits, y, own=[site])
            test, truth = z[f"test_logits_{site}"], z[f"test_y_{site}"]
            if found is None:
                asked.append(1.0)
                gained.append(0.0)
                continue
            answer = found.answer(Asked(test), len(test), None)
            everyone = found.parts[-1].learner.predict_proba_outputs(test).argmax(axis=1)
            asked.append(answer.consulted.mean())
            gained.append((answer.probabilities.argmax(axis=1) == truth).mean() - (everyone == truth).mean())
    assert np.mean(asked) <= 0.4
    assert np.mean(gained) >= -0.005
