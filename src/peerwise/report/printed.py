"""Everything a reader sees in the terminal, table by table, each with a line that says what it shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table

from peerwise.evaluate import Assessment
from peerwise.report.protocol import all_sites_lines, missed_lines, privacy_lines, tuned_lines
from peerwise.report.tables import (
    behaviour_table,
    cost_table,
    metric_table,
    own_table,
    probability_table,
    subgroup_table,
)

RIGHT = "percent of test rows answered rightly; mean over sites and seeds"
OWN = """\
points over the mean of the site's own models of the same pool, or over local
where a method has no pool; interval: score method, as wide as one seed's;
loss/site: what losing sites lose, spread over all sites"""
TESTS = """
sig.: of {} sites x seeds (exact McNemar test at 5 %, Holm-corrected)"""
PROBABILITIES = "mean over the sites where it is defined, in percent; NLL and Brier as they are"
CALLED = "\n{positive!r} is called from a probability of {threshold:g}"
BEHAVIOUR = """\
models that have a say, a row; ESS: their effective number; fallback: rows where
none seemed reliable; oracle: what a perfect choice reaches"""
CHOICE = """
gap closed: from own (0) to oracle (100); wrong trust: on models that err there;
mismatch: models wrongly chosen or missed; home rho: Spearman, trust against
class frequency at a model's home"""
COST = """\
bytes a site; seconds of all sites together; pool s: asking all models about a
site's rows"""
COMMON = "all sites are tested on the same rows, which are at none of them; intervals count these rows once"
SUBGROUPS = """\
all sites together (the mean over sites where all have the same test rows), mean
over seeds; gain: points over the own models"""


def print_summary(summary: pd.DataFrame, console: Console, settings: dict[str, Any] | None = None) -> None:
    """All tables of `summarise`, or of an assessment's methods with its settings, each within 80 columns."""
    for table, title, about in _parts(summary, settings):
        if table is not None:
            _show(console, table, title, about)


def print_assessment(found: Assessment, console: Console) -> None:
    """The tables of the methods, those by subgroup, and a line for each site that fell back, and for each peer's model
    that a site had to do without; then a line a method for what its privacy, its tuning and its absent sites say."""
    print_summary(found.methods, console, found.settings)
    if len(found.subgroups):
        for place, (name, part) in enumerate(found.subgroups.groupby("subgroup", sort=False)):
            title = f"Subgroup {name}: {part['rows'].max():.0f} test rows a seed"
            _show(console, subgroup_table(part), title, "" if place else SUBGROUPS)
    if found.settings.get("test") == "common":
        console.print(COMMON, markup=False, soft_wrap=True)
    for line in found.fell_back:
        _tell(console, line, f"answered by {line['to']}")
    for line in found.peers_left_out:
        _tell(console, line, f"without {line['model']}")
    for line in found.collapsed:
        what = f"{line['what']}: {line['method']} at {line['sites']} of {line['of']} sites x seeds"
        why = f"such as {line['site']} (seed {line['seed']}): {line['why']}"
        console.print(f"{what}, {why}", markup=False, soft_wrap=True)
    present = (*missed_lines(found.missed_rounds), *all_sites_lines(found.had_all_sites))
    for text in (*tuned_lines(found.tuned), *present, *privacy_lines(found.privacy)):
        console.print(text, markup=False, soft_wrap=True)


def _tell(console: Console, line: dict[str, Any], what: str) -> None:
    about = f"site {line['site']} (seed {line['seed']}, {line['method']})"
    console.print(f"{about}: {what}, because {line['why']}", markup=False, soft_wrap=True)


def _parts(summary: pd.DataFrame, settings: dict[str, Any] | None) -> Iterator[tuple[Table | None, str, str]]:
    yield metric_table(summary), "How often right", RIGHT
    tests = int(summary["tests"].max()) if "tests" in summary.columns else 0
    about = OWN + (TESTS.format(tests) if tests else "")
    yield own_table(summary, "accuracy"), "Against the own models: accuracy", about
    yield own_table(summary, "balanced_accuracy"), "Against the own models: balanced accuracy", ""
    called = CALLED.format(**settings) if settings and settings["positive"] is not None else ""
    yield probability_table(summary), "What the probabilities are worth", PROBABILITIES + called
    more = CHOICE if "mismatch" in summary.columns else ""
    yield behaviour_table(summary), "Whom it trusts", BEHAVIOUR + more
    yield cost_table(summary), "Cost", COST


def _show(console: Console, table: Table, title: str, about: str) -> None:
    console.print(title, style="bold", markup=False)
    if about:
        console.print(about, style="dim", markup=False)
    console.print(table)
    console.print()
