"""What one site pays as a federation grows: unit costs measured in this run, and what follows from them.

python benchmarks/scale.py [--pulls 10 30 100 300] [--models 10 30 100 300 1000 3000]

Measured: reading and verifying a manifest and a list of members; the gate, the trial on 256 own rows and 1,000 answers
of a model file, in the worker; whole pulls from a folder with so many members, the first and one at which nothing is
new, and with the most members once more with most_peers; fitting PeerwiseClassifier on so many models (a process each)
for sites of 100 and 1,000 rows. CPU seconds are of this process and of the worker together. The last table goes on in
straight lines.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import measure
import numpy as np
import psutil
from pools import outputs
from race.exponents import exponent
from race.processes import ours
from scale_federation import CLASSES, DAY, TASK, model_files, published, signed_manifest, transport_of

from peerwise import PeerwiseClassifier
from peerwise.data.rows import Feature, Rows
from peerwise.models import ZOO
from peerwise.models.worker import Worker, contract
from peerwise.parcels.gate import Gate
from peerwise.parcels.signed import Identity, Manifest, Member, Roster
from peerwise.run.peer import pull

ROWS = (100, 1000)  # of the site that fits
TRIED, MOST_MEMBERS, MOST_PEERS = 256, 1000, 32
Line = Callable[[float], float]
SITES = [10**power for power in range(1, 7)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pulls", type=int, nargs="+", default=[10, 30, 100, 300])
    parser.add_argument("--models", type=int, nargs="+", default=[10, 30, 100, 300, 1000, 3000])
    a = parser.parse_args()
    units = letters() | files()
    pulls = pulled(a.pulls)
    pulled(a.pulls[-1:], most_peers=MOST_PEERS)
    fits = {rows: [_fit(rows, models) for models in a.models] for rows in ROWS}
    for what, costs in {"first pull": "first", "pull with nothing new": "again"}.items():
        growth = exponent(a.pulls, [found[costs] for found in pulls]).value
        print(f"{what}: CPU s grow with the members to the {growth:.2f}")
    for rows, found in fits.items():
        growth = {cost: exponent(a.models[-3:], [one[cost] for one in found[-3:]]).value for cost in found[0]}
        print(f"fit, {rows} rows, largest sizes: exponents " + ", ".join(f"{k} {v:.2f}" for k, v in growth.items()))
    print(measure.load_line())
    wide = fits[max(ROWS)]
    table(
        units,
        line(a.pulls, [found["first"] for found in pulls]),
        line(a.models, [found["fit"] for found in wide]),
        line(a.models, [found["peak"] for found in wide]),
    )


def letters() -> dict[str, float]:
    """Of a manifest with its card, and of a list of a thousand members."""
    identity, now = Identity.new(), int(time.time())
    members = tuple(Member(f"site-{number:04}", Identity.new().public) for number in range(MOST_MEMBERS - 1))
    mine = Member("mine", identity.public)
    listed = Roster(TASK.digest, 1, identity.public, now, now + DAY, (*members, mine))
    data, few = listed.signed(identity), Roster(TASK.digest, 1, identity.public, now, now + DAY, (mine,))
    reading = measure.fastest(lambda: Roster.read(data, identity.public, TASK.digest, now), 5)
    sealed, _ = signed_manifest(identity, "mine", 0, b"model")
    asked: Callable[[], Any] = lambda: Manifest.read(sealed, few, site="mine", topic="models", now=now)  # noqa: E731
    verify = measure.fastest(lambda: [asked() for _ in range(100)], 5) / 100
    print(f"list of {MOST_MEMBERS:,} members: {len(data):,} bytes, read in {1e3 * reading:.1f} ms")
    print(f"manifest with card: {len(sealed):,} bytes, verified in {1e3 * verify:.3f} ms")
    return {"member": len(data) / MOST_MEMBERS, "manifest": len(sealed), "verify": verify}


def files() -> dict[str, float]:
    """Of each kind of model file."""
    tables, images = {"logistic": (64,), "forest": (64,)}, {"cnn8": (1, 28, 28), "small_cnn": (1, 28, 28)}
    found: dict[str, float] = {}
    for name, shape in {**tables, **images}.items():
        found |= {f"{name} {what}": cost for what, cost in file_costs(name, shape).items()}
    return found


def file_costs(name: str, shape: tuple[int, ...]) -> dict[str, float]:
    """Bytes; CPU seconds of the gate, the trial, 1,000 answers and one."""
    is_image, y = len(shape) > 1, np.arange(400) % 10
    X = np.random.default_rng(0).integers(0, 255, (1000, *shape)).astype(np.uint8 if is_image else np.float32)
    features = () if is_image else tuple(Feature(f"pixel{number}") for number in range(*shape))
    more = {"max_epochs": 1} if is_image else {}
    data = ZOO[name].fit(Rows(X[:400], y), None, classes=10, features=features, seed=0, **more).to_onnx()
    with Worker() as worker:
        gate = _each(worker, lambda: Gate(worker).check(data, inputs={"x": shape}, classes=10), 20)
        model = worker.open(data, name)
        trial = _each(worker, lambda: contract(model, X[:TRIED], 10), 10)
        answers = _each(worker, lambda: model.predict_logits(X), 10)
        one = _each(worker, lambda: model.predict_logits(X[:1]), 500)
    costs = {"gate": gate, "trial": trial, "answers": answers, "one": one}
    print(f"{name}: {len(data):,} bytes; ms: " + ", ".join(f"{what} {1e3 * cost:.2f}" for what, cost in costs.items()))
    return {"bytes": len(data), **costs}


def _each(worker: Worker, call: Callable[[], Any], repeats: int) -> float:
    """Mean CPU seconds of this process and the worker."""
    call()
    before = _cpu(worker)
    for _ in range(repeats):
        call()
    return (_cpu(worker) - before) / repeats


def pulled(sizes: list[int], most_peers: int = 0) -> list[dict[str, float]]:
    models, found = model_files(10), []
    for members in sizes:
        with tempfile.TemporaryDirectory() as root, Worker() as worker:
            peer = published(Path(root) / "federation", members, models, most_peers=most_peers)
            line: dict[str, float] = {}
            for turn in ("first", "again"):
                started, before = time.perf_counter(), _cpu(worker)
                told = pull(peer, transport_of(peer), worker)
                line |= {turn: _cpu(worker) - before, f"{turn} wall": time.perf_counter() - started}
                fetched = {"first": "new", "again": "known"}[turn]
                expected = {fetched, "not fetched"} if 0 < most_peers < members else {fetched}
                if {one["outcome"] for one in told["peers"].values()} != expected:
                    raise SystemExit(f"a pull of {members} members did not go as expected: {told['peers']}")
            line["disk"] = sum(path.stat().st_size for path in peer.path.rglob("*") if path.is_file())
            line["ledger"] = (peer.path / "ledger.jsonl").stat().st_size
        told_line = ", ".join(f"{name} {value:,.2f}" for name, value in line.items())
        fetches = f"the best {most_peers} of {members}" if most_peers else f"{members}"
        print(f"pull of {fetches} members (CPU s, wall s, bytes): {told_line}")
        found.append(line)
    return found


def _cpu(worker: Worker) -> float:
    spent = psutil.Process(worker.pid).cpu_times() if worker.pid else None
    return time.process_time() + (spent.user + spent.system if spent else 0.0)


def _fit(rows: int, models: int) -> dict[str, float]:
    found = ours("scale:fitted", rows=rows, models=models)["said"]
    line = f"CPU s {found['fit']:.2f}, one answer {1e3 * found['answer']:.2f} ms, peak {found['peak']:.0f} MB"
    print(f"fit on {rows} rows, {models} models: {line}")
    return found


def fitted(rows: int, models: int) -> dict[str, float]:
    """In this process; the answer is of the learner alone, without the models'."""
    rng = np.random.default_rng(0)
    _learned(rng, 60, 5)  # libraries are loaded before the clock starts
    logits, y = outputs(rng, rows, models, len(CLASSES))
    fit, learner = measure.timed(lambda: PeerwiseClassifier(own=[0], random_state=0).fit_outputs(logits, y))
    asked, _ = outputs(rng, 1, models, len(CLASSES))
    learner.predict_proba_outputs(asked)
    answer = measure.timed(lambda: [learner.predict_proba_outputs(asked) for _ in range(5)])[0] / 5
    return {"fit": fit, "answer": answer, "peak": measure.own_peak()}


