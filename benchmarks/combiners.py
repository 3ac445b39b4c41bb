"""PeerwiseClassifier against the simplest combiners of the same pool, on pool files (see make_pool.py).

python benchmarks/combiners.py POOL.npz [POOL.npz ...] [--splits FOLDER] [--learners feddes ...] [--out TABLE.csv]

Own model, uniform average, logistic regression over the square roots of all outputs, and trust learners by name. For
each setting (files whose names differ only in a final _s<seed>) the mean over sites of accuracy, balanced accuracy,
AUROC, log-loss and Brier score, in percent, and the calibration error of all rows together. Below: how far
PeerwiseClassifier is from the best of the three in each setting, in points and in standard errors of the difference
over sites. Learners see the inputs where accuracy.py says so.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from accuracy import Rows, sites_of
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from peerwise import TrustLearner
from peerwise.methods import method_class
from peerwise.metrics import accuracy, auroc, balanced_accuracy, brier, calibration_error, log_loss
from peerwise.space import softmax

Floats = NDArray[np.float64]
Site = tuple[Rows, Rows | None, Rows, list[int]]
SIMPLE = ("own", "average", "logistic")
OURS = "peerwise"
LOWER = ("log_loss", "brier", "ece")
FIGURES = ("accuracy", "balanced", "auroc", "log_loss", "brier")


def own(site: Site) -> Floats:
    return np.asarray(softmax(site[2].logits[:, site[3]]).mean(axis=1), dtype=np.float64)


def average(site: Site) -> Floats:
    return np.asarray(softmax(site[2].logits).mean(axis=1), dtype=np.float64)


def logistic(site: Site) -> Floats:
    train, val, asked, _ = site
    parts = [part for part in (train, val) if part is not None]
    features, y = np.concatenate([_roots(part) for part in parts]), np.concatenate([part.y for part in parts])
    found = np.zeros((len(asked.y), asked.logits.shape[2]))
    if len(np.unique(y)) == 1:
        found[:, y[0]] = 1.0
        return found
    model = LogisticRegression(max_iter=300).fit(features, y)
    found[:, model.classes_] = model.predict_proba(_roots(asked))
    return found


def _roots(rows: Rows) -> Floats:
    return np.sqrt(softmax(rows.logits).reshape(len(rows.y), -1))


def learned(name: str) -> Callable[[Site], Floats]:
    def answers(site: Site) -> Floats:
        train, val, asked, mine = site
        learner: TrustLearner = method_class(name)(own=mine)
        if "random_state" in learner.get_params():
            learner.set_params(random_state=0)
        learner.fit_outputs(
            train.logits, train.y, train.X, validation=(val.logits, val.y, val.X) if val is not None else None
        )
        return learner.predict_proba_outputs(asked.logits, asked.X)

    return answers


def figures(y: NDArray[np.int64], said: Floats) -> dict[str, float]:
    answers = said.argmax(axis=1)
    found = (accuracy(y, answers), balanced_accuracy(y, answers), auroc(y, said), log_loss(y, said), brier(y, said))
    return {name: 100 * value for name, value in zip(FIGURES, found, strict=True)}


def measured(files: list[Path], splits: Path | None, learners: list[str]) -> pd.DataFrame:
    """A line a setting, combiner and site, with the answers for the calibration error."""
    combiners: dict[str, Callable[[Site], Floats]] = {"own": own, "average": average, "logistic": logistic}
    combiners |= {name: learned(name) for name in learners}
    lines: list[dict[str, Any]] = []
    for file in files:
        setting = re.sub(r"_s\d+(__.*)?$", "", file.stem)
        for place, site in enumerate(sites_of(file, "test", splits)):
            for name, answer in combiners.items():
                said = answer(site)
                line = {"setting": setting, "file": file.stem, "site": place, "combiner": name, "rows": len(said)}
                lines.append({**line, **figures(site[2].y, said), "said": said, "y": site[2].y})
    return pd.DataFrame(lines)


def by_setting(lines: pd.DataFrame) -> pd.DataFrame:
    table = lines.groupby(["setting", "combiner"], sort=False)[list(FIGURES)].mean()
    errors: dict[Any, float] = defaultdict(float)
    for key, part in lines.groupby(["setting", "combiner"], sort=False):
        errors[key] = 100 * calibration_error(np.concatenate(list(part["y"])), np.concatenate(list(part["said"])))
    return table.assign(ece=[errors[key] for key in table.index])


def against_best(lines: pd.DataFrame, name: str = OURS) -> pd.DataFrame:
    """The difference from the best simple combiner of each setting, positive where ours is better, and that in standard
    errors over sites."""
    found = []
    for setting, part in lines.groupby("setting", sort=False):
        wide = part.pivot(index=["file", "site"], columns="combiner", values=list(FIGURES))
        for figure in FIGURES:
            sign = -1 if figure in LOWER else 1
            best = max(SIMPLE, key=lambda each: sign * wide[figure][each].mean())
            gain = sign * (wide[figure][name] - wide[figure][best])
            error = float(gain.std(ddof=1) / np.sqrt(gain.count()))
            found.append(
                {"setting": setting, "figure": figure, "best": best, "difference": gain.mean(),
                 "errors": gain.mean() / error if error else 0.0}
            )  # fmt: skip
    return pd.DataFrame(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", type=Path, nargs="+")
    parser.add_argument("--splits", type=Path)
    parser.add_argument("--learners", nargs="*", default=[], help="besides peerwise")
    parser.add_argument("--out", type=Path, help="a line a setting, combiner and site, as CSV")
    a = parser.parse_args()
    lines = measured(a.pools, a.splits, [OURS, *a.learners])
    if a.out is not None:
        lines.drop(columns=["said", "y"]).round(4).to_csv(a.out, index=False)
    table = by_setting(lines)
    for figure in (*FIGURES, "ece"):
        wide = table[figure].unstack()[[*SIMPLE, OURS, *a.learners]]
        wide.loc["mean"] = wide.mean()
        print(f"\n{figure}\n{wide.round(2).to_string()}")
    print("\nPeerwiseClassifier less the best of own, average, logistic (positive: better), and in standard errors")
    far = against_best(lines)
    print(far.pivot(index="setting", columns="figure", values="difference")[list(FIGURES)].round(2).to_string())
    print(far.pivot(index="setting", columns="figure", values="errors")[list(FIGURES)].round(1).to_string())


if __name__ == "__main__":
    main()
