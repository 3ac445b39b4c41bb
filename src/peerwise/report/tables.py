"""The summary as tables within 80 columns. Marks stand for the best and the worst only."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from peerwise.evaluate.summary import OWN, REFERENCES
from peerwise.report.cells import (
    decimal,
    empty,
    ends,
    figure,
    gains,
    number,
    percent,
    shares,
    size,
    whole,
    with_marks,
    words,
)
from peerwise.report.sheets import Cell, Column, Sheet

PHASES = {"train": "train\ns", "outputs": "pool\ns", "fit": "fit\ns", "predict": "predict\ns"}
NAN = math.nan
METHOD = Column("method", "method")

RIGHT = "Percent of test rows answered rightly; mean over sites and seeds"
ALONE = """\
Points over own, the mean of the site's own models of the same pool; over local,
that mean as a method; over local_rounds, the same nets trained alone with the
same budget; interval: score method, as wide as one seed's; loss/site: what
losing sites lose, spread over all sites"""
TESTS = """
sig.: better/worse, of {} sites x seeds (exact McNemar test at 5 %, Holm)"""
PROBABILITIES = "Mean over the sites where it is defined, in percent; NLL and Brier as they are"
CALLED = "\n{positive!r} is called from a probability of {threshold:g}"
BEHAVIOUR = """\
Models that have a say, a row; ESS: their effective number; fallback: rows where
none seemed reliable; oracle: what a perfect choice reaches"""
CHOICE = """
gap closed: from own (0) to oracle (100); wrong trust: on models that err there;
mismatch: models wrongly chosen or missed; home rho: Spearman, trust against
class frequency at a model's home"""
COST = """\
Bytes a site; seconds of all sites together; pool s: asking all models about a
site's rows"""
SUBGROUPS = """\
All sites together (the mean over sites where all have the same test rows), mean
over seeds; over own, over local: points over what a site has alone"""


def summary_sheets(summary: pd.DataFrame, settings: dict[str, Any] | None = None) -> Iterator[Sheet]:
    """All tables of `summarise`, or of an assessment's methods with its settings, those that have something to say."""
    yield metric_table(summary)
    for metric in ("accuracy", "balanced_accuracy"):
        if (sheet := own_table(summary, metric)) is not None:
            yield sheet
    if (sheet := probability_table(summary, settings)) is not None:
        yield sheet
    if (sheet := behaviour_table(summary)) is not None:
        yield sheet
    yield cost_table(summary)


def metric_table(summary: pd.DataFrame) -> Sheet:
    """Accuracy and balanced accuracy in percent: mean, spread over sites and seeds, mean of the worst tenth."""
    shown = {"accuracy": "accuracy", "accuracy_std": "±\nsites", "accuracy_seed_std": "±\nseeds",
             "accuracy_worst_tenth": "worst\n10 %", "balanced_accuracy": "balanced\naccuracy",
             "balanced_accuracy_seed_std": "±\nseeds", "balanced_accuracy_worst_tenth": "worst\n10 %"}  # fmt: skip
    cells = {key: [shares(value) for value in summary[key]] for key in shown}
    for key in ("accuracy", "balanced_accuracy"):
        cells[key] = list(with_marks(cells[key]))
    columns = (METHOD, *(Column(name, key, "%") for key, name in shown.items()))
    rows = zip([words(name) for name in summary.index], *cells.values(), strict=True)
    return Sheet("right", "How often right", RIGHT, columns, tuple(rows))


def own_table(summary: pd.DataFrame, metric: str) -> Sheet | None:
    """Each method against what a site has alone, a column for each bar; None if nothing can be held to one."""
    others = summary[~summary.index.isin(REFERENCES)]
    if f"{metric}_gain" not in summary.columns or not others[f"{metric}_gain"].notna().any():
        return None
    tested = metric == "accuracy" and "tests" in others.columns
    kinds = ("wins", "ties", "losses")
    parts = tuple(f"{metric}_gain_{end}" for end in ("low", "high"))
    columns = [METHOD, *bar_columns(others["bar"], metric),
               Column("95 %\ninterval", f"{metric}_gain_interval", "points", parts),
               Column("win/tie/\nloss %", f"{metric}_transfer", "%", tuple(f"{metric}_{kind}" for kind in kinds)),
               Column("loss/\nsite", f"{metric}_negative_transfer_burden", "points")]  # fmt: skip
    sure = ("significantly_better", "significantly_worse")
    columns += [Column("sig.\n+/-", "significant", "sites x seeds", sure)] if tested else []
    rows = []
    for method, line in others.iterrows():
        counts = [line[f"{metric}_{kind}"] for kind in kinds]
        cells = [words(method), *bar_cells(others["bar"], line["bar"], line[f"{metric}_gain"]),
                 ends(*(line.get(part, NAN) for part in parts)),
                 Cell("/".join(percent(value, ".0f") for value in counts), tuple(counts)),
                 figure(line[f"{metric}_negative_transfer_burden"], lambda value: percent(value, ".2f"))]  # fmt: skip
        if tested:
            found = tuple(int(line[key]) for key in sure)
            cells.append(Cell("/".join(map(str, found)), found))
        rows.append(tuple(cells))
    tests = int(summary["tests"].max()) if "tests" in summary.columns else 0
    about = (ALONE + (TESTS.format(tests) if tests else "")) if metric == "accuracy" else ""
    key = "own" if metric == "accuracy" else "own_balanced"
    title = f"Against what a site has alone: {metric.replace('_', ' ')}"
    return Sheet(key, title, about, tuple(columns), tuple(rows))


