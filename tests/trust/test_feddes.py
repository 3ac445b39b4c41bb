"""FedDES: what its trust means, and the closed forms it rests on, against scikit-learn and hand-made cases."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from trust_cases import outputs, probabilities

from peerwise import FedDES, PriorAdapted
from peerwise.errors import ConfigError, DataError
from peerwise.trust import kernel, posterior
from peerwise.trust.kernel import Smooth, spread_rows
from peerwise.trust.posterior import ByInput, Linear


def rows_of(seed: int, rows: int):
    logits, y, _ = outputs(seed, rows)
    return np.sqrt(probabilities(logits).reshape(rows, -1)).astype(np.float32), y


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 99), st.integers(1, 30), st.integers(1, 12))
def test_the_answer_is_the_trust_in_those_who_give_it(seed: int, rows: int, asked: int) -> None:
    logits, y, _ = outputs(seed, rows)
    queries, _, _ = outputs(seed + 1, asked)
    learner = FedDES(own=[0]).fit_outputs(logits, y)
    trust, says = learner.trust_outputs(queries), queries.argmax(axis=2)
    expected = np.stack([(trust * (says == label)).sum(axis=1) for label in range(3)], axis=1)
    answers = learner.predict_proba_outputs(queries)
    np.testing.assert_allclose(answers, (rows * expected + 1 / 3) / (rows + 1), atol=1e-6)
    assert all(answer in given for answer, given in zip(answers.argmax(axis=1), says, strict=True))


def test_every_choice_of_the_kernel_is_that_of_leaving_each_row_out() -> None:
    features, y = rows_of(0, 60)
    targets = np.eye(3, dtype=np.float32)[y]
    scale = 1 / (features.shape[1] * features.var())
    errors = {}
    for width in kernel.WIDTHS:
        for strength in kernel.STRENGTHS:
            oracle = KernelRidge(alpha=strength, kernel="rbf", gamma=width * scale)
            mean = targets.mean(axis=0)
            left = np.arange(60)[:, None] != np.arange(60)
            wrong = [
                targets[i] - mean - oracle.fit(features[kept], targets[kept] - mean).predict(features[i : i + 1])[0]
                for i, kept in enumerate(left)
            ]
            errors[width, strength] = float(np.square(wrong).sum())
    width, strength = min(errors, key=errors.get)
    found = Smooth.fit(features, targets, y, 3, 0)
    assert found.gamma == pytest.approx(width * scale)
    oracle = KernelRidge(alpha=strength, kernel="rbf", gamma=width * scale).fit(features, targets - mean)
    queries, _ = rows_of(1, 20)
    np.testing.assert_allclose(found(queries), oracle.predict(queries) + mean, atol=1e-4)


def test_many_rows_are_stood_for_by_some_of_every_class() -> None:
    y = np.array([0] * 5000 + [1] * 30 + [2] * 700)
    chosen = spread_rows(y, 1000, 0)
    assert len(set(chosen)) == 1000
    assert np.bincount(y[chosen]).tolist() == [485, 30, 485]
    assert (chosen == spread_rows(y, 1000, 0)).all()
    assert (chosen != spread_rows(y, 1000, 1)).any()


def test_landmarks_answer_nearly_as_all_rows_do(monkeypatch) -> None:
    features, y = rows_of(2, 900)
    queries, _ = rows_of(3, 300)
    targets = np.eye(3, dtype=np.float32)[y]
    everything = Smooth.fit(features, targets, y, 3, 0)(queries)
    monkeypatch.setattr(kernel, "LANDMARKS", 300)
    monkeypatch.setattr(kernel, "BLOCK", 128)
    some = Smooth.fit(features, targets, y, 3, 0)
    assert len(some.landmarks) == 300
    assert np.abs(some(queries) - everything).mean() < 0.03


@pytest.mark.parametrize("present", [[0, 1, 2], [0, 2], [1]])
def test_the_linear_posterior_is_that_of_scikit_learn(present: list[int]) -> None:
    features, y = rows_of(4, 80)
    kept = np.isin(y, present)
    found = Linear.fit(features[kept], y[kept], 3)(features)
    expected = np.zeros((80, 3))
    expected[:, present] = 1.0
    if len(present) > 1:
        model = LogisticRegression(max_iter=300).fit(features[kept], y[kept])
        expected[:, present] = model.predict_proba(features)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_no_model_is_believed_that_is_never_right() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    logits = np.zeros((200, 3, 3), dtype=np.float32)
    logits[np.arange(200), 0, y] = 4.0  # always right
    logits[np.arange(200), 1, (y + 1) % 3] = 4.0  # always wrong
    logits[:, 2, 0] = 4.0  # always says class 0
    learner = FedDES(own=[2]).fit_outputs(logits[:150], y[:150])
    trust = learner.trust_outputs(logits[150:])
    assert (learner.predict_proba_outputs(logits[150:]).argmax(axis=1) == y[150:]).all()
    assert trust[:, 1].max() < 0.05
    assert (trust[y[150:] != 0, 2] < 0.05).all()


def test_where_nobody_says_what_the_site_knows_its_own_models_answer() -> None:
    logits = np.zeros((20, 3, 3), dtype=np.float32)
    logits[:, :, 1] = 5.0
    learner = FedDES(own=[1]).fit_outputs(logits, np.zeros(20, dtype=int))  # only class 0, which no model says
    decision = learner.decide_outputs(logits)
    assert decision.fallback.all()
    np.testing.assert_allclose(decision.trust, np.tile([0, 1, 0], (20, 1)))


def test_balance_trades_accuracy_for_the_rare_class() -> None:
    rng = np.random.default_rng(1)
    y = (rng.random(1200) < 0.1).astype(int)
    logits = rng.normal(0, 1.5, (1200, 5, 2))
    logits[np.arange(1200), :, y] += 1.0
    logits[:, :, 0] += 1.5
    plain, fair = (
        FedDES(balance=balance).fit_outputs(logits[:600], y[:600]).predict_proba_outputs(logits[600:]).argmax(axis=1)
        for balance in (0.0, 0.8)
    )
    assert (plain == y[600:]).mean() > (fair == y[600:]).mean()
    assert balanced_accuracy_score(y[600:], fair) > balanced_accuracy_score(y[600:], plain) + 0.05


def dim_pool(rows: int):
    """Labels that the first input tells, and models that are often wrong wherever they look."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(rows, 4)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    logits = rng.normal(size=(rows, 5, 2)).astype(np.float32)
    logits[np.arange(rows), :, y] += 0.5
    return logits, y, X


