"""How time and memory grow with rows and models: graph, one training epoch and 1,000 queries of FedDES.

python benchmarks/growth.py [--rows 1000 2000 5000 10000 20000] [--models 5 10 20 50] [--plot growth.png]
python benchmarks/growth.py --rows 50000 --models-fixed 50 --models        # the largest case alone

Every size runs in a process of its own: its peak memory is that of reading the outputs, fitting and asking. Over rows
the pool has --models-fixed models, over models the site has --rows-fixed rows. Exponents b of cost = a * size ** b are
fitted over the measured sizes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import measure
import numpy as np
from pools import outputs

from peerwise import FedDES
from peerwise.trust import feddes, trained

COSTS = {"graph": "graph, s", "epoch": "one epoch, s", "queries": "1,000 queries, s", "peak": "peak memory, MB"}
CLASSES, QUERIES = 10, 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=[1000, 2000, 5000, 10000])
    parser.add_argument("--models", type=int, nargs="*", default=[5, 10, 20, 50])
    parser.add_argument("--rows-fixed", type=int, default=2000)
    parser.add_argument("--models-fixed", type=int, default=20)
    parser.add_argument("--batch", type=int, help="rows a training step, instead of the learner's default")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--one", type=int, nargs=2, help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.one:
        print(json.dumps(one(*a.one, {"batch_size": a.batch} if a.batch else {})))
        return
    curves = {}
    for what, sizes in (("rows", a.rows), ("models", a.models)):
        if sizes:
            curves[what] = sizes, [_measured(size, a, what) for size in sizes]
            _print_exponents(what, *curves[what])
    print(measure.load_line())
    if a.plot:
        plot(curves, a.plot)


def _measured(size: int, a: argparse.Namespace, what: str) -> dict[str, float]:
    rows, models = (size, a.models_fixed) if what == "rows" else (a.rows_fixed, size)
    batch = ["--batch", str(a.batch)] if a.batch else []
    found = measure.again(__file__, "--one", str(rows), str(models), *batch).said
    print(f"{rows:>7} rows, {models:>3} models: " + ", ".join(f"{label} {found[c]:.2f}" for c, label in COSTS.items()))
    return found


def _print_exponents(what: str, sizes: list[int], found: list[dict[str, float]]) -> None:
    if len(sizes) > 1:
        fitted = {cost: measure.exponent(sizes, [each[cost] for each in found]) for cost in COSTS}
        print(f"exponents over {what}: " + ", ".join(f"{cost} {value:.2f}" for cost, value in fitted.items()))


def one(rows: int, models: int, settings: dict[str, int]) -> dict[str, float]:
    """CPU seconds by part and peak megabytes of one size, in this process."""
    _run(60, models, settings)  # compiled kernels are read from their cache before the clock starts
    with watched(feddes, "train_graph") as graph, watched(trained, "train") as epoch:
        queries = _run(rows, models, settings)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"graph": sum(graph), "epoch": sum(epoch), "queries": queries, "peak": peak}


def _run(rows: int, models: int, settings: dict[str, int]) -> float:
    rng = np.random.default_rng(0)
    learner = FedDES(own=[0], epochs=1, random_state=0, **settings)
    learner.fit_outputs(*outputs(rng, rows, models, CLASSES))
    logits, _ = outputs(rng, QUERIES, models, CLASSES)
    return measure.timed(lambda: learner.predict_proba_outputs(logits))[0]


@contextlib.contextmanager
def watched(module: ModuleType, name: str) -> Iterator[list[float]]:
    """CPU seconds of every call of ``module.name`` while it is watched."""
    original, spent = getattr(module, name), []

    def work(*args: object, **kwargs: object) -> object:
        started = time.process_time()
        found = original(*args, **kwargs)
        spent.append(time.process_time() - started)
        return found

    setattr(module, name, work)
    try:
        yield spent
    finally:
        setattr(module, name, original)


def plot(curves: dict[str, tuple[list[int], list[dict[str, float]]]], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(COSTS) * len(curves), figsize=(3.2 * len(COSTS) * len(curves), 3))
    places = iter(np.ravel(axes))
    for what, (sizes, found) in curves.items():
        for cost, label in COSTS.items():
            place, values = next(places), [each[cost] for each in found]
            place.loglog(sizes, values, "o-")
            slope = f" (exponent {measure.exponent(sizes, values):.2f})" if len(sizes) > 1 else ""
            place.set(xlabel=what, title=label + slope)
            place.title.set_fontsize(9)
    figure.tight_layout()
    figure.savefig(file)


if __name__ == "__main__":
    main()
