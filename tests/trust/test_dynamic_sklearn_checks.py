"""scikit-learn's own checks of an estimator, on the dynamic rules and FedPAE. No check is excused."""

from __future__ import annotations

import pytest
from dynamic_reference import RULES
from sklearn.utils.estimator_checks import check_estimator

from peerwise.trust.fedpae import FedPAE

FEW = FedPAE(population=4, generations=2, random_state=0)
LEARNERS = [*(rule() for rule in RULES.values()), FEW]
NEEDS_ANOTHER_LIBRARY = {"check_array_api_input"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
def test_what_scikit_learn_expects(learner):
    found = check_estimator(learner, on_skip=None, on_fail=None)
    assert {each["check_name"]: each["exception"] for each in found if each["status"] == "failed"} == {}
    assert {each["check_name"] for each in found if each["status"] != "passed"} <= NEEDS_ANOTHER_LIBRARY
    assert len(found) > 40