def test_the_inputs_tell_what_the_models_do_not() -> None:
    logits, y, X = dim_pool(900)
    seeing = FedDES().fit_outputs(logits[:400], y[:400], X[:400])
    answers = seeing.predict_proba_outputs(logits[400:], X[400:]).argmax(axis=1)
    blind = FedDES(features="decision").fit_outputs(logits[:400], y[:400], X[:400])
    without = blind.predict_proba_outputs(logits[400:]).argmax(axis=1)
    assert (answers == y[400:]).mean() > (without == y[400:]).mean() + 0.05
    right = logits[400:].argmax(axis=2) == y[400:, None]
    on_wrong, blindly = (
        (trust * ~right).sum() / trust.sum()
        for trust in (seeing.trust_outputs(logits[400:], X[400:]), blind.trust_outputs(logits[400:]))
    )
    assert on_wrong < blindly - 0.02


def test_inputs_that_were_learned_from_are_asked_for() -> None:
    logits, y, X = dim_pool(60)
    learner = FedDES().fit_outputs(logits, y, X)
    with pytest.raises(DataError, match="X is missing"):
        learner.trust_outputs(logits)
    with pytest.raises(DataError, match="3 input values a row: expected 4"):
        learner.trust_outputs(logits, X[:, :3])
    with pytest.raises(ConfigError, match="'decision' or 'both'"):
        FedDES(features="input").fit_outputs(logits, y, X)


def test_validation_rows_without_inputs_teach_the_rest() -> None:
    logits, y, X = dim_pool(90)
    bare = FedDES().fit_outputs(logits[:60], y[:60], X[:60], validation=(logits[60:], y[60:]))
    full = FedDES().fit_outputs(logits[:60], y[:60], X[:60], validation=(logits[60:], y[60:], X[60:]))
    assert len(bare.by_input_.smooth.landmarks) == 60
    assert len(full.by_input_.smooth.landmarks) == len(bare.smooth_.landmarks) == 90


