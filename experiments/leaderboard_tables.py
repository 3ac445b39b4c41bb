"""The leaderboard's tables, its critical-difference diagram, and the evidence of `peerwise recommend`.

python experiments/leaderboard_tables.py runs/leaderboard                # the tables as Markdown
python experiments/leaderboard_tables.py runs/leaderboard --everywhere   # into the page, the picture and the evidence

Works on what is there: cells that have not run yet are named on the page.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import pages
import pandas as pd
from leaderboard import KINDS, cells
from leaderboard_evidence import evidence
from leaderboard_figure import draw

from peerwise.errors import ConfigError
from peerwise.evaluate.ranks import Ranking, against, ranking
from peerwise.evaluate.recommend import Situation, recommend
from peerwise.methods.registry import has_budget, method_names

OWN = "own"  # the mean of a site's own models, in the pool of every one-shot method
BARS = (OWN, "local_rounds")
POOLED = ("best_single", "stacking")  # whose pool holds it
KEY = ["dataset", "kind", "seed", "site"]
SETTING = ["dataset", "kind"]
NOT_RANKED = "vertical"  # most methods cannot run there
LEVEL = 0.05
ROOT = Path(__file__).parents[1]
PAGE, PICTURE = ROOT / "docs" / "results" / "leaderboard.md", ROOT / "docs" / "results" / "leaderboard.png"
EVIDENCE = ROOT / "src" / "peerwise" / "evaluate" / "leaderboard.json"
SITUATIONS: dict[str, dict[str, Any]] = {
    "strong label skew": {"skew": "strong"},
    "mild label skew": {"skew": "mild"},
    "no label skew": {"skew": "none"},
    "classes that only peers have": {"strangers": True},
    "wrong labels at a peer": {"wrong_labels": True},
    "own columns": {"own_columns": True},
}


def read(folder: Path) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
    """All lines, one a setting, seed, method and site, with what the site has ``alone`` (own models of the pool or
    ``local_rounds``, whichever is better in the setting) and the gain over it (``over_alone``); and what there is to
    know about every setting."""
    tables, abouts = [], []
    for dataset, kind in cells():
        path = folder / f"{dataset}_{kind}"
        if (path / "sites.csv").exists():
            about = json.loads((path / "about.json").read_text())
            table = pd.read_csv(path / "sites.csv").assign(dataset=dataset, kind=kind)
            tables.append(table.assign(cpu=table["seconds"] * about["cpu"] / about["wall"]))
            abouts.append(about)
    lines = pd.concat(tables, ignore_index=True)
    lines = lines[lines["test_rows"] > 0]
    pooled = lines[(lines["reference"] == OWN) & lines["method"].isin(POOLED)].drop_duplicates(KEY)
    own = pooled.assign(
        method=OWN, accuracy=pooled["own_accuracy"], accuracy_gain=0.0, bytes_sent=0.0, cpu=float("nan")
    )
    lines = pd.concat([lines, own], ignore_index=True)
    lines.loc[lines["method"] == "local_rounds", "accuracy_gain"] = 0.0
    bars = lines[lines["method"].isin(BARS)]
    better = by_setting(bars, "accuracy")[list(BARS)].idxmax(axis=1).rename("better")
    bars = bars.join(better, on=SETTING)
    alone = bars[bars["method"] == bars["better"]].set_index(KEY)["accuracy"].rename("alone")
    lines = lines.join(alone, on=KEY)
    return lines.assign(over_alone=lines["accuracy"] - lines["alone"]), abouts


def by_setting(lines: pd.DataFrame, column: str) -> pd.DataFrame:
    """Settings x methods: the mean over sites, then over seeds."""
    means = lines.groupby([*SETTING, "seed", "method"])[column].mean().groupby([*SETTING, "method"]).mean()
    return means.unstack("method")


def ranked(lines: pd.DataFrame) -> Ranking:
    """By accuracy, over all settings but those where most methods cannot run."""
    accuracy = by_setting(lines[lines["kind"] != NOT_RANKED], "accuracy")
    return ranking(accuracy.dropna(axis=1))


def leaderboard(lines: pd.DataFrame, ranks: pd.Series[float]) -> str:
    """A line a method, the best mean rank first, those that did not run everywhere last."""
    order = [*ranks.index, *sorted(set(lines["method"]) - set(ranks.index))]
    p = against(by_setting(lines[lines["kind"] != NOT_RANKED], "accuracy_gain").drop(columns=list(BARS)))
    table = [["method", "rank", "gain over its bar", "p", "over alone", "wins / ties / losses", "worst site",
              "sent a site", "CPU s a site", "settings"]]  # fmt: skip
    total = len(lines[SETTING].drop_duplicates())
    for method in order:
        part = lines[lines["method"] == method]
        table.append([
            method,
            f"{ranks[method]:.1f}" if method in ranks else "",
            "" if method in BARS else spread(part, "accuracy_gain"),
            _p(p.get(method)),
            spread(part, "over_alone"),
            "" if method in BARS else shares(part["accuracy_gain"]),
            f"{100 * worst(part):+.1f}",
            size(part["bytes_sent"].mean()),
            "" if part["cpu"].isna().all() else f"{part['cpu'].mean():.2f}",
            f"{len(part[SETTING].drop_duplicates())} of {total}",
        ])  # fmt: skip
    return pages.table(table[0], table[1:])


def by_kind(lines: pd.DataFrame, order: list[str]) -> str:
    """Points over what a site has alone, a column a kind of heterogeneity."""
    gains = by_setting(lines, "over_alone").groupby("kind").mean()
    kinds = [kind for kind in KINDS if kind in gains.index]
    counts = lines[SETTING].drop_duplicates()["kind"].value_counts()
    table = [["method", *(f"{kind} ({counts[kind]})" for kind in kinds)]]
    alone = by_setting(lines[lines["method"] == OWN], "alone").groupby("kind").mean()[OWN]
    table.append(["alone, % right", *(f"{100 * alone[kind]:.1f}" for kind in kinds)])
    for method in [*order, *sorted(set(gains.columns) - set(order))]:
        values = [gains.loc[kind, method] for kind in kinds]
        table.append([method, *("" if pd.isna(value) else f"{100 * value:+.1f}" for value in values)])
    return pages.table(table[0], table[1:])


def best_three(lines: pd.DataFrame) -> str:
    """For each kind the three most accurate, and in how many settings each is above what a site has alone."""
    table = [["kind", "data sets", "best", "second", "third", "methods above alone"]]
    gains = by_setting(lines[~lines["method"].isin([*BARS, "centralised_rounds"])], "over_alone")
    for kind in KINDS:
        if kind not in gains.index.get_level_values("kind"):
            continue
        here = gains.xs(kind, level="kind").dropna(axis=1)
        means = here.mean().sort_values(ascending=False)
        best = [f"{name} {100 * means[name]:+.1f} (above in {(here[name] > 0).sum()} of {len(here)})"
                for name in means.index[:3]]  # fmt: skip
        table.append([kind, ", ".join(here.index), *best, f"{(means > 0).sum()} of {len(means)}"])
    return pages.table(table[0], table[1:])


def unable(abouts: list[dict[str, Any]]) -> str:
    """Which methods could not run where, and why."""
    found: dict[str, list[str]] = {}
    for about in abouts:
        for method, why in about["cannot"].items():
            found.setdefault(f"{about['kind']}: {_reason(why)}", []).append(method)
    return "".join(f"- {why}: {', '.join(sorted(set(methods)))}\n" for why, methods in found.items())


def _reason(why: str) -> str:
    for sign in ("different columns", "public rows", "no rows of kind", "architecture"):
        if sign in why:
            return sign
    return why.split(": ")[-1]


def spread(part: pd.DataFrame, column: str) -> str:
    """Mean over sites, then settings; the standard deviation over seeds of that mean."""
    by_seed = part.groupby([*SETTING, "seed"])[column].mean().groupby("seed").mean() * 100
    return f"{by_seed.mean():+.1f} ± {by_seed.std(ddof=1):.1f}"


def shares(gains: pd.Series[float]) -> str:
    tie = gains.abs() < 1e-9
    parts = ((gains > 0) & ~tie, tie, (gains < 0) & ~tie)
    return " / ".join(f"{100 * each.mean():.0f}" for each in parts)


def worst(part: pd.DataFrame) -> float:
    """The gain over what it has alone of the site that gains least, mean over settings and seeds."""
    return float(part.groupby([*SETTING, "seed"])["over_alone"].min().mean())


def size(number: float) -> str:
    if number < 1000:
        return f"{number:.0f} B"
    return f"{number / 1000:.0f} kB" if number < 1_000_000 else f"{number / 1_000_000:.1f} MB"


def _p(value: float | None) -> str:
    if value is None or pd.isna(value):
        return ""
    return "< 0.001" if value < 0.001 else f"{value:.3f}" if value < LEVEL else f"{value:.2f}"


def headline(lines: pd.DataFrame, found: Ranking) -> str:
    """What was found, in figures alone, so that it is as true of half of the cells as of all."""
    here = lines[(lines["kind"] != NOT_RANKED) & ~lines["method"].isin([*BARS, "centralised_rounds"])]
    means = by_setting(here, "over_alone").mean()
    order = [name for name in found.ranks.index if name in means.index]
    best, last = (
        ", ".join(f"`{name}` {found.ranks[name]:.1f} ({100 * means[name]:+.1f} points over alone)" for name in names)
        for names in (order[:5], order[-3:])
    )
    apart = int((found.ranks >= found.ranks.iloc[0] + found.critical).sum())
    return (
        f"Found, in small: over {found.blocks} settings and {len(means)} methods the best mean ranks have {best}; what "
        f"a site has alone ranks {found.ranks[OWN]:.1f} (`own`) and {found.ranks['local_rounds']:.1f} "
        f"(`local_rounds`), the last {last}. {(means > 0).sum()} of {len(means)} methods gain anything over what a "
        f"site has alone, on average. "
        f"{apart} differ significantly from the best by the critical difference.\n"
    )


def fallbacks(abouts: list[dict[str, Any]]) -> str:
    """Where a method failed at a site and something simpler answered."""
    found: dict[tuple[str, str], list[str]] = {}
    for about in abouts:
        for each in about["fell_back"]:
            key = (
                each["method"].split("~")[0],
                each["why"].split(":")[-2].strip() if ":" in each["why"] else each["why"],
            )
            found.setdefault(key, []).append(f"{about['dataset']} {about['kind']}")
    if not found:
        return "No method failed at any site.\n"
    return "".join(
        f"- `{method}` at {len(places)} sites x seeds ({', '.join(sorted(set(places)))}): {why}\n"
        for (method, why), places in sorted(found.items())
    )


def what_ran(lines: pd.DataFrame, abouts: list[dict[str, Any]], found: Ranking) -> str:
    """Sizes of the study, what it took, and what is still missing."""
    wall, cpu = (sum(about[key] for about in abouts) / 60 for key in ("wall", "cpu"))
    commits = ", ".join(sorted({about["commit"] for about in abouts}))
    done = {(about["dataset"], about["kind"]) for about in abouts}
    missing = [f"{dataset} {kind}" for dataset, kind in cells() if (dataset, kind) not in done]
    seeds = min(about["facts"]["seeds"] for about in abouts)
    return (
        f"{len(abouts)} settings of {len(cells())}, {lines['method'].nunique() - 1} methods, {seeds} seeds; "
        f"{cpu:.0f} CPU minutes ({wall:.0f} minutes on a busy machine); commit {commits}. Ranks are over "
        f"{found.blocks} settings: Friedman's p {found.p:.0e}, critical difference {found.critical:.1f}. "
        + (f"Not run yet: {', '.join(missing)}.\n" if missing else "All cells have run.\n")
    )


def when(told: dict[str, Any]) -> str:
    """What `peerwise recommend` says of every situation that was measured, as a table."""
    table = [["situation", "rows of", "settings", "use", "avoid (worst three)"]]
    for name, said in SITUATIONS.items():
        for kind in ("table", "image"):
            try:
                found = recommend(Situation(kind=kind, public=100, **said), told)
            except ConfigError:  # images have no columns; or that part has not run yet
                continue
            if any(each["data"] != kind for each in found["comparable"]):
                continue
            use = ", ".join(f"{each['method']} {_points(each)}" for each in found["use"]) or "your own models"
            avoid = ", ".join(f"{each['method']} {_points(each)}" for each in found["avoid"][:3])
            table.append([name, kind, str(len(found["comparable"])), use, avoid])
    return pages.table(table[0], table[1:])


def _points(each: dict[str, Any]) -> str:
    return f"{100 * each['gain']:+.1f} ± {100 * each['error']:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--everywhere", action="store_true", help="rewrite the page, the picture and the evidence")
    arguments = parser.parse_args()
    lines, abouts = read(arguments.folder)
    found = ranked(lines)
    told = evidence(lines, abouts)
    parts = {
        "headline": headline(lines, found),
        "what ran": what_ran(lines, abouts, found),
        "leaderboard": leaderboard(lines, found.ranks),
        "best three": best_three(lines),
        "by kind": by_kind(lines, list(found.ranks.index)),
        "which method when": when(told),
        "who could not run": unable(abouts),
        "fallbacks": fallbacks(abouts),
    }
    sys.stdout.write("\n".join(parts.values()))
    if arguments.everywhere:
        pages.put(PAGE, parts)
        draw(found, {name: has_budget(name) for name in method_names()}, PICTURE)
        EVIDENCE.write_text(json.dumps(told, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
