"""What a reader looks at first: each method in one line, and each site's gain."""

from __future__ import annotations

import math

import pandas as pd

from peerwise.evaluate import Assessment
from peerwise.evaluate.summary import OWN, REFERENCES
from peerwise.report.cells import (
    duration,
    empty,
    ends,
    figure,
    gains,
    shares,
    size,
    whole,
    with_marks,
    words,
)
from peerwise.report.sheets import Cell, Column, Sheet
from peerwise.report.tables import METHOD, bar_cells, bar_columns
from peerwise.run import Run

TIE = 1e-12
METHODS = (
    "Accuracy in percent, mean over sites and seeds, and of the worst site of a seed; own: the own models of the pool "
    "that a method chose from; over own, local, local_rounds: points over these, over the site's own models, or over "
    "the same nets trained alone, with a 95 % interval; no worse at: of sites x seeds; time: of all sites together, a "
    "seed"
)
SITES = (
    "Own, local, local_rounds: percent answered rightly by the site's own models, or by the same nets trained alone; "
    "then by how many points each method is above what it is held to{}"
)
OTHER_SITES = "; mean over seeds, in each of which a site of that name has other rows"
SEEDS = "; mean over seeds"
TESTED = (
    "Every seed, method and site against what the site has alone, on the same rows; p: exact McNemar test, "
    "Holm-corrected over the lines of a method"
)


def methods_table(found: Assessment) -> Sheet:
    """One line a method: how good, for whom, and at what price."""
    summary = found.methods
    promises = {line["method"]: line for line in found.privacy}
    means = list(with_marks([shares(value) for value in summary["accuracy"]]))
    worst = list(with_marks([shares(value) for value in summary["accuracy_worst"]]))
    parts = ("accuracy_gain_low", "accuracy_gain_high")
    bars = summary.loc[~summary.index.isin(REFERENCES), "bar"]
    columns = [METHOD, Column("accu-\nracy", "accuracy", "%"), Column("worst\nsite", "accuracy_worst", "%"),
               *bar_columns(bars),
               Column("95 %\ninterval", "accuracy_gain_interval", "points", parts),
               Column("no\nworse\nat", "no_worse", "sites x seeds", ("no_worse_at", "no_worse_of")),
               Column("sent\n/site", "bytes_sent", "bytes"),
               Column("time", "seconds", "seconds")]  # fmt: skip
    columns += [Column("privacy", "epsilon", "epsilon")] if promises else []
    rows = []
    for place, (name, line) in enumerate(summary.iterrows()):
        cells = [words(name), means[place], worst[place]]
        if name in REFERENCES or "accuracy_gain" not in summary.columns:
            cells += [*(empty() for _ in bar_columns(bars)), Cell("", (None, None)), Cell("", (None, None))]
        else:
            cells += bar_cells(bars, line["bar"], line["accuracy_gain"])
            cells.append(ends(*(line[part] for part in parts)))
            cells.append(_no_worse(found, str(name)))
        seconds = [line[key] for key in summary.columns if str(key).startswith("seconds_")]
        known = [value for value in seconds if not math.isnan(value)]
        total = sum(known) if known else math.nan
        cells += [figure(line.get("bytes_sent"), size), figure(total, duration)]
        if promises:
            cells.append(_promise(promises.get(str(name))))
        rows.append(tuple(cells))
    blank = [Cell("", (None,) * max(len(column.parts), 1)) for column in columns[3:]]
    own_rows = []
    for name, lines in _own_models(found).items():
        worst_site = lines.groupby("seed")["own_accuracy"].min().mean()
        own_rows.append((words(name), shares(lines["own_accuracy"].mean()), shares(worst_site), *blank))
    rows = [*own_rows, *rows]
    return Sheet("methods", "The methods", METHODS, tuple(columns), tuple(rows))


