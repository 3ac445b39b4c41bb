"""scikit-learn's own checks of an estimator, on learners that make their own pool. No check is excused."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from peerwise import (
    BestSingle,
    DecisionMLP,
    FedDES,
    FedDESPaper,
    NeighbourhoodAccuracy,
    OwnOnly,
    PriorAdapted,
    UniformAverage,
)

TINY = {"epochs": 2, "hidden": 8, "random_state": 0}
FAST = [FedDES(random_state=0)]
SLOW = [
    FedDESPaper(heads=1, **TINY),
    DecisionMLP(**TINY),
    NeighbourhoodAccuracy(),
    BestSingle(),
    OwnOnly(),
    PriorAdapted(),
    UniformAverage(),
]


def checks(learners, *marks):
    for learner in learners:
        for estimator, check in estimator_checks_generator(learner):
            name = getattr(check, "func", check).__name__
            yield pytest.param(estimator, check, id=f"{type(learner).__name__}-{name}", marks=marks)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "check"), [*checks(FAST), *checks(SLOW, pytest.mark.slow)])
def test_what_scikit_learn_expects(estimator, check):
    check(estimator)
