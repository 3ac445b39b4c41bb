"""A child that a stranger's model has taken over may say anything: nothing of it is believed, and it is replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worker_models import CLASSES, linear_model, rows

from peerwise.errors import PeerwiseError, WorkerError
from peerwise.models import OnnxModel
from peerwise.models.worker import Limits, Worker, process
from peerwise.models.worker.replies import Refused, array, facts, shapes

FACTS = {
    "inputs": {"x": "tensor(float)"},
    "input_shapes": {"x": [-1, 4]},
    "has_logits": True,
    "width": 3,
    "classes": None,
    "features": None,
}
# A child that starts as it should, then answers each question with the next of these byte strings.
PROGRAM = """
import json, os, struct, sys, time

def said(count):
    found = b""
    while len(found) < count:
        found += os.read(0, count - len(found))
    return found

def asked():
    header = json.loads(said(int.from_bytes(said(4), "big")))
    for size in header["bytes"]:
        said(size)

def frame(header, *parts):
    text = json.dumps({{**header, "bytes": [len(part) for part in parts]}}).encode()
    return len(text).to_bytes(4, "big") + text + b"".join(parts)

ready = frame({{"isolation": {{}}}})
opened = frame({facts!r})
answer = frame({{"dtype": "<f4", "shape": [20, 3]}}, b"\\0" * 240)

def flood():
    for _ in range(1000):
        try:
            os.write(2, b"noise" * 2000)
        except BlockingIOError:
            pass
    os.write(1, answer)

for reply in [ready, *{replies}]:
    asked()
    if callable(reply):
        reply()
    else:
        os.write(1, reply)
