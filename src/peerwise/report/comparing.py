"""Two runs held against each other, row by row: the same sites, seeds and test rows, answered twice."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from peerwise.errors import ConfigError
from peerwise.evaluate import summarise
from peerwise.evaluate.versus import Versus, versus
from peerwise.methods.registry import label_base
from peerwise.report.cells import empty, ends, figure, gains, interval, points, shares, whole, words
from peerwise.report.more_tables import flat
from peerwise.report.sheets import Cell, Column, Sheet
from peerwise.report.tables import METHOD
from peerwise.run import Run
from peerwise.run.provenance import configuration
from peerwise.run.score import answers_of

TOLD = 4  # methods in the headline
COMPARED = (
    "B over A, method by method: percent of test rows answered rightly, mean over the sites x seeds that both have; "
    "points with a 95 % interval, as wide as one seed's; sig.: exact McNemar test at 5 %, Holm-corrected over sites x "
    "seeds; sent and time: what B takes of what A takes"
)
APART = "Every seed and site that both have; p: exact McNemar test, Holm-corrected over the lines of a method"


@dataclass(frozen=True)
class Compared:
    """``sheets``: the methods, each comparison, what differs."""

    title: str
    headline: str
    sheets: list[Sheet]


def compared(a: Run, b: Run, names: tuple[str, str] = ("A", "B")) -> Compared:
    """B against A. Refused where no seed and site of the two has the same test rows."""
    labels = _paired_labels(a, b)
    if not labels:
        known = [", ".join(dict.fromkeys(label for _, label, _ in run.predictions)) for run in (a, b)]
        raise ConfigError(f"A has the methods {known[0]}, B {known[1]}: expected at least one in both.")
    same, total = _same_places(a, b)
    if not same:
        raise ConfigError(
            f"none of the {total} sites x seeds of A ({names[0]}) and B ({names[1]}) has the same test rows: expected "
            f"runs of one federation, with the same data, sites and seeds."
        )
    found = {pair: _versus(a, b, pair, same) for pair in labels}
    rows = sum(len(next(t["y"] for (s, _, n), t in a.predictions.items() if (s, n) == place)) for place in same)
    on = f"on the same {rows} test rows of {len(same)} of {total} sites x seeds"
    headline = f"B against A, {on}: {'; '.join(_findings(found))}."
    sheets = [_methods(a, b, found), _places(found), _differences(a, b, names)]
    return Compared(f"A: {names[0]}, B: {names[1]}", headline, sheets)


def _paired_labels(a: Run, b: Run) -> list[tuple[str, str]]:
    """Methods that both have: of the same name, else the only one of a kind, with other settings."""
    ours, theirs = (list(dict.fromkeys(label for _, label, _ in run.predictions)) for run in (a, b))
    found = {label: label for label in ours if label in theirs}
    for label in ours:
        kind = label_base(label)
        alike = [[each for each in side if label_base(each) == kind and each not in found]
                 for side in (ours, theirs)]  # fmt: skip
        if label not in found and len(alike[0]) == len(alike[1]) == 1:
            found[label] = alike[1][0]
    return [(label, found[label]) for label in ours if label in found]


def _same_places(a: Run, b: Run) -> tuple[list[tuple[int, str]], int]:
    """The seeds and sites whose test rows are the same in both; and how many A and B have together."""
    first, second = _tests(a), _tests(b)
    same = [place for place, rows in first.items() if place in second and _alike(rows, second[place])]
    return same, len({*first, *second})


def _tests(run: Run) -> dict[tuple[int, str], tuple[Any, Any]]:
    """By seed and site: the labels of the test rows, and which rows of which data they are, where that is known."""
    split: dict[str, Any] = {}
    if run.folder is not None and (run.folder / "split.json").is_file():
        split = json.loads((run.folder / "split.json").read_text(encoding="utf-8"))
    data = run.provenance.get("data", {}).get("sha256")
    found: dict[tuple[int, str], tuple[Any, Any]] = {}
    for (seed, _, site), tree in run.predictions.items():
        here = split.get(str(seed), {}).get(site)
        found.setdefault((seed, site), (tree["y"], None if here is None else (data, here["test"])))
    return found


def _alike(first: tuple[Any, Any], second: tuple[Any, Any]) -> bool:
    return len(first[0]) > 0 and np.array_equal(first[0], second[0]) and first[1] == second[1]


def _versus(a: Run, b: Run, pair: tuple[str, str], same: list[tuple[int, str]]) -> Versus:
    pairs = {}
    for seed, site in same:
        trees = a.predictions.get((seed, pair[0], site)), b.predictions.get((seed, pair[1], site))
        if trees[0] is not None and trees[1] is not None:
            said = [answers_of(tree) for tree in trees if tree is not None]
            pairs[seed, site] = (trees[0]["y"], said[1], said[0])
    return versus(pairs, common=a.experiment.test == "common")


def _named(pair: tuple[str, str]) -> str:
    return pair[0] if pair[0] == pair[1] else f"{pair[1]} (A: {pair[0]})"


def _findings(found: Mapping[tuple[str, str], Versus]) -> Iterator[str]:
    """The methods that differ, then those that do not."""
    differ = {pair: each for pair, each in found.items() if each.better or each.worse}
    for pair, each in list(differ.items())[:TOLD]:
        chance = ", may be chance" if each.may_be_chance else ""
        yield f"{_named(pair)} {points(each.gain)} points ({interval(each.low, each.high)}{chance})"
    if len(differ) > TOLD:
        yield f"and {len(differ) - TOLD} more methods"
    if equal := [_named(pair) for pair in found if pair not in differ]:
        yield f"as good at every site: {', '.join(equal)}"


def _methods(a: Run, b: Run, found: Mapping[tuple[str, str], Versus]) -> Sheet:
    columns = (METHOD, Column("A", "accuracy_a", "%"), Column("B", "accuracy_b", "%"),
               Column("gain", "gain", "points"), Column("95 %\ninterval", "interval", "points", ("low", "high")),
               Column("better/\ntied/\nworse", "sites", "sites x seeds", ("better", "tied", "worse")),
               Column("sig.\nbetter", "surely_better"), Column("sig.\nworse", "surely_worse"),
               Column("sent", "sent_ratio", "B / A"), Column("time", "time_ratio", "B / A"))  # fmt: skip
    costs = [summarise(run.results) for run in (a, b)]
    rows = []
    for pair, each in found.items():
        right = [_right(run, label, each) for run, label in zip((a, b), pair, strict=True)]
        lines = [cost.T[label] for cost, label in zip(costs, pair, strict=True)]
        sent = [float(line["bytes_sent"]) for line in lines]
        time = [float(line[line.index.str.startswith("seconds_")].sum()) for line in lines]
        counts = (each.better, each.tied, each.worse)
        rows.append((words(_named(pair)), *map(shares, right), gains(each.gain), ends(each.low, each.high),
                     Cell("/".join(map(str, counts)), counts), whole(each.surely_better), whole(each.surely_worse),
                     _ratio(*sent), _ratio(*time)))  # fmt: skip
    return Sheet("compared", "B against A", COMPARED, columns, tuple(rows))


def _right(run: Run, label: str, found: Versus) -> float:
    trees = [run.predictions[line["seed"], label, line["site"]] for _, line in found.lines.iterrows()]
    return float(np.mean([np.mean(answers_of(tree) == tree["y"]) for tree in trees]))


def _ratio(first: float, second: float) -> Cell:
    return figure(second / first if first > 0 else math.nan, "{:.2f}".format)


def _places(found: Mapping[tuple[str, str], Versus]) -> Sheet:
    columns = (Column("site", "site"), Column("seed", "seed"), METHOD, Column("rows", "rows"),
               Column("only A\nright", "only_a"), Column("only B\nright", "only_b"), Column("gain", "gain", "points"),
               Column("95 %\ninterval", "interval", "points", ("low", "high")), Column("p", "holm_p"))  # fmt: skip
    rows = [
        (words(line["site"]), whole(line["seed"]), words(_named(pair)), whole(line["rows"]), whole(line["only_own"]),
         whole(line["only_ours"]), gains(line["gain"]), ends(line["low"], line["high"]),
         figure(line["holm_p"], "{:.3f}".format))
        for pair, each in found.items()
        for _, line in each.lines.iterrows()
    ]  # fmt: skip
    return Sheet("places", "Each comparison", APART, columns, tuple(rows))


def _differences(a: Run, b: Run, names: tuple[str, str]) -> Sheet:
    sides = [dict(_settled(run)) for run in (a, b)]
    keys = [key for key in dict.fromkeys((*sides[0], *sides[1])) if sides[0].get(key) != sides[1].get(key)]
    cells = [(words(key), *(words(side[key]) if key in side else empty() for side in sides)) for key in keys]
    rows = ((words("folder"), words(names[0]), words(names[1])), *cells)
    columns = (Column("what", "what"), Column("A", "a"), Column("B", "b"))
    about = "Settings, versions and machine" + ("" if keys else ": nothing else")
    return Sheet("differs", "What differs", about, columns, rows)


def _settled(run: Run) -> Iterator[tuple[str, str]]:
    """What was chosen, and what it ran with, by dotted name."""
    parts = {key: run.provenance.get(key) for key in ("packages", "python", "platform", "processor", "cores", "commit")}
    yield from flat({**configuration(run.experiment), **parts})
