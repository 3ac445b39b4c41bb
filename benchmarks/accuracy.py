"""Trust learners against the own model of the same pool, on pool files (see make_pool.py), with paired tests.

python benchmarks/accuracy.py POOL.npz [POOL.npz ...] [--splits FOLDER] [--learners peerwise prior_adapted]
                              [--part test|val]

Learners see the inputs where a pool file has them, or where its split file (x, client, split; what its name says before
"__") lies in ``--splits``; without, the models' outputs only.
Files whose names differ only in a final _s<seed> are one setting. Own-only is the uniform mean of the site's own
models. ``--part val`` asks the validation rows instead, which are then not learned from: for choosing. p-values are
exact McNemar, corrected by Holm over all sites, seeds and settings of a learner.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise import TrustLearner
from peerwise.evaluate import compare, holm, mismatch, transfer
from peerwise.methods import method_class
from peerwise.space import softmax

Array = NDArray[Any]
PARTS = ("train", "val", "test")


@dataclass(frozen=True)
class Rows:
    logits: Array
    y: Array
    X: Array | None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", type=Path, nargs="+")
    parser.add_argument("--splits", type=Path)
    parser.add_argument("--learners", nargs="+", default=["peerwise", "prior_adapted", "neighbourhood", "best_single"])
    parser.add_argument(
        "--set", type=json.loads, default={}, help='settings as JSON, e.g. {"peerwise": {"features": "decision"}}'
    )
    parser.add_argument("--learner-seeds", type=int, default=3)
    parser.add_argument("--part", choices=("test", "val"), default="test")
    a = parser.parse_args()
    for name in a.learners:
        _report(name, a.set.get(name, {}), a)


def _report(name: str, settings: dict[str, Any], a: argparse.Namespace) -> None:
    settings_seen, everything = defaultdict(list), []
    started = time.process_time()
    for file in a.pools:
        setting = re.sub(r"_s\d+(__.*)?$", "", file.stem)
        for site in sites_of(file, a.part, a.splits):
            found = judged(name, settings, *site, seeds=a.learner_seeds)
            settings_seen[setting].append(found)
            everything.append(found)
    cpu = time.process_time() - started
    print(f"\n{name} {settings or ''} ({cpu:.0f} s CPU)")
    print(
        f"{'setting':<24} sites    own   ours   gain  balanced  won/tied/lost  oracle  gap closed  mismatch  on wrong"
    )
    for setting, found in settings_seen.items():
        print(f"{setting[:24]:<24} {_line(found)}")
    adjusted = holm(np.array([each["p"] for each in everything]))
    gains = np.array([each["ours"] - each["own"] for each in everything])
    over = transfer([each["ours"] for each in everything], [each["own"] for each in everything])
    rate, low, high = (100 * over[key] for key in ("win_rate", "win_rate_low", "win_rate_high"))
    print(f"all {len(gains)} sites: gain {100 * gains.mean():.2f}; win rate among not tied {rate:.0f} % ({low:.0f} to "
          f"{high:.0f}); significantly better {((adjusted < 0.05) & (gains > 0)).sum()}, worse "
          f"{((adjusted < 0.05) & (gains < 0)).sum()}; worst site {100 * gains.min():.1f}")  # fmt: skip


def _line(found: list[dict[str, float]]) -> str:
    mean = {key: 100 * float(np.nanmean([each[key] for each in found])) for key in found[0]}
    gain = np.array([each["ours"] - each["own"] for each in found])
    counts = f"{(gain > 1e-9).sum()}/{(np.abs(gain) <= 1e-9).sum()}/{(gain < -1e-9).sum()}"
    closed = 100 * (mean["ours"] - mean["own"]) / max(mean["oracle"] - mean["own"], 1e-9)
    return (
        f"{len(found):>5} {mean['own']:>6.2f} {mean['ours']:>6.2f} {mean['ours'] - mean['own']:>+6.2f} "
        f"{mean['balanced']:>+9.2f}  {counts:>13} {mean['oracle']:>7.2f} {closed:>10.0f}% "
        f"{mean['mismatch'] / 100:>9.1f} {mean['on_wrong']:>8.1f}%"
    )


def judged(
    name: str, settings: dict[str, Any], rows: Rows, val: Rows | None, asked: Rows, own: list[int], *, seeds: int
) -> dict[str, float]:
    """Accuracy of a learner (mean over learner seeds) and of the own model at one site, and how it chooses."""
    alone = softmax(asked.logits[:, own]).mean(axis=1).argmax(axis=1)
    right = asked.logits.argmax(axis=2) == asked.y[:, None]
    runs = []
    for seed in range(seeds):
        learner: TrustLearner = method_class(name)(own=own, **settings)
        if "random_state" in learner.get_params():
            learner.set_params(random_state=seed)
        learner.fit_outputs(rows.logits, rows.y, rows.X, validation=(val.logits, val.y, val.X) if val else None)
        trust = learner.trust_outputs(asked.logits, asked.X)
        answers = learner.predict_proba_outputs(asked.logits, asked.X).argmax(axis=1)
        against = compare(asked.y, answers, alone)
        chosen = mismatch(asked.y, trust, asked.logits.argmax(axis=2))
        runs.append({"ours": float((answers == asked.y).mean()), "balanced": against.balanced_gain, "p": against.p,
                     "mismatch": chosen["mismatch"], "on_wrong": chosen["trust_on_wrong"]})  # fmt: skip
    # One test a site: that of the first learner seed; several would count the same rows again.
    mean = {key: float(np.mean([run[key] for run in runs])) for key in runs[0] if key != "p"}
    own_accuracy = float((alone == asked.y).mean())
    return {**mean, "p": runs[0]["p"], "own": own_accuracy, "oracle": float(right.any(axis=1).mean())}


def sites_of(file: Path, part: str, splits: Path | None) -> Iterator[tuple[Rows, Rows | None, Rows, list[int]]]:
    z = np.load(file)
    split_file = splits / f"{file.stem.split('__')[0]}.npz" if splits else None
    split = np.load(split_file) if split_file and split_file.exists() else None
    sites = sum(name.startswith("train_y_") for name in z.files)
    home = z["home"] if "home" in z.files else np.arange(sites)

    def rows(name: str, k: int) -> Rows:
        X = z[f"{name}_x_{k}"] if f"{name}_x_{k}" in z.files else None
        if X is None and split is not None:
            X = split["x"][(split["client"] == k) & (split["split"] == PARTS.index(name))]
        return Rows(z[f"{name}_logits_{k}"], z[f"{name}_y_{k}"], X)

    for k in range(sites):
        train, val, asked = (rows(name, k) for name in ("train", "val", part))
        if len(asked.y):
            yield train, val if part == "test" and len(val.y) else None, asked, np.flatnonzero(home == k).tolist()


if __name__ == "__main__":
    main()
