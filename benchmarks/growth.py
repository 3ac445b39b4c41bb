"""How time and memory of FedDES grow with rows and models: fit, 1,000 queries, peak memory.

python benchmarks/growth.py [--rows 1000 2000 5000 10000 20000 50000] [--models 5 10 20 50] [--plot growth.png]
python benchmarks/growth.py --rows 50000 --models-fixed 50 --models        # the largest case alone

Every size runs in a process of its own: its peak memory is that of having the outputs and inputs (64 numbers a row),
fitting and asking. Over rows the pool has --models-fixed models, over models the site has --rows-fixed rows. Exponents
b of cost = a * size ** b are fitted over the measured sizes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import measure
import numpy as np
from pools import outputs

from peerwise import FedDES

COSTS = {"fit": "CPU s of fit", "queries": "CPU s of 1,000 queries", "peak": "peak MB"}
CLASSES, QUERIES, INPUTS = 10, 1000, 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=[1000, 2000, 5000, 10000, 20000, 50000])
    parser.add_argument("--models", type=int, nargs="*", default=[5, 10, 20, 50])
    parser.add_argument("--rows-fixed", type=int, default=2000)
    parser.add_argument("--models-fixed", type=int, default=20)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--one", type=int, nargs=2, help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.one:
        print(json.dumps(one(*a.one)))
        return
    curves = {}
    for what, pairs in {
        "rows": [(rows, a.models_fixed) for rows in a.rows],
        "models": [(a.rows_fixed, models) for models in a.models],
    }.items():
        sizes = a.rows if what == "rows" else a.models
        if sizes:
            curves[what] = sizes, [_measured(*pair) for pair in pairs]
            _print_exponents(what, *curves[what])
    print(measure.load_line())
    if a.plot:
        plot(curves, a.plot)


def _measured(rows: int, models: int) -> dict[str, float]:
    found = measure.again(__file__, "--one", str(rows), str(models)).said
    print(f"{rows:>7} rows, {models:>3} models: " + ", ".join(f"{label} {found[c]:.2f}" for c, label in COSTS.items()))
    return found


def _print_exponents(what: str, sizes: list[int], found: list[dict[str, float]]) -> None:
    if len(sizes) > 1:
        fitted = {cost: measure.exponent(sizes, [each[cost] for each in found]) for cost in COSTS}
        print(f"exponents over {what}: " + ", ".join(f"{cost} {value:.2f}" for cost, value in fitted.items()))


def one(rows: int, models: int) -> dict[str, float]:
    """CPU seconds by part and peak megabytes of one size, in this process."""
    _run(60, models)  # libraries are loaded before the clock starts
    fit, queries = _run(rows, models)
    return {"fit": fit, "queries": queries, "peak": measure.own_peak()}


def _run(rows: int, models: int) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    logits, y = outputs(rng, rows, models, CLASSES)
    X, asked_X = (rng.normal(size=(size, INPUTS)).astype(np.float32) for size in (rows, QUERIES))
    fit, learner = measure.timed(lambda: FedDES(own=[0], random_state=0).fit_outputs(logits, y, X))
    asked, _ = outputs(rng, QUERIES, models, CLASSES)
    return fit, measure.timed(lambda: learner.predict_proba_outputs(asked, asked_X))[0]


def plot(curves: dict[str, tuple[list[int], list[dict[str, float]]]], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(curves), len(COSTS), figsize=(3.6 * len(COSTS), 3 * len(curves)), squeeze=False)
    for row, (what, (sizes, found)) in zip(axes, curves.items(), strict=True):
        for place, (cost, label) in zip(row, COSTS.items(), strict=True):
            values = [each[cost] for each in found]
            place.loglog(sizes, values, "o-")
            slope = f" (exponent {measure.exponent(sizes, values):.2f})" if len(sizes) > 1 else ""
            place.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=7)
            place.minorticks_off()
            place.set(xlabel=what, ylim=(min(values) / 3, max(values) * 3))  # an even course looks even
            for point in zip(sizes, values, strict=True):
                place.annotate(f"{point[1]:.3g}", point, (0, 5), textcoords="offset points", ha="center", fontsize=7)
            place.set_title(label + slope, fontsize=9)
    figure.tight_layout()
    figure.savefig(file)


if __name__ == "__main__":
    main()
