"""The tables behind the later parts of a report: calibration, subgroups, one decision, rounds, the split, settings and
where it all comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from peerwise.evaluate import Assessment
from peerwise.evaluate.calibration import calibration_bins
from peerwise.evaluate.summary import REFERENCES
from peerwise.report.cells import decimal, empty, ends, figure, shares, whole, words
from peerwise.report.sheets import Cell, Column, Sheet
from peerwise.report.tables import METHOD, SUBGROUPS, subgroup_cells
from peerwise.run import Run

CALIBRATION = "Rows by the probability of the answer given, over all sites and seeds: how sure, and how often right"
MODELS = (
    "At {site}, seed {seed}, {part} row {row}, by {method}: {rule}.\n"
    "Truth: {truth}; own models: {own}; answer: {answer}"
)
NEIGHBOURS = "The known cases that the answer rests on, by weight"
CURVES = "After each round, from 0: the mean over sites and seeds, and the least and most"
SPLIT = "Train rows by class, seed {}"
SETTINGS = "Of each method; changed: not as it is by default"
ORIGIN = "Noted when the numbers were made"
ORDER = ("data", "seeds", "sha256", "sessions", "seconds", "python", "platform", "processor", "cores", "commit",
         "configuration", "packages")  # fmt: skip


def calibration_table(run: Run) -> Sheet | None:
    columns = (METHOD, Column("probability\nabove", "low", "%"), Column("up to", "high", "%"), Column("rows", "rows"),
               Column("confi-\ndence", "confidence", "%"), Column("accu-\nracy", "accuracy", "%"))  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    for method in dict.fromkeys(label for _, label, _ in run.predictions):
        trees = [tree for (_, label, _), tree in run.predictions.items() if label == method and len(tree["y"])]
        if not trees:
            continue
        y, said = (np.concatenate([tree[key] for tree in trees]) for key in ("y", "probabilities"))
        for _, line in calibration_bins(y, said).iterrows():
            cells = [shares(line[key]) for key in ("low", "high")]
            rows.append((words(method), *cells, whole(int(line["rows"])), shares(line["confidence"]),
                         shares(line["accuracy"])))  # fmt: skip
    return Sheet("calibration", "Calibration", CALIBRATION, columns, tuple(rows)) if rows else None


def subgroups_table(found: Assessment) -> Sheet | None:
    """All subgroups in one table, with the interval of each gain."""
    if not len(found.subgroups):
        return None
    part = pd.concat([lines for _, lines in found.subgroups.groupby("subgroup", sort=False)])
    columns, cells = subgroup_cells(part)
    first = [Column("subgroup", "subgroup"), METHOD, Column("rows", "rows", "a seed")]
    parts = ("accuracy_gain_low", "accuracy_gain_high")
    held = set(parts) <= set(part.columns)
    more = [Column("95 %\ninterval", "accuracy_gain_interval", "points", parts)] if held else []
    rows = []
    for (_, line), row in zip(part.iterrows(), cells, strict=True):
        last = (
            [Cell("", (None, None)) if line["method"] in REFERENCES else ends(*(line[p] for p in parts))]
            if held
            else []
        )
        rows.append((words(line["subgroup"]), row[0], whole(line["rows"]), *row[1:], *last))
    return Sheet("subgroups", "By subgroup", SUBGROUPS, (*first, *columns, *more), tuple(rows))


def opened_tables(opened: Mapping[str, Any]) -> Iterator[Sheet]:
    """What each model said of the opened case, and the cases it rests on."""
    columns = (Column("model", "model"), Column("own", "own"), Column("says", "says"),
               Column("confi-\ndence", "confidence", "%"), Column("trust", "trust", "%"),
               Column("compe-\ntence", "competence"),
               Column("right\nnearby", "nearby", "", ("right_nearby", "of_nearby")))  # fmt: skip
    rows = [
        (words(say["name"]), words("own" if say["own"] else ""), words(say["says"]), shares(say["confidence"]),
         shares(say["trust"]), figure(say["competence"], decimal),
         Cell(f"{say['right_nearby']} of {say['of_nearby']}", (say["right_nearby"], say["of_nearby"])))
        for say in opened["models"]
    ]  # fmt: skip
    yield Sheet("opened", "One decision opened", MODELS.format(**opened), columns, tuple(rows))
    yield _neighbours(opened)


def _neighbours(opened: Mapping[str, Any]) -> Sheet:
    columns = (Column("known case", "row"), Column("label", "label"), Column("distance", "distance"),
               Column("weight", "weight", "%"))  # fmt: skip
    rows = [
        (words(f"row {case['row']}"), words(case["label"]), figure(case["distance"], decimal), shares(case["weight"]))
        for case in opened["neighbours"]
    ]
    return Sheet("neighbours", "Its nearest known cases", NEIGHBOURS, columns, tuple(rows))


def curves_table(run: Run) -> Sheet | None:
    """What was noted after each round; None where no method has more than one."""
    noted = run.curves
    rounds = {label: tree["rounds"] for (_, label, _), tree in run.predictions.items()}
    noted = noted[noted["method"].map(rounds) > 1]
    if not len(noted):
        return None
    columns = (METHOD, Column("value", "name"), Column("round", "round"), Column("mean", "mean"),
               Column("least", "min"), Column("most", "max"))  # fmt: skip
    table = noted.groupby(["method", "name", "round"], sort=False)["value"].agg(["mean", "min", "max"]).reset_index()
    rows = [
        (words(line["method"]), words(line["name"]), whole(line["round"]),
         *(figure(line[key], "{:.3f}".format) for key in ("mean", "min", "max")))
        for _, line in table.iterrows()
    ]  # fmt: skip
    return Sheet("curves", "Round by round", CURVES, columns, tuple(rows))


def split_table(run: Run) -> Sheet:
    """Which classes are where: a line a site of the first seed."""
    seed, method, _ = next(iter(run.predictions))
    trees = {site: tree for (s, label, site), tree in run.predictions.items() if (s, label) == (seed, method)}
    count = len(next(iter(trees.values()))["label_counts"])
    names = run.classes or tuple(map(str, range(count)))
    columns = (Column("site", "site"), Column("train\nrows", "train_rows"), Column("test\nrows", "test_rows"),
               *(Column(name, name, "rows") for name in names))  # fmt: skip
    rows = tuple(
        (words(site), whole(tree["label_counts"].sum()), whole(len(tree["y"])), *map(whole, tree["label_counts"]))
        for site, tree in trees.items()
    )
    return Sheet("split", "Which classes are where", SPLIT.format(seed), columns, rows)


def settings_table(run: Run) -> Sheet | None:
    """Every setting of every method, as it was run."""
    experiment = run.experiment
    rows: list[tuple[Cell, ...]] = []
    for name in experiment.methods:
        usual = experiment.parameters(name)
        used = {**usual, **(experiment.budget(name) or {}), **experiment.settings(name)}
        for key, value in used.items():
            changed = words("changed") if key not in usual or usual[key] != value else empty()
            rows.append((words(experiment.label(name)), words(key), words(value), changed))
    columns = (METHOD, Column("setting", "setting"), Column("value", "value"), Column("", "changed"))
    return Sheet("settings", "Settings", SETTINGS, columns, tuple(rows)) if rows else None


def provenance_table(provenance: Mapping[str, Any]) -> Sheet:
    """Names and values, one under the other."""
    ordered = {key: provenance[key] for key in (*ORDER, *provenance) if key in provenance}
    rows = tuple((words(name), words(value)) for name, value in flat(ordered))
    return Sheet("provenance", "Where it comes from", ORIGIN, (Column("what", "what"), Column("value", "value")), rows)


def flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Nested values by dotted name, as text; what is empty or not known has none.

    >>> list(flat({"method": {"peerwise": {"k": 9}}, "seeds": [0, 1], "options": {}, "rows": None}))
    [('method.peerwise.k', '9'), ('seeds', '0, 1')]
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from flat(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple) and any(isinstance(inner, Mapping) for inner in value):
        for place, inner in enumerate(value):
            yield from flat(inner, f"{name}.{place + 1}")
    elif isinstance(value, list | tuple):
        yield name, ", ".join(map(str, value))
    elif value not in (None, "") and value is not pd.NA:
        yield name, str(value)
