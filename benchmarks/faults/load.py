"""Two hundred peers with a model of 5 MB each, at one site: what pull, review, fit and predict take.

python benchmarks/faults/load.py [--peers 200] [--work FOLDER]

Every command is a process of its own, as a person would run it: seconds, peak memory of the largest of its processes,
and bytes on disk afterwards. And how long it takes to verify one manifest."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from faults.crowd import enrol, show
from faults.sites import table
from peerwise.data import load
from peerwise.data.task import task_from
from peerwise.parcels import Parcel
from peerwise.parcels.card import about, model_card
from peerwise.parcels.signed import Manifest
from peerwise.run.peer import PeerFolder, found, outbox
from peerwise.run.peer.membership import show_list

COLUMNS, WIDE, NARROW, CLASSES = 13, 1200, 1000, 2
HOME = "home"
STEPS = ("train", "pull", "review", "fit", "predict", "status")


@dataclass(frozen=True)
class Cost:
    step: str
    seconds: float
    peak: int  # bytes of memory
    disk: int  # bytes of the site's folder afterwards


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=int, default=200)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--steps", default=",".join(STEPS))
    a = parser.parse_args()
    work = a.work or Path(tempfile.mkdtemp(prefix="load-"))
    if not (work / HOME).is_dir():
        size = made(work, a.peers)
        print(f"{a.peers} peers, {size / 1e6:.1f} MB each", flush=True)
    for step in a.steps.split(","):
        cost = measured(work, step)
        used = f"{cost.peak / 1e6:8.0f} MB of memory {cost.disk / 1e6:8.0f} MB on disk"
        print(f"{cost.step:<8} {cost.seconds:7.1f} s {used}", flush=True)
    print(f"verifying a manifest: {1e3 * verified(work):.2f} ms")


def made(work: Path, peers: int) -> int:
    """The site, its list of members, and what they show; the bytes of one peer's models."""
    work.mkdir(parents=True, exist_ok=True)
    data = load("heart_disease")
    rows = np.flatnonzero(np.asarray(data.site) == "cleveland")
    table(data, rows).to_csv(work / f"{HOME}.csv", index=False)
    table(data, rows[:100]).drop(columns="target").to_csv(work / "ward.csv", index=False)
    settings: dict[str, Any] = {"name": HOME, "data": str(work / f"{HOME}.csv"), "models": ["logistic", "forest"]}
    settings |= {"ask": "never", "meeting": {"folder": str(work / "shared")}}
    task = task_from(data)
    found(work / HOME, settings, task)
    home = PeerFolder(work / HOME)
    identities = enrol(home, [f"peer-{number:03d}" for number in range(peers)])
    show_list(home, outbox(home))
    kind = {"name": task.name, "digest": task.digest, "kind": task.kind}
    features = [feature.name for feature in task.columns]
    models = {"net": about({"recipe": "net"}, privacy=None, attack=None)}
    card = model_card(kind, classes=task.classes, features=features, rows="100-499", models=models, licence="")
    size = 0
    for number, (name, identity) in enumerate(identities.items()):
        parcel = Parcel(models={"net": net(number)}, classes=list(task.classes))
        size = len(parcel["models"]["net"])
        show(work / "shared", home, name, identity, parcel, card)
    return size


def net(seed: int) -> bytes:
    """A network of 1.2 million weights that answers the task; no two are alike."""
    rng = np.random.default_rng(seed)
    sizes = [COLUMNS, WIDE, NARROW, CLASSES]
    weights = {"nothing": np.zeros((), np.float32), "scale": np.float32(1 / 200) * np.ones((), np.float32)}
    nodes = [
        helper.make_node("IsNaN", ["x"], ["missing"]),
        helper.make_node("Where", ["missing", "nothing", "x"], ["filled"]),
        helper.make_node("Mul", ["filled", "scale"], ["a0"]),
    ]
    for layer, (rows, columns) in enumerate(pairwise(sizes)):
        weights[f"w{layer}"] = (rng.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)
        last = layer == len(sizes) - 2
        nodes.append(helper.make_node("MatMul", [f"a{layer}", f"w{layer}"], ["logits" if last else f"s{layer}"]))
        if not last:
            nodes.append(helper.make_node("Relu", [f"s{layer}"], [f"a{layer + 1}"]))
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", COLUMNS])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["rows", CLASSES])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    made = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    return bytes(made.SerializeToString())


def measured(work: Path, step: str) -> Cost:
    given = [str(work / "ward.csv")] if step == "predict" else []
    command = [sys.executable, "-m", "peerwise", step, *given, "--folder", str(work / HOME), "--format", "json", "-q"]
    with (work / f"{step}.json").open("wb") as said:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=said)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
    if status:
        raise SystemExit(f"{step} ended with {status}")
    return Cost(step, seconds, usage.ru_maxrss * 1024, on_disk(work / HOME))


def on_disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def verified(work: Path) -> float:
    """Median seconds a manifest: opened, its signature verified, every field checked."""
    home = PeerFolder(work / HOME)
    roster, now, transport = home.roster(), home.now(), outbox(home)
    names = [name for name in roster.names if name != HOME]
    found = {name: transport.fetch(name, "models") for name in names}
    shown = {name: one.manifest if one else b"" for name, one in found.items()}
    taken = []
    for name, data in shown.items():
        started = time.perf_counter()
        Manifest.read(data, roster, site=name, topic="models", now=now)
        taken.append(time.perf_counter() - started)
    return float(np.median(taken))


if __name__ == "__main__":
    main()
