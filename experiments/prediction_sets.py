"""Do prediction sets hold the truth as often as they promise? Real data, PeerwiseClassifier, every site by itself.

A simulated site's test rows are used for nothing else. Half of them calibrate the sets, as all of a real site's do in
`peerwise fit`; the other half says how often the truth is inside, over all rows and for the worst class, how often an
answer is sure (one class), how often a sure answer is right, and how often the calibration rows said that it would be.
Marginal sets and sets by class. Each site's rows are halved anew several times.

python experiments/prediction_sets.py --out runs/coverage
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from peerwise import simulate
from peerwise.run import Run
from peerwise.trust.prediction_sets import PredictionSets, least_rows

LEVELS = (0.8, 0.9, 0.95)
HALVINGS = 20  # of a site's test rows
SETTINGS: dict[str, dict[str, Any]] = {
    "heart_disease": {"seeds": 10},
    "adult": {"rows": 6000, "partition": "natural", "models": ["logistic", "boosting"], "seeds": 3},
    "covertype": {"rows": 6000, "partition": "natural", "models": ["logistic", "forest"], "seeds": 3},
    "digits": {"partition": "dirichlet", "partition_settings": {"alpha": 0.3}, "sites": 6, "seeds": 5},
    "fashion_mnist": {
        "rows": 6000,
        "partition": "exdir",
        "partition_settings": {"classes_per_site": 3, "alpha": 1.0},
        "sites": 10,
        "models": ["small_cnn"],
        "seeds": 3,
    },
}


def halved(run: Run) -> Iterator[dict[str, Any]]:
    """One line per seed, site, halving, kind of sets and level."""
    for (seed, _, site), tree in run.predictions.items():
        y, said = tree["y"], tree["probabilities"]
        for turn in range(HALVINGS):
            order = np.random.default_rng([seed, turn]).permutation(len(y))
            here, there = order[: len(y) // 2], order[len(y) // 2 :]
            for by_class in (False, True):
                made = PredictionSets.fit(said[here], y[here], by_class=by_class)
                about = {"seed": seed, "site": site, "kind": made.kind}
                for level in LEVELS:
                    yield {**about, "level": level, **judged(made, said[there], y[there], level)}


def judged(made: PredictionSets, said: np.ndarray, y: np.ndarray, level: float) -> dict[str, Any]:
    sets = made(said, level)
    size, inside = sets.sum(axis=1), sets[np.arange(len(y)), y]
    sure = size == 1
    stated = made.record(level).sure
    return {
        "rows": len(y),
        "enough": made.rows >= least_rows(level),
        "covered": inside.mean(),
        "classes": size.mean(),
        "sure": sure.mean(),
        "sure_answers": sure.sum(),
        "wrong_answers": (~inside[sure]).sum(),
        "stated_answers": stated.answers,
        "stated_wrong": stated.wrong,
        "right": (said.argmax(axis=1) == y).mean(),
        "by_class": [inside[y == code].mean() if (y == code).any() else np.nan for code in range(said.shape[1])],
    }


def table(found: pd.DataFrame) -> pd.DataFrame:
    """Means over sites and halvings, with the spread over seeds; only where there were enough rows for the level. How
    often sure answers are right is counted over all of a seed's sure answers, beside what `record` said. The worst
    class is that of each site: the lowest of its classes' coverages, each a mean over halvings."""
    known = found[found["enough"]]
    keys = ["dataset", "kind", "level"]
    by_seed = known.groupby([*keys, "seed"])[["covered", "classes", "sure", "right"]].mean()
    counted = known.groupby([*keys, "seed"])[["sure_answers", "wrong_answers", "stated_answers", "stated_wrong"]].sum()
    by_seed["right_if_sure"] = 1 - counted["wrong_answers"] / counted["sure_answers"]
    by_seed["stated_right_if_sure"] = 1 - counted["stated_wrong"] / counted["stated_answers"]
    by_site = known.groupby([*keys, "seed", "site"])["by_class"]
    by_seed["worst_class"] = by_site.agg(_worst).groupby([*keys, "seed"]).mean()
    mean = by_seed.groupby(keys).mean()
    mean.insert(1, "spread", by_seed.groupby(keys)["covered"].std())
    mean["sites_with_enough"] = found.groupby(keys)["enough"].mean()
    return mean


def _worst(halvings: pd.Series) -> float:
    coverage = np.array(halvings.tolist(), float)
    seen = coverage[:, ~np.isnan(coverage).all(axis=0)]
    return float(np.nanmean(seen, axis=0).min())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default=",".join(SETTINGS), help="by comma")
    parser.add_argument("--out", type=Path, default=Path("runs/coverage"), help="run folders (resumable)")
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    parts = []
    for name in arguments.datasets.split(","):
        run = simulate(
            name, **SETTINGS[name], methods=["peerwise"], out=arguments.out / name, workers=arguments.workers
        )
        parts.append(pd.DataFrame(halved(run)).assign(dataset=name))
    sys.stdout.write(table(pd.concat(parts, ignore_index=True)).round(3).to_string() + "\n")


if __name__ == "__main__":
    main()
