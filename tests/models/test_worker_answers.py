"""Peers' models in a process of their own say what they say in this one, bit for bit, and fail in the same way."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from model_rows import cancer_with_gaps, digit_images, digit_sequences
from sklearn.linear_model import LogisticRegression
from worker_models import CLASSES, COLUMNS, image_model, linear_model, random_model, rows, text_model

from peerwise.data.rows import Rows, Sequences
from peerwise.errors import BadOutputs, BrokenFile, ModelError, PeerwiseError, WorkerError
from peerwise.models import ZOO, OnnxModel, export, find_recipe, wrap
from peerwise.models.worker import Limits, Worker, contract
from peerwise.models.worker.replies import Facts

QUICK = ["logistic", "forest", "boosting", "mlp", "small_cnn", "tcn", "cnn1d", "lstm"]
SLOW = [name for name in ZOO if name not in QUICK]


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as found:
        yield found


def _rows_of(kind: str) -> tuple[Rows, tuple[Any, ...], int]:
    if kind == "table":
        table, features = cancer_with_gaps()
        return table, features, 2
    found = digit_images(32, 3) if kind == "image" else digit_sequences()
    return found.take(slice(0, 150)), (), 10


def _file_of(name: str) -> tuple[bytes, Any]:
    found, features, classes = _rows_of(ZOO[name].kind)
    some = found.take(slice(0, 80))
    fitted = find_recipe(name).fit(some, None, classes=classes, features=features, seed=0, max_epochs=1)
    return fitted.to_onnx(), found.X


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_every_recipe_answers_bit_for_bit_as_in_this_process(name: str, worker: Worker) -> None:
    data, X = _file_of(name)
    there, here = worker.open(data, name), OnnxModel(data, name=name)
    np.testing.assert_array_equal(there.predict_logits(X), here.predict_logits(X))
    np.testing.assert_array_equal(there.predict_proba(X), here.predict_proba(X))
    assert (there.width, there.inputs, there.input_shapes) == (here.width, here.inputs, here.input_shapes)


@pytest.mark.parametrize("count", [0, 1, 131_072, 131_073, 300_000])
def test_large_inputs_go_in_the_same_slices(count: int, worker: Worker) -> None:
    X, data = rows(count), linear_model()
    said = worker.open(data, "m").predict_logits(X)
    assert said.shape == (count, CLASSES)
    np.testing.assert_array_equal(said, OnnxModel(data).predict_logits(X))


@pytest.mark.parametrize("kind", ["float64", "int64", "every second row", "columns first", "a list"])
def test_rows_of_any_type_and_layout_are_taken(kind: str, worker: Worker) -> None:
    X: Any = rows(40) * 3
    if kind in ("float64", "int64"):
        X = X.astype(kind)
    elif kind == "every second row":
        X = X[::2]
    else:
        X = X.tolist() if kind == "a list" else np.asfortranarray(X)
    there = worker.open(linear_model(), "m").predict_logits(X)
    np.testing.assert_array_equal(there, OnnxModel(linear_model()).predict_logits(X))


def test_a_data_frames_columns_are_found_by_name(worker: Worker) -> None:
    frame = pd.DataFrame(rows(30), columns=list("abcd"))
    y = np.arange(30) % 2
    data = export(wrap(LogisticRegression().fit(frame, y), name="m"), frame)
    there, here = worker.open(data, "m"), OnnxModel(data, name="m")
    assert there.features == here.features == ("a", "b", "c", "d")
    assert there.classes == here.classes
    np.testing.assert_array_equal(there.predict_proba(frame[list("dcba")]), here.predict_proba(frame))


def _failure(open_and_run: Any) -> PeerwiseError:
    with pytest.raises(PeerwiseError) as found:
        open_and_run()
    return found.value


@pytest.mark.parametrize(
    ("data", "X", "kind"),
    [
        (b"no model", rows(), BrokenFile),
        (b"", rows(), BrokenFile),
        (linear_model()[:80], rows(), BrokenFile),
        (linear_model(), rows()[:, :3], ModelError),
        (linear_model(), rows() * np.float32(np.nan), BadOutputs),
        (linear_model(), Sequences(rows(), rows(20)[:, None]), ModelError),
    ],
)
def test_what_fails_here_fails_there_with_the_same_words(data: bytes, X: Any, kind: type, worker: Worker) -> None:
    there = _failure(lambda: worker.open(data, "peer's").predict_logits(X))
    here = _failure(lambda: OnnxModel(data, name="peer's").predict_logits(X))
    assert type(there) is type(here) is kind
    assert str(there) == str(here)


def test_many_small_slices_with_large_answers_go_together(worker: Worker) -> None:
    X = np.random.default_rng(0).integers(0, 10, (3000, 1, 16, 16)).astype(np.uint8)  # six slices, of 2 MB of answers
    data = image_model(classes=1000)
    np.testing.assert_array_equal(worker.open(data, "m").predict_logits(X), OnnxModel(data).predict_logits(X))


@pytest.mark.parametrize("bad", [0, 700, 1499])
def test_the_slice_that_fails_is_the_one_that_is_told(bad: int, worker: Worker) -> None:
    X = np.zeros((1500, 1, 16, 16), np.uint8)
    X[bad, 0, 0, 0] = 200
    data = image_model(classes=3)
    there = _failure(lambda: worker.open(data, "m").predict_logits(X))
    assert str(there) == str(_failure(lambda: OnnxModel(data, name="m").predict_logits(X)))
    assert f"x({476 if bad > 1023 else 512}, 1, 16, 16)" in str(there)
    assert worker.open(data, "m").predict_logits(X[:1] * 0).shape == (1, 3)  # no answer is left over in the pipes


def test_a_model_that_takes_text_is_refused(worker: Worker) -> None:
    with pytest.raises(ModelError, match="it takes text, which is not passed to another process"):
        worker.open(text_model(), "text").predict_logits(np.array([["a"], ["b"]]))


def test_files_are_read_again_by_who_asks_for_them_when_the_child_has_let_them_go() -> None:
    files = {seed: linear_model(seed, extra_bytes=40_000) for seed in range(4)}
    read: list[int] = []

    def reader(seed: int) -> bytes:
        read.append(seed)
        return files[seed]

    with Worker(Limits(most_open_bytes=100_000)) as worker:  # two of them
        models = {seed: worker.open(lambda seed=seed: reader(seed), f"m{seed}") for seed in files}
        first = worker.pid
        for seed in (0, 1, 0, 1, 2, 3):
            np.testing.assert_array_equal(
                models[seed].predict_logits(rows()), OnnxModel(files[seed]).predict_logits(rows())
            )
        assert worker.pid == first
    assert read == [0, 1, 2, 3, 0, 1, 2, 3]  # all opened once; then those that had gone


def test_a_file_that_is_another_one_when_it_is_read_again_is_refused() -> None:
    files = [linear_model(0), linear_model(1)]
    with Worker() as worker:
        model = worker.open(lambda: files[0], "m")
        files.reverse()
        os.kill(worker.pid or 0, signal.SIGKILL)
        with pytest.raises(BrokenFile, match="is not the file it was"):
            model.predict_logits(rows())


def test_a_file_larger_than_all_that_may_be_open_is_refused_before_it_is_sent() -> None:
    with Worker(Limits(most_open_bytes=1000)) as worker:
        with pytest.raises(ModelError, match="has 5198 bytes: expected at most 1000"):
            worker.open(linear_model(extra_bytes=5000), "m")
        assert worker.pid is None


def test_one_file_opened_under_two_names_is_opened_once_and_blamed_by_its_own_name(worker: Worker) -> None:
    one, two = worker.open(linear_model(7), "one@a"), worker.open(linear_model(7), "two@b")
    for model in (one, two):
        with pytest.raises(ModelError, match=f"^'{model.name}' cannot run on x"):
            model.predict_logits(rows()[:, :1])


def test_a_worker_goes_on_when_used_from_a_thread_that_ends() -> None:
    import threading

    with Worker() as worker:
        opened: list[Any] = []
        thread = threading.Thread(target=lambda: opened.append(worker.open(linear_model(), "m")))
        thread.start()
        thread.join(60)
        first = worker.pid
        for _ in range(3):
            opened[0].predict_logits(rows())
        assert worker.pid == first


def test_a_closed_worker_says_so() -> None:
    with Worker() as worker:
        model = worker.open(linear_model(), "m")
    with pytest.raises(WorkerError, match="the worker is closed"):
        model.predict_logits(rows())


def test_shapes_are_inferred_in_the_child(worker: Worker) -> None:
    assert worker.shapes(linear_model(), 7) == {"x": [7, COLUMNS], "logits": [7, CLASSES]}
    with pytest.raises(ModelError):
        worker.shapes(b"junk", 7)


def test_facts_of_many_files_are_not_kept_for_ever() -> None:
    worker = Worker()
    for place in range(5000):
        worker.note(str(place), Facts({}, {}, True, None, None, None))
    assert len(worker.known) <= 256


@pytest.mark.parametrize(
    ("said", "unknown", "why"),
    [
        (np.zeros((4, 2)), False, r"returned shape \(4, 2\), expected \(4, 3\)"),
        (np.zeros((4, 3)), True, r"returned shape \(4, 3\), expected \(4, 4\)"),
        (np.full((4, 3), np.inf), False, "non-finite"),
        (np.zeros((3, 3)), False, "returned shape"),
    ],
)
def test_the_contract_refuses_what_is_no_answer(said: Any, unknown: bool, why: str) -> None:
    class Says:
        name = "peer's"

        def predict_logits(self, X: Any) -> Any:
            return said

    with pytest.raises(BadOutputs, match=why):
        contract(Says(), rows(4), CLASSES, unknown)


def test_the_contract_takes_a_good_model_and_refuses_a_random_one(worker: Worker) -> None:
    contract(worker.open(linear_model(), "good"), rows(), CLASSES)
    contract(worker.open(linear_model(), "good"), rows(), CLASSES - 1, unknown=True)
    with pytest.raises(BadOutputs, match="in another way when asked twice"):
        contract(worker.open(random_model(), "random"), rows(), CLASSES)
