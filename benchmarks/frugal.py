"""What frugal answers save and cost, on pool files (see make_pool.py): a PeerwiseClassifier cascade against all models.

python benchmarks/frugal.py POOL.npz [POOL.npz ...] [--splits FOLDER] [--part test|val] [--tolerance 0.005]

Files whose names differ only in a final _s<seed> are one setting; figures are means over its sites, then over its
seeds, with the standard deviation over seeds. Learners see the inputs where a pool file has them, or where its split
file lies in ``--splits``. A model evaluation is one model asked about one row; at a site without a cascade all are.
``--part val`` asks the validation rows instead, which are then not learned from: for choosing. Milliseconds are CPU
time of the learners for one row asked by itself, without the models' own.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import measure
import numpy as np
from accuracy import Rows, sites_of
from numpy.typing import NDArray

from peerwise import PeerwiseClassifier
from peerwise.space import softmax
from peerwise.trust.frugal import Cascade, Frugal

SHARE, POINTS = 40.0, 0.5  # the target: at most this share of the model evaluations, for at most so many points
ONE_BY_ONE = 20  # rows of each site that are timed
HEADER = (
    f"{'setting':<24}{'seeds':>6}{'sites':>6}{'models':>7}  {'asked %':>12}  {'peers asked %':>13}"
    f"  {'own':>6}  {'all':>6}  {'frugal':>6}  {'frugal - all':>13}  {'other answers %':>15}"
    f"  {'ms all':>6}  {'ms frugal':>9}  target"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", type=Path, nargs="+")
    parser.add_argument("--splits", type=Path)
    parser.add_argument("--part", choices=("test", "val"), default="test")
    parser.add_argument("--tolerance", type=float, default=0.005)
    a = parser.parse_args()
    by_setting: dict[str, list[list[dict[str, float]]]] = defaultdict(list)
    for file in a.pools:
        setting = re.sub(r"_s\d+(__.*)?$", "", file.stem)
        sites = [_one_site(*site, tolerance=a.tolerance) for site in sites_of(file, a.part, a.splits)]
        by_setting[setting].append(sites)
    print(HEADER)
    met = [_line(setting, seeds) for setting, seeds in by_setting.items()]
    print(
        f"at most {SHARE:.0f} % of the model evaluations for at most {POINTS} points: {sum(met)} of {len(met)} settings"
    )
    print(measure.load_line())


def _one_site(rows: Rows, val: Rows | None, asked: Rows, own: list[int], *, tolerance: float) -> dict[str, float]:
    learner = PeerwiseClassifier(own=own, random_state=0)
    full = PeerwiseClassifier(own=own, random_state=0)
    full.fit_outputs(rows.logits, rows.y, rows.X, validation=(val.logits, val.y, val.X) if val else None)
    parts = [rows, val] if val else [rows]
    logits, y = np.concatenate([part.logits for part in parts]), np.concatenate([part.y for part in parts])
    X = None if rows.X is None else np.concatenate([part.X for part in parts if part.X is not None])
    cascade = Cascade.fit(learner, logits, y, X, own=own, tolerance=tolerance, full=full)
    of_all = full.predict_proba_outputs(asked.logits, asked.X).argmax(axis=1)
    answers, consulted = of_all, np.ones(asked.logits.shape[:2], bool)
    if cascade:
        found = _answered(cascade, asked.logits, asked.X)
        answers, consulted = found.probabilities.argmax(axis=1), found.consulted
    alone = softmax(asked.logits[:, own]).mean(axis=1).argmax(axis=1)
    peers = np.setdiff1d(np.arange(asked.logits.shape[1]), own)
    milliseconds = _milliseconds(cascade, full, asked)
    right = {"own": alone, "all": of_all, "frugal": answers}
    return {
        **{name: 100 * float((said == asked.y).mean()) for name, said in right.items()},
        "asked": 100 * float(consulted.mean()),
        "peers": 100 * float(consulted[:, peers].mean()),
        "other": 100 * float((answers != of_all).mean()),
        "models": asked.logits.shape[1],
        "ms_all": milliseconds[0],
        "ms_frugal": milliseconds[1],
        "without": float(cascade is None),
    }


def _answered(cascade: Cascade, logits: NDArray[np.float32], X: Any) -> Frugal:
    return cascade.answer(lambda columns, rows: logits[np.ix_(rows, np.array(columns))], len(logits), X)


def _milliseconds(cascade: Cascade | None, full: PeerwiseClassifier, asked: Rows) -> tuple[float, float]:
    """A row, by all models and by the cascade: medians."""
    taken: tuple[list[float], list[float]] = [], []
    for row in range(min(ONE_BY_ONE, len(asked.y))):
        logits, X = asked.logits[row : row + 1], None if asked.X is None else asked.X[row : row + 1]
        started = time.process_time()
        full.predict_proba_outputs(logits, X)
        taken[0].append(time.process_time() - started)
        started = time.process_time()
        if cascade:
            _answered(cascade, logits, X)
        taken[1].append(time.process_time() - started if cascade else taken[0][-1])
    return 1000 * float(np.median(taken[0])), 1000 * float(np.median(taken[1]))


def _line(setting: str, seeds: list[list[dict[str, float]]]) -> bool:
    """Print the figures of one setting; whether it meets the target."""
    means = [{key: float(np.mean([site[key] for site in sites])) for key in sites[0]} for sites in seeds]
    mean = {key: float(np.mean([each[key] for each in means])) for key in means[0]}
    cost = [each["frugal"] - each["all"] for each in means]
    met = mean["asked"] <= SHARE and np.mean(cost) >= -POINTS
    without = sum(int(site["without"]) for sites in seeds for site in sites)
    print(
        f"{setting[:23]:<24}{len(seeds):>6}{sum(map(len, seeds)):>6}{mean['models']:>7.0f}  "
        f"{_spread([each['asked'] for each in means]):>12}  {mean['peers']:>13.1f}  {mean['own']:>6.2f}  "
        f"{mean['all']:>6.2f}  {mean['frugal']:>6.2f}  {_spread(cost, '+.2f'):>13}  {mean['other']:>15.2f}  "
        f"{mean['ms_all']:>6.2f}  {mean['ms_frugal']:>9.2f}  {'met' if met else 'MISSED'}"
        + (f" ({without} sites without a cascade)" if without else "")
    )
    return bool(met)


def _spread(values: list[float], form: str = ".1f") -> str:
    return f"{np.mean(values):{form}}" + (f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else "")


if __name__ == "__main__":
    main()
