"""Peers' models in a process of their own against this process: what it costs a call, to start, and in memory.

python benchmarks/worker.py [--rows 1 100 1000] [--repeats 200] [--models 100] [--megabytes 4]

Every line is one run: the two sides take turns, medians are told in microseconds. ``--models`` files of ``--megabytes``
each are then opened, asked about the largest number of rows and let go by a worker under 512 MB.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from peerwise.models import OnnxModel
from peerwise.models.worker import Limits, Worker

INPUTS = {"table of 13": (13,), "images of 1x28x28": (1, 28, 28), "images of 3x32x32": (3, 32, 32)}
CLASSES = 10
MIB = 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 100, 1000])
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--megabytes", type=int, default=4)
    a = parser.parse_args()
    starts = [_started() for _ in range(min(a.repeats, 10))]
    seconds, resident = (float(np.median(found)) for found in zip(*starts, strict=True))
    print(f"start: {seconds * 1e3:.0f} ms, {resident:.0f} MB resident")
    with Worker() as worker:
        for name, shape in INPUTS.items():
            for count in a.rows:
                _compare(worker, name, shape, count, a.repeats)
    _many(a.models, a.megabytes, max(a.rows))


def _started() -> tuple[float, float]:
    started = time.perf_counter()
    with Worker() as worker:
        worker.isolation()
        taken = time.perf_counter() - started
        status = Path(f"/proc/{worker.pid}/status")
        lines = status.read_text().splitlines() if status.exists() else []
    return taken, next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), float("nan"))


def _compare(worker: Worker, name: str, shape: tuple[int, ...], count: int, repeats: int) -> None:
    data = _file(shape)
    X = np.random.default_rng(0).integers(0, 255, (count, *shape)).astype(np.uint8 if len(shape) > 1 else np.float32)
    here, there = OnnxModel(data), worker.open(data, "m")
    if not np.array_equal(here.predict_logits(X), there.predict_logits(X)):
        raise SystemExit(f"{name}, {count} rows: the two sides differ")
    inside, apart = _medians([lambda: here.predict_logits(X), lambda: there.predict_logits(X)], repeats)
    print(
        f"{name}, {count} rows: worker {apart:.0f} us, in process {inside:.0f} us, difference {apart - inside:.0f} us"
    )


def _medians(asked: list[Callable[[], Any]], repeats: int) -> list[float]:
    times: list[list[float]] = [[] for _ in asked]
    for _ in range(repeats):
        for found, ask in zip(times, asked, strict=True):
            started = time.perf_counter()
            ask()
            found.append(time.perf_counter() - started)
    return [float(np.median(found)) * 1e6 for found in times]


def _many(models: int, megabytes: int, count: int) -> None:
    files = [_file((13,), seed, megabytes) for seed in range(models)]
    X = np.zeros((count, 13), np.float32)
    with Worker(Limits(memory_bytes=512 * MIB, most_open_bytes=64 * MIB)) as worker:
        worker.isolation()
        started = time.perf_counter()
        for place, data in enumerate(files):
            worker.open(data, f"m{place}").predict_logits(X)
        apart = time.perf_counter() - started
    started = time.perf_counter()
    for data in files:
        OnnxModel(data).predict_logits(X)
    inside = time.perf_counter() - started
    print(f"{models} files of {megabytes} MB x {count} rows: worker {apart:.2f} s, in process {inside:.2f} s")


def _file(shape: tuple[int, ...], seed: int = 0, megabytes: int = 0) -> bytes:
    """Two hidden layers, wide enough for a file of so many megabytes."""
    columns = int(np.prod(shape))
    hidden = max(32, int((megabytes * MIB / 4) ** 0.5))
    rng = np.random.default_rng(seed)
    weights = [
        numpy_helper.from_array(rng.normal(size=(columns, hidden)).astype(np.float32), "W"),
        numpy_helper.from_array(rng.normal(size=(hidden, hidden)).astype(np.float32), "U"),
        numpy_helper.from_array(rng.normal(size=(hidden, CLASSES)).astype(np.float32), "V"),
    ]
    nodes = [
        helper.make_node("Cast", ["x"], ["values"], to=TensorProto.FLOAT),
        helper.make_node("Flatten", ["values"], ["flat"]),
        helper.make_node("MatMul", ["flat", "W"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["active"]),
        helper.make_node("MatMul", ["active", "U"], ["more"]),
        helper.make_node("MatMul", ["more", "V"], ["logits"]),
    ]
    kind = TensorProto.UINT8 if len(shape) > 1 else TensorProto.FLOAT
    takes = helper.make_tensor_value_info("x", kind, [None, *shape])
    gives = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [None, CLASSES])
    graph = helper.make_graph(nodes, "graph", [takes], [gives], initializer=weights)
    opsets = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


if __name__ == "__main__":
    main()
