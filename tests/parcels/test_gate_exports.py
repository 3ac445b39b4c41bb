"""Models that people really make are let in, all of the zoo among them, with the right facts, and then run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from hostile_parts import CLASSES, INPUTS, file, honest, node
from onnx import helper
from real_exports import BIG, EXPORTS, SERIES
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from peerwise.data.rows import Sequences
from peerwise.errors import GateRefused
from peerwise.models import ZOO, export
from peerwise.models.onnx_shapes import inferred
from peerwise.models.worker import Worker
from peerwise.parcels.gate import Gate, GateLimits, ModelFacts


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as started:
        yield started


@cache
def made(name: str) -> bytes:
    return EXPORTS[name].make()


@pytest.mark.parametrize("name", EXPORTS)
def test_real_exports_are_let_in_and_run(name: str, worker: Worker) -> None:
    data, (_, inputs, classes) = EXPORTS[name].make() if name in BIG else made(name), EXPORTS[name]
    facts = Gate(worker).check(data, inputs=inputs, classes=classes)
    assert facts.bytes == len(data)
    assert facts.outputs == classes + (name == "zoo mlp, and unknown")
    if name not in BIG:
        rows = [np.ones((3, *shape), np.float32) for shape in inputs.values()]
        X = Sequences(rows[0], rows[1]) if inputs == SERIES else rows[0]
        assert worker.open(data, name).predict_logits(X).shape == (3, facts.outputs)


def test_there_are_exports_of_every_recipe_and_of_many_users() -> None:
    assert all(any(f"zoo {name}" in export for export in EXPORTS) for name in ZOO)
    assert sum(not name.startswith("zoo") for name in EXPORTS) >= 30


def _small_exports() -> list[str]:
    return [name for name in EXPORTS if name not in BIG]


@pytest.mark.parametrize("name", _small_exports())
def test_the_shapes_told_beforehand_are_those_of_the_run(name: str) -> None:
    """The runtime gives out everything it computes."""
    rows, inputs = 5, EXPORTS[name].inputs
    told = inferred(made(name), rows)
    model = onnx.load_from_string(made(name))
    names = [output for node in model.graph.node for output in node.output if output and output != "logits"]
    model.graph.output.extend(helper.make_empty_tensor_value_info(output) for output in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    kinds = {given.name: np.uint8 if "uint8" in given.type else np.float32 for given in session.get_inputs()}
    feed = {given: np.ones((rows, *shape), kinds[given]) for given, shape in inputs.items()}
    for output, value in zip(session.get_outputs(), session.run(None, feed), strict=True):
        assert list(np.shape(value)) == told[output.name], output.name


def test_the_facts_of_the_largest_net_are_those_of_its_paper_and_below_the_limits(worker: Worker) -> None:
    data, limits = EXPORTS["zoo resnet34 32"].make(), GateLimits()
    facts = Gate(worker).check(data, inputs={"x": (3, 32, 32)}, classes=10)
    assert facts.parameters / 1e6 == pytest.approx(21.27, abs=0.02)
    assert facts.flops / 1e9 == pytest.approx(2.3, abs=0.1)
    assert facts.activation == 64 * 32 * 32
    assert facts.bytes < limits.bytes
    assert {"Conv", "Gemm", "GlobalAveragePool", "Relu"} <= set(facts.operators)
    with pytest.raises(GateRefused, match=r"more than 1.00e\+09 operations|more than 1e\+09 operations"):
        Gate(worker, GateLimits(flops=1e9)).check(data, inputs={"x": (3, 32, 32)}, classes=10)
    with pytest.raises(GateRefused, match="at most 1000 values a row"):
        Gate(worker, GateLimits(activation=1000)).check(data, inputs={"x": (3, 32, 32)}, classes=10)
    with pytest.raises(GateRefused, match="more than 16000000 parameters"):
        Gate(worker, GateLimits(parameters=16_000_000)).check(data, inputs={"x": (3, 32, 32)}, classes=10)


def _check(worker: Worker, data: bytes, **limits: int) -> ModelFacts:
    return Gate(worker, GateLimits(**limits)).check(data, inputs=INPUTS, classes=CLASSES)  # type: ignore[arg-type]


def test_a_limit_is_the_last_value_that_passes(worker: Worker) -> None:
    names = ["x", *"abcdefghi"]
    data = file(*(node("Neg", [a], [b]) for a, b in pairwise(names)), last="i")
    assert _check(worker, data, nodes=10, bytes=len(data), parameters=12, activation=4).nodes == 10
    for limit in ({"nodes": 9}, {"bytes": len(data) - 1}, {"parameters": 11}, {"activation": 3}, {"activations": 38}):
        with pytest.raises(GateRefused, match=r"at most|expected 1 to"):
            _check(worker, data, **limit)
    assert _check(worker, data, activations=39).activation == 4


def test_the_names_in_a_file_are_told(worker: Worker) -> None:
    model = honest()
    said = {"classes": ["well", "ill", "unknown"], "features": ["age", "sex", "bp", "chol"]}
    helper.set_model_props(model, {key: json.dumps(names) for key, names in said.items()})
    facts = _check(worker, model.SerializeToString())
    assert facts.classes == ("well", "ill", "unknown")
    assert facts.features == ("age", "sex", "bp", "chol")
    assert Gate(worker).check(model.SerializeToString(), inputs=INPUTS, classes=2).outputs == 3


def test_a_file_with_one_input_a_column_is_refused_with_the_way_out(worker: Worker) -> None:
    frame = pd.DataFrame({"age": [20.0, 30, 40] * 20, "sex": ["m", "f", "f"] * 20, "beats": np.arange(60.0)})
    parts = [("numbers", SimpleImputer(), ["age", "beats"]), ("codes", OneHotEncoder(), ["sex"])]
    model = make_pipeline(ColumnTransformer(parts), LogisticRegression()).fit(frame, np.arange(60) % 2)
    with pytest.raises(GateRefused, match=r"\['age', 'sex', 'beats'\].*code categories as numbers"):
        Gate(worker).check(export(model, frame), inputs={"x": (3,)}, classes=2)
