"""check_trust_learner: the contract of a TrustLearner, tried on pools made for the purpose."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from peerwise.errors import PeerwiseError
from peerwise.trust import TrustLearner, learner_from_tree, learner_to_tree

Array = NDArray[Any]
ROWS, MODELS, CLASSES = 48, 4, 3


def check_trust_learner(learner: TrustLearner) -> None:
    """Raise an AssertionError that says what is wrong, or return.

    ``learner`` is an unfitted learner with a fixed ``random_state`` if it has one; it is cloned, never fitted.
    """
    # Two own models, because a learner may need at least one; columns are numbers because there is no pool.
    wanted = clone(learner).set_params(own=[0, 1])
    for check in CHECKS:
        check(wanted)


def made_pool(rows: int = ROWS, models: int = MODELS, classes: int = CLASSES, seed: int = 0) -> tuple[Array, Array]:
    """Logits (rows, models, classes) and labels: each model knows some classes well and guesses at others."""
    rng = np.random.default_rng(seed)
    y = np.arange(rows) % classes
    skill = np.where((np.arange(models)[:, None] + np.arange(classes)) % 2 == 0, 3.0, 0.3)
    logits = rng.normal(size=(rows, models, classes)).astype(np.float32)
    logits[np.arange(rows)[:, None], np.arange(models), y[:, None]] += skill[:, y].T
    return logits, y


def _fitted(learner: TrustLearner, rows: int = ROWS, models: int = MODELS, seed: int = 0, **given: Any) -> TrustLearner:
    outputs, y = made_pool(rows, models, seed=seed)
    fresh: TrustLearner = clone(learner)
    if models < 2:
        fresh.set_params(own=[0])
    return fresh.fit_outputs(outputs, given.pop("y", y), X=_inputs(outputs), **given)


def _validation(rows: int) -> tuple[Array, Array, Array]:
    outputs, y = made_pool(rows, seed=5)
    return outputs, y, _inputs(outputs)


def _inputs(outputs: Array) -> Array:
    return outputs[:, 0].astype(np.float64)


def _asked(learner: TrustLearner, outputs: Array) -> Array:
    return np.asarray(learner.predict_proba_outputs(outputs, _inputs(outputs)))


def _keeps_its_settings(learner: TrustLearner) -> None:
    before = repr(sorted(learner.get_params(deep=False).items(), key=lambda item: item[0]))
    fitted = _fitted(learner)
    after = repr(sorted(fitted.get_params(deep=False).items(), key=lambda item: item[0]))
    assert before == after, f"fitting changed the settings: {before} became {after}."


def _trust_is_a_distribution(learner: TrustLearner) -> None:
    fitted = _fitted(learner)
    outputs, _ = made_pool(20, seed=1)
    trust = fitted.trust_outputs(outputs, _inputs(outputs))
    assert trust.shape == (20, MODELS), f"trust has shape {trust.shape}: expected (20, {MODELS})."
    assert (trust >= 0).all(), "trust holds negative weights."
    assert np.allclose(trust.sum(axis=1), 1), "rows of trust do not sum to one."
    probabilities = _asked(fitted, outputs)
    assert np.allclose(probabilities.sum(axis=1), 1), "rows of predict_proba do not sum to one."
    if fitted.trust_is_exact:
        mixed = np.einsum("nm,nmc->nc", trust, fitted._votes(outputs))
        assert np.allclose(mixed, probabilities, atol=1e-5), "predict_proba is not the trust-weighted mix of votes."


def _answers_alone_as_in_company(learner: TrustLearner) -> None:
    fitted = _fitted(learner)
    outputs, _ = made_pool(20, seed=2)
    together = _asked(fitted, outputs)
    alone = np.concatenate([_asked(fitted, outputs[row : row + 1]) for row in range(20)])
    assert np.allclose(alone, together, atol=1e-5), "an answer depends on which other queries share its batch."
    assert _asked(fitted, outputs[:0]).shape == (0, CLASSES), "no queries should give no answers, not an error."


def _repeats_by_seed(learner: TrustLearner) -> None:
    outputs, _ = made_pool(20, seed=3)
    one, two = _asked(_fitted(learner), outputs), _asked(_fitted(learner), outputs)
    assert np.array_equal(one, two), "two fits with one random_state differ."


def _lives_with_little(learner: TrustLearner) -> None:
    outputs, _ = made_pool(6, seed=4)
    cases: dict[str, Callable[[], TrustLearner]] = {
        "a class is missing": lambda: _fitted(learner, y=np.arange(ROWS) % 2),
        "there is one class": lambda: _fitted(learner, y=np.ones(ROWS, int)),
        "a class has one row": lambda: _fitted(learner, y=(np.arange(ROWS) == 7).astype(int)),
        "there are three rows": lambda: _fitted(learner, rows=3),
        "there is one row": lambda: _fitted(learner, rows=1),
        "there are validation rows": lambda: _fitted(learner, validation=_validation(9)),
        "validation is empty": lambda: _fitted(learner, validation=_validation(0)),
        "all rows are alike": lambda: clone(learner).fit_outputs(
            np.ones((8, MODELS, CLASSES)), np.arange(8) % 3, X=np.ones((8, CLASSES))
        ),
    }
    for case, fit in cases.items():
        try:
            found = _asked(fit(), outputs)
        except Exception as error:
            raise AssertionError(f"it fails when {case}: {error!r}") from error
        assert np.isfinite(found).all(), f"answers are not finite when {case}."
    single, _ = made_pool(6, models=1, seed=4)
    found = _fitted(learner, models=1).trust_outputs(single, _inputs(single))
    assert np.allclose(found, 1), "the only model of a pool of one is not trusted fully."


def _refuses_bad_input(learner: TrustLearner) -> None:
    outputs, y = made_pool()
    broken = outputs.copy()
    broken[3, 1, 0] = np.nan
    cases: dict[str, tuple[Any, Any]] = {
        "NaN outputs": (broken, y),
        "negative labels": (outputs, y - 1),
        "unknown labels": (outputs, y + 1),
        "too few labels": (outputs, y[:-1]),
        "flat outputs": (outputs[:, 0], y),
        "no rows": (outputs[:0], y[:0]),
    }
    for case, (given, labels) in cases.items():
        try:
            clone(learner).fit_outputs(given, labels)
        except PeerwiseError:
            continue
        except Exception as error:
            raise AssertionError(f"{case} end in {type(error).__name__}: expected a PeerwiseError.") from error
        raise AssertionError(f"{case} were accepted in silence.")


def _survives_keeping(learner: TrustLearner) -> None:
    fitted = _fitted(learner)
    outputs, _ = made_pool(20, seed=6)
    again = learner_from_tree(type(fitted), learner_to_tree(fitted))
    assert np.array_equal(_asked(again, outputs), _asked(fitted, outputs)), (
        "a learner kept as a tree answers otherwise."
    )
    with tempfile.TemporaryDirectory() as folder:
        fitted.save(folder)
        loaded = type(fitted).load(folder)
    assert np.array_equal(_asked(loaded, outputs), _asked(fitted, outputs)), "a learner loaded again answers otherwise."


CHECKS: tuple[Callable[[TrustLearner], None], ...] = (
    _keeps_its_settings,
    _trust_is_a_distribution,
    _answers_alone_as_in_company,
    _repeats_by_seed,
    _lives_with_little,
    _refuses_bad_input,
    _survives_keeping,
)