def _learned(rng: np.random.Generator, rows: int, models: int) -> None:
    PeerwiseClassifier(own=[0], random_state=0).fit_outputs(*outputs(rng, rows, models, len(CLASSES)))


COLUMNS = (
    "sites", "list and cards", "models", "fetched by all", "first pull, CPU s", "outputs", "fit, CPU s", "fit, memory",
    "one case, s",
)  # fmt: skip


def table(units: dict[str, float], pull_cost: Line, fit_cost: Line, fit_memory: Line) -> None:
    """What a site pays that has 1,000 rows and fetches every peer's one model (logistic regression / small CNN)."""
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    for sites in SITES:
        models = [units[f"{name} bytes"] for name in ("logistic", "small_cnn")]
        cells = [
            f"{sites:,}",
            as_bytes(sites * (units["member"] + units["manifest"])),
            " / ".join(as_bytes(sites * size) for size in models),
            " / ".join(as_bytes(sites**2 * size) for size in models),
            f"{pull_cost(sites):.3g}",
            as_bytes(4 * 1000 * sites * len(CLASSES)),
            f"{fit_cost(sites):.3g}",
            as_bytes(measure.MEGABYTE * fit_memory(sites)),
            " / ".join(f"{sites * units[f'{name} one']:.2g}" for name in ("logistic", "small_cnn")),
        ]
        print("| " + " | ".join(cells) + " |")


def line(sizes: list[int], costs: list[float]) -> Line:
    """The straight line through the smallest and the largest size."""
    slope = (costs[-1] - costs[0]) / (sizes[-1] - sizes[0])
    return lambda size: costs[0] + slope * (size - sizes[0])


def as_bytes(size: float) -> str:
    power = min(max(int(np.log10(max(size, 1)) // 3), 0), 6)
    return f"{size / 1000**power:.3g} {('B', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB')[power]}"


if __name__ == "__main__":
    main()
