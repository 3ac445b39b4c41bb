"""The tables of the poisoning study, from the files of its runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pages
import pandas as pd

from peerwise.methods.instability import DECIDES

ATTACKS = {
    "flips": "label flips",
    "random": "random labels",
    "backdoor": "backdoor",
    "competent": "competent backdoor",
}
METHODS = {
    "local": "local",
    "global_ensemble": "uniform",
    "best_single": "best single",
    "knorae": "KNORA-E",
    "stacking": "stacking",
    "peerwise": "PeerwiseClassifier",
    "fedmosaic": "FedMosaic",
    "fedct": "FedCT",
    "fedavg": "FedAvg",
}
WITH_TRIGGER = ("backdoor", "competent")


def tables(folder: Path, written: Path | None = None) -> str:
    """All tables as Markdown; their figures go to ``written``."""
    runs = read(folder)
    found = figures(runs)
    if written is not None:
        found.round(4).to_csv(written, index=False, lineterminator="\n")
    parts = []
    for (dataset, sites), part in found.groupby(["dataset", "sites"]):
        parts.append(f"## {dataset}, {sites} sites\n")
        parts.append(f"Accuracy, and points over local:\n\n{_grid(part, _accuracy, tuple(ATTACKS))}")
        parts.append(f"Attack success:\n\n{_grid(part, _success, WITH_TRIGGER)}")
    parts.append(
        f"One single peer decides more than {DECIDES:.0%} of the answers (PeerwiseClassifier):\n\n{_warnings(runs)}"
    )
    return "\n".join(parts)


def read(folder: Path) -> pd.DataFrame:
    """All lines, one a method and honest site, with what the same site has alone."""
    read = [pd.read_csv(file).assign(dataset=file.name.split("-")[0]) for file in sorted(folder.glob("*.csv"))]
    runs = pd.concat(read, ignore_index=True)
    key = ["dataset", "sites", "seed", "attack", "attackers", "site"]
    alone = runs[runs["method"] == "local"].set_index(key)["accuracy"].rename("alone")
    runs = runs.join(alone, on=key)
    return runs.assign(gain=runs["accuracy"] - runs["alone"])


def figures(runs: pd.DataFrame) -> pd.DataFrame:
    """Mean over sites and then over seeds, and the standard deviation over seeds."""
    key = ["dataset", "sites", "attack", "attackers", "method"]
    values = ["accuracy", "gain", "success"]
    by_seed = runs.groupby([*key, "seed"])[values].mean().groupby(key)
    spread = by_seed.std(ddof=1).add_suffix("_spread")
    seeds = by_seed.size().rename("seeds")
    return pd.concat([by_seed.mean(), spread, seeds], axis=1).reset_index()


def _grid(found: pd.DataFrame, cell: Callable[[pd.Series], str], attacks: tuple[str, ...]) -> str:
    """A line for each attack and method, a column for each number of attackers."""
    numbers = sorted(found["attackers"].unique())
    sites = int(found["sites"].iloc[0])
    lines = [["attack", "method", *(f"{number} of {sites}" for number in numbers)]]
    for attack in attacks:
        if not (found["attack"] == attack).any():
            continue
        for method, called in METHODS.items():
            here = found[(found["method"] == method) & found["attack"].isin(["none", attack])].set_index("attackers")
            if len(here):
                cells = [cell(here.loc[number]) if number in here.index else "" for number in numbers]
                lines.append([ATTACKS[attack], called, *cells])
    return pages.table(lines[0], lines[1:])


def _accuracy(line: pd.Series) -> str:
    alone = "" if line["method"] == "local" else f" ({100 * line['gain']:+.1f})"
    return f"{100 * line['accuracy']:.1f} ± {100 * line['accuracy_spread']:.1f}{alone}"


def _success(line: pd.Series) -> str:
    return f"{100 * line['success']:.1f} ± {100 * line['success_spread']:.1f}"


def _warnings(runs: pd.DataFrame) -> str:
    """How often the warning names an attacker, and an honest peer."""
    lines = [["sites", "attack", "attackers", "honest sites x seeds", "warned of an attacker", "of an honest peer",
              "an attacker decides, median (most)", "an honest peer, median (most)"]]  # fmt: skip
    watched = runs[runs["by_honest"].notna()]
    for (sites, attackers, attack), part in watched.groupby(["sites", "attackers", "attack"]):
        bad, good = part["by_attacker"], part["by_honest"]
        lines.append([str(sites), ATTACKS.get(str(attack), "none"), str(attackers), str(len(part)),
                      f"{(bad > DECIDES).mean():.0%}" if attackers else "", f"{(good > DECIDES).mean():.0%}",
                      f"{bad.median():.1%} ({bad.max():.1%})" if attackers else "",
                      f"{good.median():.1%} ({good.max():.1%})"])  # fmt: skip
    return pages.table(lines[0], lines[1:])
