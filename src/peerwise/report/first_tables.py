"""What a reader looks at first: each method in one line, and each site's gain."""

from __future__ import annotations

import math

import pandas as pd

from peerwise.evaluate import Assessment
from peerwise.evaluate.summary import LOCAL
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
from peerwise.report.tables import METHOD
from peerwise.run import Run

TIE = 1e-12
METHODS = (
    "Accuracy in percent, mean over sites and seeds, and of the worst site of a seed; own: the own models of the pool "
    "that a method chose from; over own, over local: points over these, or over the same nets trained alone, with a "
    "95 % interval; no worse at: of sites x seeds; time: of all sites together, a seed"
)
SITES = "Own: percent answered rightly by the site's own models; then by how many points each method is above that{}"
OTHER_SITES = "; mean over seeds, in each of which a site of that name has other rows"
SEEDS = "; mean over seeds"
TESTED = (
    "Every seed, method and site against the site's own models, on the same rows; p: exact McNemar test, "
    "Holm-corrected over the lines of a method"
)


def methods_table(found: Assessment) -> Sheet:
    """One line a method: how good, for whom, and at what price."""
    summary = found.methods
    promises = {line["method"]: line for line in found.privacy}
    means = list(with_marks([shares(value) for value in summary["accuracy"]]))
    worst = list(with_marks([shares(value) for value in summary["accuracy_worst"]]))
    parts = ("accuracy_gain_low", "accuracy_gain_high")
    bars = found.sites.dropna(subset=["reference"]).groupby("method")["reference"].first()
    columns = [METHOD, Column("accu-\nracy", "accuracy", "%"), Column("worst\nsite", "accuracy_worst", "%"),
               Column("over\nown", "over_own", "points"), Column("over\nlocal", "over_local", "points"),
               Column("95 %\ninterval", "accuracy_gain_interval", "points", parts),
               Column("no\nworse\nat", "no_worse", "sites x seeds", ("no_worse_at", "no_worse_of")),
               Column("sent\n/site", "bytes_sent", "bytes"),
               Column("time", "seconds", "seconds")]  # fmt: skip
    columns += [Column("privacy", "epsilon", "epsilon")] if promises else []
    rows = []
    for place, (name, line) in enumerate(summary.iterrows()):
        cells = [words(name), means[place], worst[place]]
        if name == LOCAL or "accuracy_gain" not in summary.columns:
            cells += [empty(), empty(), Cell("", (None, None)), Cell("", (None, None))]
        else:
            gain = line["accuracy_gain"]
            over = [gains(gain) if bars.get(name) == bar else empty() for bar in ("own", LOCAL)]
            cells += [*over, ends(*(line[part] for part in parts))]
            cells.append(_no_worse(found, str(name)))
        seconds = [line[key] for key in summary.columns if str(key).startswith("seconds_")]
        known = [value for value in seconds if not math.isnan(value)]
        total = sum(known) if known else math.nan
        cells += [figure(line.get("bytes_sent"), size), figure(total, duration)]
        if promises:
            cells.append(_promise(promises.get(str(name))))
        rows.append(tuple(cells))
    blank = [Cell("", (None,) * max(len(column.parts), 1)) for column in columns[3:]]
    own_rows = [(words(name), shares(mean), shares(worst), *blank) for name, mean, worst in _own_models(found)]
    rows = [*own_rows, *rows]
    return Sheet("methods", "The methods", METHODS, tuple(columns), tuple(rows))


def _own_models(found: Assessment) -> list[tuple[str, float, float]]:
    """The own models that pool methods are held to: name, accuracy, and that of the worst site of a seed. Methods over
    one pool share them; those of another pool are named after the method."""
    known: dict[float, tuple[str, float, float]] = {}
    for method, lines in found.sites[found.sites["reference"] == "own"].groupby("method", sort=False):
        mean, worst = (
            float(value) for value in (lines["own_accuracy"].mean(), lines.groupby("seed")["own_accuracy"].min().mean())
        )
        if method != LOCAL and not math.isnan(mean):
            known.setdefault(round(mean, 9), (f"own of {method}" if known else "own", mean, worst))
    return list(known.values())


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
    lines = found.sites[found.sites["method"] != LOCAL]
    table = lines.pivot_table("accuracy_gain", "site", "method", sort=False)
    known = [site for site in found.sites["site"].unique() if site in table.index]
    return table.reindex(known)


def sites_table(found: Assessment, run: Run) -> Sheet | None:
    """A line a site and a column a method; None where nothing can be held to own models."""
    gained = site_gains(found)
    if not gained.size:
        return None
    lines = found.sites[found.sites["accuracy_gain"].notna()]
    own = lines.groupby("site")["own_accuracy"].mean()
    tested = lines.groupby("site")["test_rows"].max()
    columns = [Column("site", "site"), Column("test\nrows", "test_rows"), Column("own", "own_accuracy", "%")]
    columns += [Column(str(method), str(method), "points") for method in gained.columns]
    rows = []
    for site, line in gained.iterrows():
        cells = list(with_marks([gains(value) for value in line])) if len(line) > 1 else [gains(line.iloc[0])]
        rows.append((words(site), whole(tested[str(site)]), shares(own[str(site)]), *cells))
    more = "" if run.experiment.seeds == 1 else SEEDS if same_sites(run) else OTHER_SITES
    return Sheet("sites", "Gain over the own models, site by site", SITES.format(more), tuple(columns), tuple(rows))


def same_sites(run: Run) -> bool:
    """Whether a name stands for the same site in every seed."""
    return run.experiment.seeds == 1 or run.experiment.partition == "natural"


def tests_table(found: Assessment) -> Sheet | None:
    """Every comparison with the own models, for those who want to look closely."""
    lines = found.sites[found.sites["accuracy_gain"].notna()]
    if not len(lines):
        return None
    columns = [Column("site", "site"), Column("seed", "seed"), METHOD, Column("rows", "test_rows"),
               Column("accu-\nracy", "accuracy", "%"), Column("gain", "accuracy_gain", "points"),
               Column("95 %\ninterval", "interval", "points", ("accuracy_gain_low", "accuracy_gain_high")),
               Column("p", "holm_p")]  # fmt: skip
    rows = [
        (words(line["site"]), whole(line["seed"]), words(line["method"]), whole(line["test_rows"]),
         shares(line["accuracy"]), gains(line["accuracy_gain"]),
         ends(line["accuracy_gain_low"], line["accuracy_gain_high"]), figure(line["holm_p"], "{:.3f}".format))
        for _, line in lines.iterrows()
    ]  # fmt: skip
    return Sheet("tests", "Each comparison", TESTED, tuple(columns), tuple(rows))
