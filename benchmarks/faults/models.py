"""Models that a member signs and that are no good: wrong answers, hostile files; and a worker that goes wrong."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from faults.rows import Row
from faults.sites import HOME, WEST, Sites
from faults.west import Faulty, West
from peerwise.errors import GateRefused
from peerwise.models.worker import Limits, Worker, process
from peerwise.parcels import Parcel
from peerwise.parcels.gate import Gate

CORPUS = Path(__file__).parents[2] / "tests" / "parcels"
COLUMNS = 13


def model(*after: tuple[str, list[str], dict[str, Any]], classes: int = 2, weight: float = 0.1, **more: Any) -> bytes:
    """A linear model of the task, and what happens to its answer afterwards."""
    weights = {"w": np.full((COLUMNS, classes), weight, np.float32), **more}
    nodes = [
        helper.make_node("IsNaN", ["x"], ["missing"]),
        helper.make_node("Where", ["missing", "nothing", "x"], ["filled"]),
        helper.make_node("MatMul", ["filled", "w"], ["s0"]),
    ]
    for number, (op, extra, attributes) in enumerate(after):
        nodes.append(helper.make_node(op, [f"s{number}", *extra], [f"s{number + 1}"], **attributes))
    nodes.append(helper.make_node("Identity", [f"s{len(after)}"], ["logits"]))
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", COLUMNS])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["rows", classes])],
        [numpy_helper.from_array(np.asarray(v), name) for name, v in {"nothing": np.float32(0), **weights}.items()],
    )
    made = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    return bytes(made.SerializeToString())


def signed(data: bytes) -> Callable[[West], None]:
    return lambda west: west.say(Parcel(**{**west.parcel, "models": {"net": data}}))


def relabelled(classes: Callable[[list[str]], list[str]]) -> Callable[[West], None]:
    return lambda west: west.say(Parcel(**{**west.parcel, "classes": classes(list(west.parcel["classes"]))}))


BAD: dict[str, Callable[[West], None]] = {
    "another label set": relabelled(lambda known: [*known[:-1], "unheard of"]),
    "classes in another order": relabelled(lambda known: known[::-1]),
    "answers over three classes": signed(model(classes=3)),
    "answers that are not numbers (NaN)": signed(model(("Sqrt", [], {}), weight=-1.0)),
    "infinite answers": signed(model(("Div", ["zero"], {}), zero=np.float32(0))),
    "random answers": signed(model(("RandomNormalLike", [], {}))),
    "answers of another type": signed(model(("Cast", [], {"to": TensorProto.DOUBLE}))),
    "no model at all": signed(b"no model"),
    "an empty file": signed(b""),
}


def bad_answers(faulty: Faulty, some: int = 0) -> Iterator[Row]:
    for name, spoil in list(BAD.items())[: some or None]:
        row = Row(name)
        faulty.trial(row, spoil)
        yield row


def hostile(sites: Sites, some: int = 0) -> Row:
    """The files that the gate's own tests build."""
    return Row(**sites.done(lambda: vars(_hostile(some))))


def _hostile(some: int) -> Row:
    sys.path.insert(0, str(CORPUS))
    from hostile_models import CLASSES, HOSTILE, INPUTS

    row = Row("hostile ONNX files", note="")
    longest = 0.0
    with Worker(Limits(seconds=20.0)) as worker:
        gate = Gate(worker)
        for name, kind in list(HOSTILE.items())[: some or None]:
            data = kind.make()
            started = time.perf_counter()
            row.trials += 1
            try:
                gate.check(data, inputs=INPUTS, classes=CLASSES)
                row.problems.append(f"{name}: it was let in")
            except GateRefused:
                row.struck += 1
            longest = max(longest, time.perf_counter() - started)
    row.note = f"longest {longest:.1f} s"
    return row


CHILDREN = {
    "dies of a segmentation fault": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "answers with garbage": "import os\nwhile True: os.write(1, b'garbage ' * 99)",
    "answers without end": "import os\nos.write(1, (2**31).to_bytes(4, 'big'))\nwhile True: os.write(1, bytes(65536))",
    "says that a huge answer follows": 'import os, time\ntext = b\'{"isolation":{},"bytes":[1099511627776]}\'\n'
    "os.write(1, len(text).to_bytes(4, 'big') + text)\ntime.sleep(600)",
    "closes its pipes": "import os, time\nos.close(0); os.close(1); time.sleep(600)",
}


def bad_workers(faulty: Faulty) -> Iterator[Row]:
    """A child that goes wrong whatever it is asked: home does without all peers, and answers."""
    for name, program in CHILDREN.items():
        yield _with_child(faulty, name, program)


def _with_child(faulty: Faulty, name: str, program: str) -> Row:
    sites = faulty.sites
    sites.restore("alone")
    child = sites.live / "child.py"
    child.write_text(program)
    west = West(sites)
    real = process.CHILD
    process.CHILD = child
    try:
        found = west.pulled()
    finally:
        process.CHILD = real
    row = Row(f"a worker that {name}", trials=1)
    outcomes = {told["outcome"] for told in found["peers"].values()}
    row.struck += outcomes == {"refused"}
    row.note = f"{found['seconds']:.1f} s"
    if outcomes != {"refused"} or found["fitted"]:
        row.problems.append(f"peers are {outcomes}, fitted with {found['fitted']}")
    if WEST not in found["left out"]:
        row.problems.append("I6: that west was left out is not in the ledger")
    if west.pulled()["answers"] != faulty.whole:
        row.problems.append(f"{HOME} does not go on with a sound worker")
    return row