def test_of_very_many_inputs_some_are_learned_from(monkeypatch) -> None:
    monkeypatch.setattr(posterior, "ROWS", 200)
    _, y, X = dim_pool(600)
    parts = [(X[:450], y[:450]), (X[450:], y[450:])]
    some, same, other = (ByInput.fit(parts, 2, seed) for seed in (0, 0, 1))
    assert len(some.smooth.landmarks) == 200
    np.testing.assert_array_equal(some(X), same(X))
    assert (some(X) != other(X)).any()
    assert (some(X).argmax(axis=1) == y).mean() > 0.85


def test_inputs_without_numbers_are_looked_at_through_the_models_only() -> None:
    logits, y, X = dim_pool(60)
    texts = np.array([f"patient {row}" for row in range(60)], dtype=object)
    nameless = pd.DataFrame({"name": texts})
    for inputs in (texts, nameless, scipy.sparse.csr_matrix(X)):
        with pytest.warns(UserWarning, match="the inputs are left out: X "):
            learner = FedDES().fit_outputs(logits, y, inputs)
        same = FedDES(features="decision").fit_outputs(logits, y, inputs)
        np.testing.assert_array_equal(learner.trust_outputs(logits, inputs), same.trust_outputs(logits))
    none = FedDES().fit_outputs(logits, y, X[:, :0])
    np.testing.assert_array_equal(none.trust_outputs(logits, X[:, :0]), same.trust_outputs(logits))


def test_a_column_of_names_or_dates_is_left_out_of_the_inputs() -> None:
    logits, y, X = dim_pool(300)
    plain = pd.DataFrame(X, columns=list("abcd"))
    full = plain.assign(name=[f"patient {row}" for row in range(300)], day=pd.date_range("2020-01-01", periods=300))
    kept = plain.assign(ward=np.where(X[:, 1] > 0, "north", "south"))
    expected, found, with_ward = (
        FedDES().fit_outputs(logits, y, frame).trust_outputs(logits, frame) for frame in (plain, full, kept)
    )
    np.testing.assert_array_equal(found, expected)
    assert (with_ward != expected).any()


def test_one_impossible_value_does_not_silence_the_models() -> None:
    logits, y, X = dim_pool(200)
    learner = FedDES().fit_outputs(logits, y, X)
    asked = X[:5].astype(np.float64)
    asked[0, 0] = 1e200
    trust = learner.trust_outputs(logits[:5], asked)
    assert np.isfinite(trust).all()
    np.testing.assert_array_equal(trust[1:], learner.trust_outputs(logits[:5], X[:5].astype(np.float64))[1:])
    by_answer = learner.predict_proba_outputs(logits[:5], asked)[0]
    assert by_answer.max() < 0.99


def test_validation_rows_are_learned_from() -> None:
    logits, y, _ = outputs(5, 120)
    joined = FedDES().fit_outputs(logits, y)
    apart = FedDES().fit_outputs(logits[:80], y[:80], validation=(logits[80:], y[80:]))
    np.testing.assert_array_equal(joined.trust_outputs(logits), apart.trust_outputs(logits))


@pytest.mark.parametrize("balance", [-0.1, 1.5, "much", True, float("nan")])
def test_a_balance_that_cannot_work_is_refused(balance: object) -> None:
    logits, y, _ = outputs(0, 10)
    with pytest.raises(ConfigError, match="from 0 to 1"):
        FedDES(balance=balance).fit_outputs(logits, y)


@pytest.mark.parametrize("power", [-1, float("inf"), float("nan"), "much", True])
def test_a_power_that_cannot_work_is_refused(power: object) -> None:
    logits, y, _ = outputs(0, 10)
    with pytest.raises(ConfigError, match="finite number from 0"):
        PriorAdapted(power=power).fit_outputs(logits, y)


def test_outputs_that_hardly_differ_are_learned_from_all_the_same() -> None:
    rng = np.random.default_rng(0)
    for rows in (50, 1200):
        logits = 1e-7 * rng.normal(size=(rows, 20, 10))
        y = rng.integers(0, 10, rows)
        found = FedDES().fit_outputs(logits, y).predict_proba_outputs(logits[:5])
        assert np.isfinite(found).all()