def bar_columns(bars: Iterable[str | None], metric: str = "accuracy") -> list[Column]:
    """One for each bar that any method is held to."""
    return [Column(f"over\n{bar}", f"{metric}_over_{bar}", "points") for bar in _known(bars)]


def bar_cells(bars: Iterable[str | None], bar: str | None, gain: float) -> list[Cell]:
    """A gain in the column of its bar."""
    return [gains(gain) if each == bar else empty() for each in _known(bars)]


def _known(bars: Iterable[str | None]) -> list[str]:
    places = {name: place for place, name in enumerate((OWN, *REFERENCES))}
    return sorted({bar for bar in bars if isinstance(bar, str)}, key=lambda bar: (places.get(bar, len(places)), bar))


def probability_table(summary: pd.DataFrame, settings: dict[str, Any] | None = None) -> Sheet | None:
    """What the probabilities are worth; None where the results do not have it."""
    shown = {"auroc": "AUROC", "auprc": "AUPRC", "sensitivity": "sensi-\ntivity", "specificity": "speci-\nficity"}
    errors = {"ece": "ECE", "log_loss": "NLL", "brier": "Brier"}
    if not {*shown, *errors} <= set(summary.columns):
        return None
    shown["open_auroc"] = "open\nAUROC"
    known = {key: name for key, name in shown.items() if key in summary.columns and summary[key].notna().any()}
    units = {**dict.fromkeys((*known, "ece"), "%"), "log_loss": "nats", "brier": ""}
    columns = (METHOD, *(Column(name, key, units[key]) for key, name in {**known, **errors}.items()))
    rows = [
        (words(method), *(shares(line[key]) for key in (*known, "ece")),
         *(figure(line[key], decimal) for key in ("log_loss", "brier")))
        for method, line in summary.iterrows()
    ]  # fmt: skip
    called = CALLED.format(**settings) if settings and settings["positive"] is not None else ""
    return Sheet("probabilities", "What the probabilities are worth", PROBABILITIES + called, columns, tuple(rows))


def behaviour_table(summary: pd.DataFrame) -> Sheet | None:
    """Whom a method trusts: how many models, how often none was reliable, and how near it comes to a perfect choice;
    None if no method chooses."""
    chosen = summary[summary["ensemble_size"].notna()]
    if chosen.empty:
        return None
    shown = {"ensemble_size": "models", "ess": "ESS", "fallback": "fall-\nback", "oracle": "oracle",
             "oracle_gap_closed": "gap\nclosed", "trust_on_wrong": "wrong\ntrust", "mismatch": "mis-\nmatch",
             "home_spearman": "home\nrho"}  # fmt: skip
    forms = {"ensemble_size": number, "ess": number, "mismatch": number, "home_spearman": decimal}
    units = {"ensemble_size": "models", "ess": "models", "mismatch": "models", "home_spearman": ""}
    known = {key: name for key, name in shown.items() if key in chosen.columns}
    columns = (METHOD, *(Column(name, key, units.get(key, "%")) for key, name in known.items()))
    rows = [
        (words(method), *(figure(line[key], forms.get(key, percent)) for key in known))
        for method, line in chosen.iterrows()
    ]
    about = BEHAVIOUR + (CHOICE if "mismatch" in summary.columns else "")
    return Sheet("trusts", "Whom it trusts", about, columns, tuple(rows))


def cost_table(summary: pd.DataFrame) -> Sheet:
    """Rounds; bytes sent and received by a site; seconds of all sites together: training, asking the pool's models,
    fitting, predicting."""
    sizes = {"bytes_sent": "sent\n/site", "bytes_received": "received\n/site"}
    phases = {f"seconds_{phase}": name for phase, name in PHASES.items()}
    columns = (METHOD, Column("rounds", "rounds"), *(Column(name, key, "bytes") for key, name in sizes.items()),
               *(Column(name, key, "seconds") for key, name in phases.items()))  # fmt: skip
    rows = [
        (words(method), whole(line.get("rounds")), *(figure(line.get(key), size) for key in sizes),
         *(figure(line.get(key), number) for key in phases))
        for method, line in summary.iterrows()
    ]  # fmt: skip
    return Sheet("cost", "Cost", COST, columns, tuple(rows))


def subgroup_tables(subgroups: pd.DataFrame) -> Iterator[Sheet]:
    """For each subgroup its metrics, method by method, and the gain over what sites have alone there."""
    if not len(subgroups):
        return
    for place, (name, part) in enumerate(subgroups.groupby("subgroup", sort=False)):
        columns, rows = subgroup_cells(part)
        title = f"Subgroup {name}: {part['rows'].max():.0f} test rows a seed"
        yield Sheet(f"subgroup-{place}", title, "" if place else SUBGROUPS, (METHOD, *columns), tuple(rows))


def subgroup_cells(part: pd.DataFrame) -> tuple[list[Column], list[tuple[Cell, ...]]]:
    shown = {"accuracy": "accuracy", "balanced_accuracy": "balanced", "auroc": "AUROC",
             "sensitivity": "sensi-\ntivity", "specificity": "speci-\nficity"}  # fmt: skip
    known = {key: name for key, name in shown.items() if part[key].notna().any()}
    columns = [Column(name, key, "%") for key, name in known.items()]
    held = "accuracy_gain" in part.columns
    bars: list[str | None] = part.loc[~part["method"].isin(REFERENCES), "bar"].tolist() if held else []
    columns += bar_columns(bars)
    rows: list[tuple[Cell, ...]] = []
    for _, line in part.iterrows():
        cells = [words(line["method"]), *(shares(line[key]) for key in known)]
        if held:
            cells += bar_cells(bars, line["bar"], line["accuracy_gain"])
        rows.append(tuple(cells))
    return columns, rows
