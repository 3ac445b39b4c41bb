"""PeerwiseClassifier: what its trust means, and the closed forms it rests on, against scikit-learn and small cases."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_classification
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, log_loss
from trust_cases import outputs, probabilities

from peerwise import PeerwiseClassifier, Pool, PriorAdapted, UniformAverage, wrap
from peerwise.errors import ConfigError, DataError, ModelError
from peerwise.trust import kernel, posterior
from peerwise.trust.kernel import JITTER, STRENGTHS, Centers, Smooth, similarity, spread_rows
from peerwise.trust.posterior import ByInput, Linear, LogPool


def rows_of(seed: int, rows: int):
    logits, y, _ = outputs(seed, rows)
    return np.sqrt(probabilities(logits).reshape(rows, -1)).astype(np.float32), y


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 99), st.integers(1, 30), st.integers(1, 12), st.sampled_from([(), (0,), (0, 2)]))
def test_answers_trust_and_influence_keep_their_laws(seed: int, rows: int, asked: int, own: tuple[int, ...]) -> None:
    logits, y, _ = outputs(seed, rows)
    queries, _, _ = outputs(seed + 1, asked)
    learner = PeerwiseClassifier(own=own).fit_outputs(logits, y)
    found, decision = learner.answer_outputs(queries)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_allclose(decision.trust.sum(axis=1), 1)
    assert (found > 0).all()
    assert (decision.trust > 0).all()
    influence = learner.influence_outputs(queries)
    assert influence.shape == (asked, len(learner.sites_))
    assert (np.abs(influence) <= 1).all()


def test_the_answer_is_the_log_linear_pool_of_all_estimates() -> None:
    logits, y, _ = outputs(3, 200)
    X = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32) + y[:, None]
    learner = PeerwiseClassifier(own=[0, 1]).fit_outputs(logits, y, X)
    estimates, competence, P = learner._estimates(logits[:20], X[:20])
    assert len(estimates) == len(learner.log_pool_.weights) == 5
    frequencies = (np.bincount(y, minlength=3) + 0.5 / 3) / (200 + 0.5)

    def pooled(parts, pool):
        mixed = [(200 * part + frequencies) / 201 for part in parts]
        found = np.exp(pool.bias) * np.prod([each**a for each, a in zip(mixed, pool.weights, strict=True)], axis=0)
        return found / found.sum(axis=1, keepdims=True)

    expected = pooled(estimates, learner.log_pool_)
    np.testing.assert_allclose(learner.predict_proba_outputs(logits[:20], X[:20]), expected, atol=1e-9)
    np.testing.assert_allclose(estimates[0], P.mean(axis=1), atol=1e-6)
    models = [P[:, model].astype(np.float64) for model in range(P.shape[1])]
    np.testing.assert_allclose(estimates[1], pooled(models, learner.models_), atol=1e-9)
    vote = np.einsum("nm,nmc->nc", competence / competence.sum(axis=1, keepdims=True), P)
    np.testing.assert_allclose(estimates[3], vote, atol=1e-6)
    shares = competence[:, :, None] * P / np.einsum("nm,nmc->nc", competence, P)[:, None]
    np.testing.assert_allclose(
        learner.trust_outputs(logits[:20], X[:20]), np.einsum("nc,nmc->nm", expected, shares), atol=1e-6
    )


def test_pooling_weights_have_the_smallest_penalized_loss_of_held_out_rows() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    estimates = [rng.dirichlet(np.ones(3), 120) for _ in range(3)]
    estimates[1] = 0.6 * np.eye(3)[y] + 0.4 * estimates[1]
    prior = np.full(3, 1 / 3)
    best = LogPool.fit(estimates, y, np.ones(120), prior, 120)

    def loss(weights, bias):
        said = LogPool(weights, bias, prior, 120)(estimates)[np.arange(120), y]
        away = (
            posterior.SHRINKAGE * 3 * np.square(weights - 1 / 3).sum()
            + posterior.BIAS_SHRINKAGE * np.square(bias).sum()
        )
        return -np.log(said).sum() + away / 2

    assert best.weights.argmax() == 1
    for step in np.concatenate([np.eye(3), -np.eye(3)]) * 0.02:
        assert loss(np.maximum(best.weights + step, 0), best.bias) >= loss(best.weights, best.bias) - 1e-6
        assert loss(best.weights, best.bias + step) >= loss(best.weights, best.bias) - 1e-6


def test_a_site_whose_models_all_lean_to_one_class_is_corrected_by_a_bias() -> None:
    rng = np.random.default_rng(0)
    y = (rng.uniform(size=400) < 0.2).astype(np.int64)
    scores = rng.normal(size=(400, 3)) + 1.5 * y[:, None]
    leaning = 1 / (1 + np.exp(-scores - 1))  # all of them say the rare class too often
    models = np.stack([1 - leaning, leaning], axis=2).transpose(1, 0, 2)
    found = LogPool.fit(models, y, np.ones(400), np.array([0.8, 0.2]), 400)
    assert found.bias[1] < 0 < found.bias[0]
    assert found(models)[:, 1].mean() == pytest.approx(y.mean(), abs=0.05)
    assert models[:, :, 1].mean() > 0.6


def test_pooling_many_rows_is_pooling_them_block_by_block() -> None:
    rng = np.random.default_rng(0)
    models = rng.dirichlet(np.ones(3), (4, 2 * kernel.BLOCK + 5))
    pool = LogPool(np.array([0.5, 0.0, 1.0, 0.2]), np.array([0.1, 0.0, -0.1]), np.full(3, 1 / 3), 50)
    np.testing.assert_allclose(pool(models)[-7:], pool(models[:, -7:]))
    assert pool(models[:, :0]).shape == (0, 3)


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
    found, held_out = Smooth.fit(features, targets, y, 3, 0)
    oracle = KernelRidge(alpha=strength, kernel="rbf", gamma=width * scale)
    expected = [
        mean + oracle.fit(features[kept], targets[kept] - mean).predict(features[i : i + 1])[0]
        for i, kept in enumerate(left)
    ]
    np.testing.assert_allclose(held_out, expected, atol=1e-3)
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
    everything = Smooth.fit(features, targets, y, 3, 0)[0](queries)
    monkeypatch.setattr(kernel, "LANDMARKS", 300)
    monkeypatch.setattr(kernel, "BLOCK", 128)
    some, _ = Smooth.fit(features, targets, y, 3, 0)
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
    learner = PeerwiseClassifier(own=[2]).fit_outputs(logits[:150], y[:150])
    trust = learner.trust_outputs(logits[150:])
    assert (learner.predict_proba_outputs(logits[150:]).argmax(axis=1) == y[150:]).all()
    assert trust[:, 1].max() < 0.05
    assert (trust[y[150:] != 0, 2] < 0.05).all()


def test_where_the_models_are_always_wrong_the_sites_own_rows_answer() -> None:
    logits = np.zeros((20, 3, 3), dtype=np.float32)
    logits[:, :, 1] = 5.0
    only_class_0 = np.zeros(20, dtype=int)
    learner = PeerwiseClassifier(own=[1]).fit_outputs(logits, only_class_0)
    found, decision = learner.answer_outputs(logits)
    assert decision.fallback.all()
    assert (found.argmax(axis=1) == 0).all()


def test_a_metric_changes_answers_and_never_probabilities() -> None:
    rng = np.random.default_rng(1)
    y = (rng.random(1200) < 0.1).astype(int)
    logits = rng.normal(0, 1.5, (1200, 5, 2))
    logits[np.arange(1200), :, y] += 1.0
    logits[:, :, 0] += 1.5
    plain, fair = (
        PeerwiseClassifier(metric=metric).fit_outputs(logits[:600], y[:600])
        for metric in ("accuracy", "balanced_accuracy")
    )
    said = plain.predict_proba_outputs(logits[600:])
    np.testing.assert_array_equal(said, fair.predict_proba_outputs(logits[600:]))
    assert abs(said[:, 1].mean() - y[600:].mean()) < 0.03
    assert (plain.answers(said) == said.argmax(axis=1)).all()
    assert (plain.answers(said) == y[600:]).mean() > (fair.answers(said) == y[600:]).mean()
    gain = balanced_accuracy_score(y[600:], fair.answers(said)) - balanced_accuracy_score(y[600:], plain.answers(said))
    assert gain > 0.05


def test_predict_follows_the_metric_and_survives_saving(tmp_path) -> None:
    X, y = make_classification(600, weights=[0.92], class_sep=0.7, random_state=0)
    plain = PeerwiseClassifier(random_state=0).fit(X[:400], y[:400])
    fair = PeerwiseClassifier(random_state=0, metric="balanced_accuracy").fit(X[:400], y[:400])
    assert (fair.predict(X[400:]) == 1).sum() > (plain.predict(X[400:]) == 1).sum()
    fair.save(tmp_path)
    np.testing.assert_array_equal(PeerwiseClassifier.load(tmp_path).predict(X[400:]), fair.predict(X[400:]))


def test_probabilities_mean_what_they_say_where_models_claim_too_much() -> None:
    """Five copies of one overconfident model: hard votes would claim certainty."""
    rng = np.random.default_rng(2)
    y = rng.integers(0, 2, 1400)
    score = rng.normal(size=1400) + (2 * y - 1) * 0.6
    logits = np.zeros((1400, 5, 2), dtype=np.float32)
    logits[:, :, 1] = 8 * score[:, None]
    said = PeerwiseClassifier(own=[0]).fit_outputs(logits[:400], y[:400]).predict_proba_outputs(logits[400:])
    sure = said.max(axis=1)
    right = said.argmax(axis=1) == y[400:]
    assert abs(sure.mean() - right.mean()) < 0.03
    assert log_loss(y[400:], said) < log_loss(y[400:], np.full(1000, 0.5)) - 0.1


def test_influence_is_what_leaving_a_site_out_changes() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    logits = rng.normal(0, 0.3, (300, 4, 2)).astype(np.float32)
    logits[np.arange(300), 0, y] += 3.0  # the first model knows, the others guess
    learner = PeerwiseClassifier(own=[3]).fit_outputs(logits[:200], y[:200])
    assert learner.sites_ == ["model-0", "model-1", "model-2", "own"]
    influence = learner.influence_outputs(logits[200:])
    assert (influence[:, 0] > 0.1).mean() > 0.9
    assert np.abs(influence[:, 1:]).mean() < 0.05
    learner.model_names_ = ["a@north", "b@north", "a@south", "mine@here"]
    assert learner.sites_ == ["north", "south", "here"]
    assert learner.influence_outputs(logits[200:]).shape == (100, 3)


def test_the_influence_of_a_vote_is_exact() -> None:
    logits, y, _ = outputs(0, 30)
    learner = UniformAverage().fit_outputs(logits, y)
    found = learner.predict_proba_outputs(logits)
    answers = found.argmax(axis=1)
    others = probabilities(logits)[:, 1:].mean(axis=1)
    expected = (found - others)[np.arange(30), answers]
    np.testing.assert_allclose(learner.influence_outputs(logits)[:, 0], expected, atol=1e-6)


def test_rows_of_no_weight_are_not_there_and_weights_count_rows() -> None:
    X, y = make_classification(300, flip_y=0.2, random_state=1)
    pool = {
        "a": LogisticRegression().fit(X[:100, :9], y[:100]),
        "b": LogisticRegression().fit(X[50:150, 9:], y[50:150]),
    }
    pool = Pool([wrap(pool["a"], name="a", transform=_first_nine), wrap(pool["b"], name="b", transform=_last)])
    kept = np.arange(300) % 3 > 0
    zero = PeerwiseClassifier(pool).fit(X, y, sample_weight=kept.astype(float))
    gone = PeerwiseClassifier(pool).fit(X[kept], y[kept])
    np.testing.assert_allclose(zero.predict_proba(X), gone.predict_proba(X))
    tilted = PeerwiseClassifier(pool).fit(X, y, sample_weight=1.0 + 4 * y)
    assert tilted.predict_proba(X)[:, 1].mean() > PeerwiseClassifier(pool).fit(X, y).predict_proba(X)[:, 1].mean() + 0.1
    for bad in (np.ones(4), -np.ones(300), np.zeros(300)):
        with pytest.raises(DataError, match="sample_weight"):
            PeerwiseClassifier(pool).fit(X, y, sample_weight=bad)


def _first_nine(X):
    return X[:, :9]


def _last(X):
    return X[:, 9:]


def test_names_and_number_of_columns_are_kept_as_scikit_learn_keeps_them() -> None:
    X, y = make_classification(80, random_state=0)
    frame = pd.DataFrame(X, columns=[f"c{place}" for place in range(20)])
    learner = PeerwiseClassifier({"m": LogisticRegression().fit(frame, y)}).fit(frame, y)
    assert learner.n_features_in_ == 20
    assert learner.feature_names_in_.tolist() == list(frame.columns)
    with pytest.raises(ModelError, match="feature names should match"):
        learner.predict(frame.rename(columns={"c3": "other"}))
    with pytest.raises(ModelError, match="19 features"):
        PeerwiseClassifier({"m": LogisticRegression().fit(X, y)}).fit(X, y).predict(X[:, :19])


def test_columns_in_another_order_are_put_right_and_others_refused(tmp_path) -> None:
    """Even where the models were fitted to arrays and would take any columns."""
    X, y = make_classification(80, random_state=0)
    frame = pd.DataFrame(X, columns=[f"c{place}" for place in range(20)])
    model = wrap(LogisticRegression().fit(X, y), name="m", transform=lambda rows: np.asarray(rows))
    learner = PeerwiseClassifier([model]).fit(frame, y)
    expected = learner.predict_proba(frame)
    np.testing.assert_array_equal(learner.predict_proba(frame[frame.columns[::-1]]), expected)
    with pytest.raises(ValueError, match="feature names should match"):
        learner.predict(frame.rename(columns={"c3": "other"}))
    plain = PeerwiseClassifier({"m": LogisticRegression().fit(frame, y)}).fit(frame, y)
    plain.save(tmp_path)
    twin = PeerwiseClassifier.load(tmp_path)
    assert twin.n_features_in_ == 20
    assert twin.feature_names_in_.tolist() == list(frame.columns)


def patients_rows(seed: int):
    """Eight alike rows of each of 60 patients, whose label the inputs tell of the known patients alone."""
    rng = np.random.default_rng(seed)
    patients = np.repeat(np.arange(60), 8)
    y = rng.integers(0, 2, 60)[patients]
    X = (rng.normal(size=(60, 4))[patients] + rng.normal(scale=0.01, size=(480, 4))).astype(np.float32)
    says = np.where(rng.random((480, 3)) < 0.8, y[:, None], 1 - y[:, None])
    return 2 * np.eye(2, dtype=np.float32)[says], y, X, patients


def test_rows_of_a_patient_are_held_out_together() -> None:
    logits, y, X, patients = patients_rows(0)
    new_logits, new_y, new_X, _ = patients_rows(1)
    some = patients < 45
    parts = logits[~some], y[~some], X[~some], patients[~some]
    learners = {
        "apart": PeerwiseClassifier().fit_outputs(logits, y, X),
        "together": PeerwiseClassifier().fit_outputs(logits, y, X, group=patients),
        "with validation rows": PeerwiseClassifier().fit_outputs(
            logits[some], y[some], X[some], validation=parts, group=patients[some]
        ),
    }
    losses = {name: log_loss(new_y, each.predict_proba_outputs(new_logits, new_X)) for name, each in learners.items()}
    models_alone = PeerwiseClassifier().fit_outputs(logits, y).predict_proba_outputs(new_logits)
    assert losses["apart"] > log_loss(new_y, models_alone) + 0.3, "row by row, inputs seem to tell the label"
    assert losses["together"] < log_loss(new_y, models_alone) + 0.1
    assert losses["with validation rows"] < log_loss(new_y, models_alone) + 0.1


def test_groups_are_left_out_of_a_kernel_as_by_fitting_without_them() -> None:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(40, 3)).astype(np.float32)
    targets, y = rng.normal(size=(40, 2)).astype(np.float32), rng.integers(0, 2, 40)
    group, weight = rng.integers(0, 12, 40), rng.uniform(0.5, 2.0, 40)
    made, held_out = Smooth.fit(features, targets, y, 2, 0, weight, group)
    mean = np.average(targets.astype(float), axis=0, weights=weight)
    near = similarity(features, Centers.of(features), made.gamma)
    among = near + JITTER * np.eye(40)

    def without(code: int, strength: float) -> np.ndarray:
        rest, left = group != code, group == code
        gram = near[rest].T @ (weight[rest, None] * near[rest]) + strength * among
        return near[left] @ np.linalg.solve(gram, near[rest].T @ (weight[rest, None] * (targets - mean)[rest])) + mean

    chosen = [s for s in STRENGTHS if np.allclose(without(group[0], s), held_out[group == group[0]], atol=1e-4)]
    assert len(chosen) == 1
    for code in np.unique(group):
        np.testing.assert_allclose(held_out[group == code], without(code, chosen[0]), atol=1e-4)


def test_thresholds_and_row_numbers_follow_the_weights() -> None:
    rng = np.random.default_rng(2)
    y = (rng.random(400) < 0.15).astype(int)
    X = rng.normal(size=(400, 2)).astype(np.float32)
    pool = Pool({"m": LogisticRegression().fit(X, y)})
    balanced = np.where(y == 1, 1 / y.mean(), 1 / (1 - y.mean()))
    learner = PeerwiseClassifier(pool, metric="balanced_accuracy").fit(X, y, sample_weight=balanced)
    np.testing.assert_allclose(learner.thresholds_, 1.0, atol=0.05)
    some = PeerwiseClassifier(pool).fit(X, y, sample_weight=np.arange(400) >= 300)
    assert min(case.row for case in some.explain(X[0]).neighbours) >= 300
    assert all(case.label == y[case.row] for case in some.explain(X[0]).neighbours)


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
    seeing = PeerwiseClassifier().fit_outputs(logits[:400], y[:400], X[:400])
    answers = seeing.predict_proba_outputs(logits[400:], X[400:]).argmax(axis=1)
    blind = PeerwiseClassifier(features="decision").fit_outputs(logits[:400], y[:400], X[:400])
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
    learner = PeerwiseClassifier().fit_outputs(logits, y, X)
    with pytest.raises(DataError, match="X is missing"):
        learner.trust_outputs(logits)
    with pytest.raises(DataError, match="3 input values a row: expected 4"):
        learner.trust_outputs(logits, X[:, :3])
    with pytest.raises(ConfigError, match="'decision' or 'both'"):
        PeerwiseClassifier(features="input").fit_outputs(logits, y, X)


def test_validation_rows_without_inputs_teach_the_rest() -> None:
    logits, y, X = dim_pool(90)
    bare = PeerwiseClassifier().fit_outputs(logits[:60], y[:60], X[:60], validation=(logits[60:], y[60:]))
    full = PeerwiseClassifier().fit_outputs(logits[:60], y[:60], X[:60], validation=(logits[60:], y[60:], X[60:]))
    assert len(bare.by_input_.smooth.landmarks) == 60
    assert len(full.by_input_.smooth.landmarks) == len(bare.smooth_.landmarks) == 90


def test_of_very_many_inputs_some_are_learned_from(monkeypatch) -> None:
    monkeypatch.setattr(posterior, "ROWS", 200)
    _, y, X = dim_pool(600)
    parts = [X[:450], X[450:]]
    some, same, other = (ByInput.fit(parts, y, 2, seed, np.ones(600))[0] for seed in (0, 0, 1))
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
            learner = PeerwiseClassifier().fit_outputs(logits, y, inputs)
        same = PeerwiseClassifier(features="decision").fit_outputs(logits, y, inputs)
        np.testing.assert_array_equal(learner.trust_outputs(logits, inputs), same.trust_outputs(logits))
    none = PeerwiseClassifier().fit_outputs(logits, y, X[:, :0])
    np.testing.assert_array_equal(none.trust_outputs(logits, X[:, :0]), same.trust_outputs(logits))


def test_a_column_of_names_or_dates_is_left_out_of_the_inputs() -> None:
    logits, y, X = dim_pool(300)
    plain = pd.DataFrame(X, columns=list("abcd"))
    full = plain.assign(name=[f"patient {row}" for row in range(300)], day=pd.date_range("2020-01-01", periods=300))
    kept = plain.assign(ward=np.where(X[:, 1] > 0, "north", "south"))
    expected, found, with_ward = (
        PeerwiseClassifier().fit_outputs(logits, y, frame).trust_outputs(logits, frame) for frame in (plain, full, kept)
    )
    np.testing.assert_array_equal(found, expected)
    assert (with_ward != expected).any()


def test_one_impossible_value_does_not_silence_the_models() -> None:
    logits, y, X = dim_pool(200)
    learner = PeerwiseClassifier().fit_outputs(logits, y, X)
    asked = X[:5].astype(np.float64)
    asked[0, 0] = 1e200
    trust = learner.trust_outputs(logits[:5], asked)
    assert np.isfinite(trust).all()
    np.testing.assert_array_equal(trust[1:], learner.trust_outputs(logits[:5], X[:5].astype(np.float64))[1:])
    by_answer = learner.predict_proba_outputs(logits[:5], asked)[0]
    assert by_answer.max() < 0.99


def test_validation_rows_are_learned_from() -> None:
    logits, y, _ = outputs(5, 120)
    joined = PeerwiseClassifier().fit_outputs(logits, y)
    apart = PeerwiseClassifier().fit_outputs(logits[:80], y[:80], validation=(logits[80:], y[80:]))
    np.testing.assert_array_equal(joined.trust_outputs(logits), apart.trust_outputs(logits))


@pytest.mark.parametrize("metric", ["auroc", 1, True])
def test_a_metric_without_a_rule_is_refused(metric: object) -> None:
    logits, y, _ = outputs(0, 10)
    with pytest.raises(ConfigError, match="'accuracy', 'balanced_accuracy' or None"):
        PeerwiseClassifier(metric=metric).fit_outputs(logits, y)


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
        found = PeerwiseClassifier().fit_outputs(logits, y).predict_proba_outputs(logits[:5])
        assert np.isfinite(found).all()