def _own_models(found: Assessment) -> dict[str, pd.DataFrame]:
    """The own models that pool methods are held to, by name: the lines of a method that chose from their pool. Methods
    over one pool share them; those of another pool are named after the method."""
    known: dict[str, pd.DataFrame] = {}
    for method, lines in found.sites[found.sites["reference"] == OWN].groupby("method", sort=False):
        figures = lines.set_index(["seed", "site"])["own_accuracy"]
        if method in REFERENCES or figures.isna().all():
            continue
        pools = [each.set_index(["seed", "site"])["own_accuracy"] for each in known.values()]
        if not any(figures.sub(pool).abs().max() < TIE for pool in pools):
            known[f"own of {method}" if known else OWN] = lines
    return known


def _no_worse(found: Assessment, method: str) -> Cell:
    lines = found.sites[(found.sites["method"] == method) & found.sites["accuracy_gain"].notna()]
    if not len(lines):
        return Cell("-", (None, None))
    fine = int((lines["accuracy_gain"] >= -TIE).sum())
    return Cell(f"{fine}/{len(lines)}", (fine, len(lines)))


def _promise(line: dict[str, float] | None) -> Cell:
    return Cell("none") if line is None else figure(line["epsilon"], lambda value: f"eps {value:.3g}")


def site_gains(found: Assessment) -> pd.DataFrame:
    """The gain in accuracy by site and method, mean over seeds: a line a site, in the order of the run."""
    lines = found.sites[~found.sites["method"].isin(REFERENCES)]
    table = lines.pivot_table("accuracy_gain", "site", "method", sort=False)
    known = [site for site in found.sites["site"].unique() if site in table.index]
    return table.reindex(known)


def sites_table(found: Assessment, run: Run) -> Sheet | None:
    """One line per site, one column per method; None where no method can be held to what a site has alone."""
    gained = site_gains(found)
    if not gained.size:
        return None
    tested = found.sites[found.sites["accuracy_gain"].notna()].groupby("site")["test_rows"].max()
    bars = found.methods["bar"]
    right = {name: lines.groupby("site")["own_accuracy"].mean() for name, lines in _own_models(found).items()}
    for name in REFERENCES:
        if name in {bars[method] for method in gained.columns}:
            right[name] = found.sites[found.sites["method"] == name].groupby("site")["accuracy"].mean()
    columns = [Column("site", "site"), Column("test\nrows", "test_rows")]
    columns += [Column(name, f"accuracy {name}", "%") for name in right]
    columns += [Column(f"{method}\nover {bars[method]}", str(method), "points") for method in gained.columns]
    rows = []
    for site, line in gained.iterrows():
        cells = list(with_marks([gains(value) for value in line])) if len(line) > 1 else [gains(line.iloc[0])]
        alone = [shares(each.get(str(site))) for each in right.values()]
        rows.append((words(site), whole(tested[str(site)]), *alone, *cells))
    more = "" if run.experiment.seeds == 1 else SEEDS if same_sites(run) else OTHER_SITES
    return Sheet("sites", "Gain over what a site has alone", SITES.format(more), tuple(columns), tuple(rows))


def same_sites(run: Run) -> bool:
    """Whether a name stands for the same site in every seed."""
    return run.experiment.seeds == 1 or run.experiment.partition == "natural"


def tests_table(found: Assessment) -> Sheet | None:
    """Every comparison with what a site has alone, for those who want to look closely."""
    lines = found.sites[found.sites["accuracy_gain"].notna()]
    bars = lines["reference"]
    if not len(lines):
        return None
    columns = [Column("site", "site"), Column("seed", "seed"), METHOD, Column("rows", "test_rows"),
               Column("accu-\nracy", "accuracy", "%"), *bar_columns(bars),
               Column("95 %\ninterval", "interval", "points", ("accuracy_gain_low", "accuracy_gain_high")),
               Column("p", "holm_p")]  # fmt: skip
    rows = [
        (words(line["site"]), whole(line["seed"]), words(line["method"]), whole(line["test_rows"]),
         shares(line["accuracy"]), *bar_cells(bars, line["reference"], line["accuracy_gain"]),
         ends(line["accuracy_gain_low"], line["accuracy_gain_high"]), figure(line["holm_p"], "{:.3f}".format))
        for _, line in lines.iterrows()
    ]  # fmt: skip
    return Sheet("tests", "Each comparison", TESTED, tuple(columns), tuple(rows))
