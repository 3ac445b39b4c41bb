"""Do prediction sets hold the truth as often as they promise? Real data, PeerwiseClassifier, every site by itself.

A simulated site's test rows are used for nothing else. Half of them calibrate the sets, as all of a real site's do in
`peerwise fit`; the other half says how often the truth is inside, how often an answer is sure (one class), and how
often a sure answer is right. Each site's rows are halved anew several times.

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
    """A line a seed, site, halving and level."""
    for (seed, _, site), tree in run.predictions.items():
        y, said = tree["y"], tree["probabilities"]
        for turn in range(HALVINGS):
            order = np.random.default_rng([seed, turn]).permutation(len(y))
            here, there = order[: len(y) // 2], order[len(y) // 2 :]
            made = PredictionSets.fit(said[here], y[here])
            for level in LEVELS:
                yield {"seed": seed, "site": site, "level": level, **judged(made, said[there], y[there], level)}


def judged(made: PredictionSets, said: np.ndarray, y: np.ndarray, level: float) -> dict[str, Any]:
    sets = made(said, level)
    size, inside = sets.sum(axis=1), sets[np.arange(len(y)), y]
    sure = size == 1
    return {
        "rows": len(y),
        "enough": made.rows >= least_rows(level),
        "covered": inside.mean(),
        "classes": size.mean(),
        "sure": sure.mean(),
        "right_if_sure": np.nan if not sure.any() else inside[sure].mean(),
        "right": (said.argmax(axis=1) == y).mean(),
        "worst_class": min(inside[y == code].mean() for code in np.unique(y)),
    }


def table(found: pd.DataFrame) -> pd.DataFrame:
    """Means over sites and halvings, with the spread over seeds; only where there were enough rows for the level."""
    known = found[found["enough"]]
    measures = ["covered", "classes", "sure", "right_if_sure", "right", "worst_class"]
    by_seed = known.groupby(["dataset", "level", "seed"])[measures].mean()
    mean = by_seed.groupby(["dataset", "level"]).mean()
    mean.insert(1, "spread", by_seed.groupby(["dataset", "level"])["covered"].std())
    mean["sites_with_enough"] = found.groupby(["dataset", "level"])["enough"].mean()
    return mean


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
    sys.stdout.write(table(pd.concat(parts)).round(3).to_string() + "\n")


if __name__ == "__main__":
    main()