time.sleep(60)
"""


@pytest.fixture
def child_that_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def made(*replies: str) -> None:
        program = tmp_path / "fake.py"
        program.write_text(PROGRAM.format(facts=FACTS, replies="[" + ", ".join(replies) + "]"))
        monkeypatch.setattr(process, "CHILD", program)

    return made


def test_the_false_child_is_believed_where_it_keeps_to_the_form(child_that_says: Any) -> None:
    child_that_says("opened", "answer")
    with Worker() as worker:
        np.testing.assert_array_equal(worker.open(linear_model(), "m").predict_logits(rows()), np.zeros((20, CLASSES)))


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("b'garbage, no frame at all'", "a header of [0-9]+ bytes"),
        ("b'\\xff\\xff\\xff\\xff'", "a header of 4294967295 bytes"),
        ("b'\\0\\0\\0\\5abcde'", "no JSON"),
        ("b'\\0\\0\\0\\2[]'", "no frame"),
        ("b'\\0\\0\\0\\2{}'", "no frame"),
        ("(lambda t: len(t).to_bytes(4, 'big') + t)(b'[' * 100000)", "no JSON|no frame"),
        ("(lambda t: len(t).to_bytes(4, 'big') + t)(b'{\"bytes\":[-1]}')", "no frame"),
        ("(lambda t: len(t).to_bytes(4, 'big') + t)(b'{\"bytes\":[1e3]}')", "no frame"),
        ("(lambda t: len(t).to_bytes(4, 'big') + t)(b'{\"bytes\":[999999999999]}')", "at most 1000000 were expected"),
        ("frame({'dtype': '<f4', 'shape': [20, 3]}, b'x' * 239)", "239 bytes for .20, 3. of <f4"),
        ("frame({'dtype': '|O', 'shape': [30]}, b'x' * 240)", "expected an answer"),
        ("frame({'dtype': '<f4', 'shape': [-20, -3]}, b'x' * 240)", "expected an answer"),
        ("frame({'dtype': '<f4', 'shape': [True, 60]}, b'x' * 240)", "expected an answer"),
        ("frame({'dtype': '<f4', 'shape': [20, 3], 'more': 1}, b'x' * 240)", "expected an answer"),
        ("frame({'dtype': '<f4', 'shape': [20, 3]}, b'x' * 120, b'x' * 120)", "expected an answer"),
        ("frame({'dtype': ['<f4'], 'shape': 3}, b'')", "expected an answer"),
        ("frame({'absent': True})", "no answer to|died"),
        ("frame({'error': 'SystemExit', 'text': 5})", "expected an answer"),
        ("lambda: os.close(1)", "closed its pipes|died"),
        ("lambda: os._exit(0)", "exit code 0"),
        ("lambda: (os.write(2, b'\\x1b[31mlast words\\n'), os._exit(3))", "exit code 3, saying '.?.31mlast words'"),
    ],
)
def test_garbage_is_an_error_of_the_model_and_the_child_is_replaced(
    reply: str, why: str, child_that_says: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = process.CHILD
    child_that_says("opened", reply)
    with Worker(Limits(most_reply_bytes=1_000_000, seconds=3)) as worker:
        model = worker.open(linear_model(), "m")
        first = worker.pid
        with pytest.raises(WorkerError, match=why) as found:
            model.predict_logits(rows())
        assert "\x1b" not in str(found.value)
        assert worker.pid != first
    monkeypatch.setattr(process, "CHILD", good)
    with Worker() as worker:
        worker.open(linear_model(), "m").predict_logits(rows())


def test_a_child_that_speaks_unasked_is_replaced_before_the_next_question(child_that_says: Any) -> None:
    child_that_says("opened + answer")
    with Worker(Limits(seconds=20)) as worker:
        model = worker.open(linear_model(), "m")
        first = worker.pid
        with pytest.raises(WorkerError, match="spoke before it was asked 'run'"):  # as does the one after it
            model.predict_logits(rows())
        assert worker.pid != first


def test_a_trickling_reply_is_given_up_at_the_deadline(child_that_says: Any) -> None:
    child_that_says("opened", "lambda: [(os.write(1, b'\\0'), time.sleep(0.2)) for _ in range(300)]")
    with Worker(Limits(seconds=2)) as worker:
        model = worker.open(linear_model(), "m")
        with pytest.raises(WorkerError, match=r"within 2 seconds|no JSON"):
            model.predict_logits(rows())


def test_a_child_that_takes_no_bytes_is_given_up_at_the_deadline(child_that_says: Any) -> None:
    child_that_says("opened", "lambda: time.sleep(60)")
    with Worker(Limits(seconds=2)) as worker:
        model = worker.open(linear_model(), "m")
        with pytest.raises(WorkerError, match="within 2 seconds"):
            model.predict_logits(np.tile(rows(1), (100_000, 1)))


def test_a_child_floods_its_stderr_without_harm(child_that_says: Any) -> None:
    child_that_says("opened", "flood", "answer")
    with Worker(Limits(seconds=20)) as worker:
        model = worker.open(linear_model(), "m")
        first = worker.pid
        for _ in range(2):
            assert model.predict_logits(rows()).shape == (20, CLASSES)
        assert worker.pid == first


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=8,
)
keys = st.sampled_from([*FACTS, "dtype", "shape", "shapes", "error", "text", "absent"])


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(keys, values, max_size=7), st.lists(st.binary(max_size=40).map(bytearray), max_size=2))
def test_whatever_a_header_holds_is_read_or_refused_as_an_error_of_ours(header: Any, parts: Any) -> None:
    outcomes = []
    for read in (facts, array, shapes):
        try:
            outcomes.append(read((dict(header), parts)) is not None)
        except (PeerwiseError, Refused):
            outcomes.append(True)
    assert all(outcomes), "nothing is read as something that is not there"


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(list(FACTS)), values)
def test_facts_with_one_thing_changed_are_facts_or_refused(key: str, value: Any) -> None:
    try:
        found = facts(({**FACTS, key: value}, []))
    except (WorkerError, Refused):
        return
    assert set(found.inputs) == set(found.input_shapes)
    assert found.width is None or type(found.width) is int


def test_the_real_child_and_the_real_file_agree_with_the_false_ones_form() -> None:
    with Worker() as worker:
        model = worker.open(linear_model(), "m")
        assert {key: getattr(model, key) for key in ("has_logits", "width", "classes", "features")} == {
            key: FACTS[key] for key in ("has_logits", "width", "classes", "features")
        }
        np.testing.assert_array_equal(model.predict_logits(rows()), OnnxModel(linear_model()).predict_logits(rows()))
