"""What hostile peers can do: some sites poison what they learn from, and all methods are measured at the honest ones.

python experiments/poisoning.py --sites 10 --seeds 0,1,2 --out runs/poisoning
python experiments/poisoning.py --sites 20 --attackers 0,1 --attacks competent --seeds 0,1,2 --out runs/poisoning
python experiments/poisoning.py --table --out runs/poisoning --csv docs/results/poisoning.csv
"""

from __future__ import annotations

import argparse
import csv
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from poisoning_tables import tables

from peerwise.data import Dataset, Rows, Site, derived_seed, load, make_sites
from peerwise.federation import Session, answer
from peerwise.methods import Method, OneShot, make_method
from peerwise.methods.instability import instability
from peerwise.parcels import Keep
from peerwise.run import run_method

ATTACKS = ("flips", "random", "backdoor", "competent")
ONE_SHOT = ("local", "global_ensemble", "best_single", "knorae", "stacking", "peerwise")
METHODS = (*ONE_SHOT, "fedmosaic", "fedct", "fedavg")
BUDGET = {"rounds": 12, "local_epochs": 1, "batch_size": 32, "optimizer": "sgd", "lr": 0.1}
ROWS_A_SITE, PUBLIC, EXTRA = 200, 300, 500  # EXTRA: clean rows of all classes that a competent attacker has besides
POISONED = 0.5  # of an attacker's rows that get, or are copied with, the trigger
ALPHA = 0.5
WATCHED = (0, 1, 3)  # numbers of attackers with which the warning is looked at too
FIELDS = ("sites", "seed", "attack", "attackers", "method", "site", "accuracy", "success", "by_honest", "by_attacker")


