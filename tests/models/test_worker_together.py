"""Many models asked in one turn say, and fail, as each of them does by itself."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import numpy as np
import pytest
from worker_models import linear_model, rows

from peerwise.errors import PeerwiseError
from peerwise.models import OnnxModel
from peerwise.models.worker import Limits, Worker
from peerwise.models.worker.together import logits_together, probabilities_together


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as found:
        yield found


@pytest.mark.parametrize("count", [0, 1, 7, 300_000])
def test_all_say_bit_for_bit_what_each_says_alone(worker: Worker, count: int) -> None:
    files = [linear_model(), linear_model(1)] * 3
    models = [worker.open(data, f"m{place}") for place, data in enumerate(files)]
    X = rows(count)
    for found, data in zip(logits_together(worker, models, X), files, strict=True):
        np.testing.assert_array_equal(found, OnnxModel(data).predict_logits(X))
    for found, data in zip(probabilities_together(worker, models, X), files, strict=True):
        np.testing.assert_array_equal(found, OnnxModel(data).predict_proba(X))


def test_a_model_that_cannot_answer_costs_the_others_nothing(worker: Worker) -> None:
    good, narrow = worker.open(linear_model(), "good"), worker.open(linear_model(columns=2), "narrow")
    before, failed, after = logits_together(worker, [good, narrow, good], rows(3))
    assert isinstance(failed, PeerwiseError)
    assert "'narrow'" in str(failed)
    np.testing.assert_array_equal(before, OnnxModel(linear_model()).predict_logits(rows(3)))
    np.testing.assert_array_equal(before, after)


def test_a_child_that_was_killed_is_replaced_and_all_are_asked_again() -> None:
    with Worker() as worker:
        models = [worker.open(data, "m") for data in (linear_model(), linear_model(1))]
        usual = logits_together(worker, models, rows(2))
        first = worker.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        again = logits_together(worker, models, rows(2))
        assert worker.pid != first
        for one, other in zip(usual, again, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_child_that_has_let_models_go_opens_them_again() -> None:
    one, other = linear_model(), linear_model(1)
    with Worker(Limits(most_open_bytes=max(len(one), len(other)) + 1)) as worker:
        models = [worker.open(one, "one"), worker.open(other, "other")]
        for _ in range(2):
            found = logits_together(worker, models, rows(2))
            for said, data in zip(found, (one, other), strict=True):
                np.testing.assert_array_equal(said, OnnxModel(data).predict_logits(rows(2)))
