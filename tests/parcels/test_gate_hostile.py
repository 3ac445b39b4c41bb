"""Files that would do harm are refused, each by the layer meant for it, and whatever goes wrong is a refusal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hostile_models import CLASSES, HOSTILE, INPUTS, REACH_THE_WORKER
from hostile_parts import file
from hostile_trees import tree_file

from peerwise.errors import GateRefused, WorkerError
from peerwise.models.worker import Worker
from peerwise.parcels.gate import Gate


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as started:
        yield started


class Watched:
    """Passes on what is asked of a worker, and counts it."""

    def __init__(self, worker: Worker) -> None:
        self.worker, self.asked = worker, 0

    def shapes(self, data: bytes, rows: int) -> dict[str, list[int]]:
        self.asked += 1
        return self.worker.shapes(data, rows)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_by_the_layer_meant_for_them(name: str, worker: Worker) -> None:
    watched = Watched(worker)
    with pytest.raises(GateRefused, match=HOSTILE[name].says) as refusal:
        Gate(watched).check(HOSTILE[name].make(), inputs=INPUTS, classes=CLASSES)
    assert watched.asked == (name in REACH_THE_WORKER)
    assert ": expected " in str(refusal.value)
    assert len(str(refusal.value)) < 1200
    assert "\n" not in str(refusal.value)


def test_the_corpus_is_as_large_as_promised_and_built_on_files_that_pass(worker: Worker) -> None:
    assert len(HOSTILE) >= 100
    for data in (file(), tree_file(), tree_file("TreeEnsembleRegressor")):
        assert Gate(worker).check(data, inputs=INPUTS, classes=CLASSES).outputs == CLASSES


@pytest.mark.parametrize("error", [RecursionError, MemoryError, WorkerError, KeyError, OverflowError])
def test_whatever_goes_wrong_is_a_refusal(error: type[Exception]) -> None:
    class Failing:
        def shapes(self, data: bytes, rows: int) -> dict[str, list[int]]:
            raise error("the worker is not well")

    with pytest.raises(GateRefused, match=f"{error.__name__}.*expected a shape for everything"):
        Gate(Failing()).check(file(), inputs=INPUTS, classes=CLASSES)


@pytest.mark.parametrize("shapes", [{}, {"logits": [-64, 3]}, {"logits": ["64", 3]}, {"logits": [64, 2]}, None])
def test_a_worker_that_was_taken_over_cannot_open_the_gate_by_nonsense(shapes: dict[str, list[int]]) -> None:
    class Lying:
        def shapes(self, data: bytes, rows: int) -> dict[str, list[int]]:
            return shapes

    with pytest.raises(GateRefused):
        Gate(Lying()).check(file(), inputs=INPUTS, classes=CLASSES)


def test_what_is_no_bytes_is_refused_too(worker: Worker) -> None:
    for thing in ("text", object(), None, 10**15):
        with pytest.raises(GateRefused, match="expected the bytes of an ONNX file"):
            Gate(worker).check(thing, inputs=INPUTS, classes=CLASSES)  # type: ignore[arg-type]