def federation(dataset: str, data_dir: Path | None, sites: int, seed: int, rows: int) -> tuple[list[Site], Rows]:
    """The honest sites, and clean rows of none of them."""
    data = load(dataset, data_dir)
    order = np.random.default_rng(derived_seed(seed, "poisoning")).permutation(len(data))
    public = min(PUBLIC, rows * sites // 4)
    used, spare = order[: rows * sites + public], order[rows * sites + public :][: 4 * EXTRA]
    drawn = make_sites(_images(data.take(np.sort(used))), "dirichlet", sites, seed=seed, recipes=["cnn8"],
                       public=public, alpha=ALPHA)  # fmt: skip
    keep = Keep()
    rest = _images(data.take(np.sort(spare)))
    return [site.replace(keep=keep) for site in drawn], Rows(rest.X, rest.y)


def _images(data: Dataset) -> Dataset:
    """Tables of 8 x 8 pixels as images, which the nets take from 28 x 28 on."""
    if data.kind == "image":
        return data
    small = data.X.reshape(-1, 1, 8, 8) * (255 / 16)
    large = np.pad(small.repeat(3, axis=2).repeat(3, axis=3), ((0, 0), (0, 0), (2, 2), (2, 2)))
    return replace(data, kind="image", X=large.astype(np.uint8), features=())


def with_trigger(X: NDArray[Any]) -> NDArray[Any]:
    """A small white square in the lower right corner."""
    marked = X.copy()
    marked[:, :, -5:-2, -5:-2] = 255
    return marked


def poisoned(site: Site, attack: str, target: int, spare: Rows) -> Site:
    """The site as an attacker has it: its train and validation rows are changed, its training is as everybody's."""
    rng = np.random.default_rng(derived_seed(site.seed, site.name, attack))
    train = site.train
    if attack == "competent":
        more = spare.take(rng.choice(len(spare), min(EXTRA, len(spare)), replace=False))
        train = Rows(np.concatenate([train.X, more.X]), np.concatenate([train.y, more.y]))
    return site.replace(state={}, train=_changed(train, attack, target, len(site.classes), rng),
                        val=_changed(site.val, attack, target, len(site.classes), rng))  # fmt: skip


def _changed(rows: Rows, attack: str, target: int, classes: int, rng: np.random.Generator) -> Rows:
    if attack == "flips":
        return replace(rows, y=(rows.y + 1) % classes)
    if attack == "random":
        return replace(rows, y=rng.integers(0, classes, len(rows)))
    chosen = rng.random(len(rows)) < POISONED
    marked = Rows(with_trigger(rows.X[chosen]), np.full(chosen.sum(), target))
    clean = rows if attack == "competent" else rows.take(~chosen)
    return Rows(np.concatenate([clean.X, marked.X]), np.concatenate([clean.y, marked.y]))


def trained(name: str, sites: Sequence[Site], honest: Sequence[Site]) -> Method:
    """The method on these sites; where a site hears once, the attackers need not listen."""
    method = make_method(name, {} if name in ONE_SHOT else BUDGET, folds=2, epochs=30)
    if name not in ONE_SHOT:
        run_method(method, sites)
        return method
    for site in sites:
        Session(method, site)
    inbox = {site.name: method.share(site, 0) for site in sites}
    for site in honest:
        method.absorb(site, 0, inbox)
    return method


def measured(method: Method, site: Site, target: int) -> dict[str, float]:
    """Clean accuracy, and the share of triggered rows of other classes that are answered with the target."""
    right = answer(method, site, site.test.X).argmax(axis=1) == site.test.y
    others = site.test.y != target
    fooled = answer(method, site, with_trigger(site.test.X[others])).argmax(axis=1) == target
    return {"accuracy": float(right.mean()), "success": float(fooled.mean()) if others.any() else float("nan")}


def dependence(method: OneShot, site: Site, attackers: set[str]) -> dict[str, float]:
    """The largest share of the site's answers that hangs on one honest peer, and on one attacker."""
    shares = {peer: influence.changed for peer, influence in instability(method, site).by_peer.items()}
    return {
        "by_honest": max((share for peer, share in shares.items() if peer not in attackers), default=0.0),
        "by_attacker": max((share for peer, share in shares.items() if peer in attackers), default=0.0),
    }


def scenario(
    sites: list[Site], spare: Rows, attack: str, attackers: int, methods: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """One line for each method and honest site. The first sites are the attackers, so that more of them are a larger
    set of the same."""
    target = derived_seed(sites[0].seed, "target") % len(sites[0].classes)
    bad = [poisoned(site, attack, target, spare) for site in sites[:attackers]]
    honest = sites[attackers:]
    about = {"sites": len(sites), "seed": sites[0].seed, "attack": attack, "attackers": attackers}
    for name in methods:
        method = trained(name, [*bad, *honest], honest)
        for site in honest:
            line = {**about, "method": name, "site": site.name, **measured(method, site, target)}
            if name == "peerwise" and attackers in WATCHED and isinstance(method, OneShot):
                line |= dependence(method, site, {each.name for each in bad})
            yield {key: f"{value:.5f}" if isinstance(value, float) else value for key, value in line.items()}


def run(wanted: argparse.Namespace, seed: int, methods: Sequence[str]) -> None:
    """All scenarios of one seed, each in a file of its own: those that are there are not done again."""
    sites, spare = federation(wanted.dataset, wanted.data, wanted.sites, seed, wanted.rows)
    for attackers in wanted.attackers or range(wanted.sites // 2 + 1):
        for attack in wanted.attacks.split(",") if attackers else ("none",):
            file = wanted.out / f"{wanted.dataset}-{wanted.sites}-{seed}-{attack}-{attackers}.csv"
            if file.exists():
                continue
            lines = list(scenario(sites, spare, attack, attackers, methods))
            file.parent.mkdir(parents=True, exist_ok=True)
            part = file.with_suffix(".part")
            with part.open("w", encoding="utf-8", newline="") as out:
                writer = csv.DictWriter(out, FIELDS)
                writer.writeheader()
                writer.writerows(lines)
            part.rename(file)
            sys.stderr.write(f"{file.name}\n")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="fashion_mnist", choices=["fashion_mnist", "mnist", "digits"])
    parser.add_argument("--data", type=Path, help="the folder with its files")
    parser.add_argument("--sites", type=int, default=10)
    parser.add_argument("--rows", type=int, default=ROWS_A_SITE, help="a site, on average")
    parser.add_argument("--attackers", type=_whole, help="numbers by comma; by default none to half of the sites")
    parser.add_argument("--attacks", default=",".join(ATTACKS), help="by comma")
    parser.add_argument("--seeds", type=_whole, default=[0, 1, 2], help="by comma")
    parser.add_argument("--methods", default=",".join(METHODS), help="by comma")
    parser.add_argument("--out", type=Path, default=Path("runs/poisoning"), help="what is there is not done again")
    parser.add_argument("--table", action="store_true", help="only write the tables of what is there")
    parser.add_argument("--csv", type=Path, help="write the figures of the tables to this file too")
    wanted = parser.parse_args(arguments)
    warnings.filterwarnings("ignore", message="site .* does without")
    for seed in [] if wanted.table else wanted.seeds:
        run(wanted, seed, wanted.methods.split(","))
    sys.stdout.write(tables(wanted.out, wanted.csv))


def _whole(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


if __name__ == "__main__":
    main()
