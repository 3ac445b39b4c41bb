"""A run in a sentence or two: which method won, over which bar, for how many sites it helped, and whom it hurt. It
claims no more than the intervals do, and crowns no method whose right answers are paid for by the rare classes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from peerwise.evaluate import Assessment
from peerwise.evaluate.own import own_probabilities
from peerwise.evaluate.summary import REFERENCES, reference_method
from peerwise.evaluate.versus import Versus, versus
from peerwise.methods.registry import label_base
from peerwise.metrics import auroc
from peerwise.report.cells import interval, percent, points
from peerwise.report.first_tables import TIE, same_sites, site_gains
from peerwise.run import Run
from peerwise.run.score import answers_of

SEES_ALL = ("centralised", "centralised_rounds")  # they have every site's rows, so they take no part in the contest
NAMED = 4  # sites by name in one sentence
SURE = 0.05
CONSTANT = 0.99  # share of one answer from which a method counts as constant
COST = 0.005  # of balanced accuracy or AUROC: a method that loses more to its bar is not crowned

_BARS = {"own": "the own models", "": "own models"} | {name: name for name in REFERENCES}


def headline(run: Run, found: Assessment, rows: str = "test rows") -> str:
    accuracy = found.methods["accuracy"].dropna()
    rivals = [str(name) for name in accuracy.index if label_base(str(name)) not in SEES_ALL]
    if not rivals:
        return f"There are no {rows}: nothing can be said of how good the methods are."
    contest = [name for name in rivals if name not in REFERENCES]
    if not contest:
        right = " and ".join(f"{name} was run, right on {percent(accuracy[name])} %" for name in rivals)
        return f"Only {right} of the {rows}: add a method to compare it with."
    costs = {name: _cost(run, found, name) for name in contest}
    first = max(contest, key=lambda name: (accuracy[name], -contest.index(name)))
    if costs[first]:
        contest = [name for name in contest if not costs[name]]
        most = f"{percent(accuracy[first])} % of the {rows}{_gain(run, found, first)}"
        warning = f"Of the methods, {first} is right most often ({most}), but {costs[first]}"
        if not contest:
            return f"{warning}."
        said = _crowned(run, found, contest, accuracy, rows)
        return f"{warning}. Of the others, {said[0].lower()}{said[1:]}"
    return _crowned(run, found, [name for name in contest if not costs[name]], accuracy, rows)


def _crowned(run: Run, found: Assessment, contest: Sequence[str], accuracy: pd.Series[float], rows: str) -> str:
    best = max(contest, key=lambda name: (accuracy[name], -contest.index(name)))
    equal = [name for name in contest if abs(accuracy[name] - accuracy[best]) <= TIE]
    line: pd.Series[float] = found.methods.T[best]
    verdict = _verdict(equal, line, accuracy, bar_of(found, best) or _missing_bar(run, best))
    said = f"{verdict}: right on {percent(accuracy[best])} % of the {rows}{_gain(run, found, best)}"
    gained = _gains_by_site(run, found, best)
    who, called = "it" if len(equal) == 1 else best, "sites" if same_sites(run) else "sites x seeds"
    sites = _sites(gained, _surely_hurt(run, found, best), who, called) if len(gained) > 1 else ""
    return ". ".join([f"{said}{sites}", *_next(run, contest, equal, accuracy)]) + "."


def bar_of(found: Assessment, method: str) -> str:
    """What a method is held to: "own", the own models of the pool that it chose from; "local", the site's own models;
    "local_rounds", the same nets trained alone with the same budget; empty where the run has none of these."""
    bar = found.methods.at[method, "bar"]
    return bar if isinstance(bar, str) else ""


def _missing_bar(run: Run, method: str) -> str:
    """What would have to be run for this method to be held to it."""
    tree = next(tree for (_, name, _), tree in run.predictions.items() if name == method)
    return reference_method(method, tree["rounds"], tree["lr"])


def _cost(run: Run, found: Assessment, method: str) -> str:
    """What more right answers were paid with, in words; empty where nothing was, or where there are not more."""
    line: pd.Series[float] = found.methods.T[method]
    gain = _value(line, "accuracy_gain")
    if gain <= TIE:
        return ""
    trees = {key: tree for key, tree in run.predictions.items() if key[1] == method and len(tree["y"])}
    y = np.concatenate([tree["y"] for tree in trees.values()])
    answers = np.concatenate([answers_of(tree) for tree in trees.values()])
    names = run.classes or tuple(map(str, range(int(max(y.max(), answers.max())) + 1)))
    said, truth = (np.bincount(codes, minlength=len(names)) / len(codes) for codes in (answers, y))
    lost = {}
    if not math.isnan(gain):
        lost["balanced accuracy"] = _value(line, "balanced_accuracy"), -_value(line, "balanced_accuracy_gain")
    pairs = [(auroc(tree["y"], tree["probabilities"]), _own_auroc(run, *key)) for key, tree in trees.items()]
    ours, own = (np.array(each) for each in zip(*pairs, strict=True))
    both = np.isfinite(ours) & np.isfinite(own)
    if both.any():
        lost["AUROC"] = float(ours[both].mean()), float((own - ours)[both].mean())
    costs = {name: figures for name, figures in lost.items() if figures[1] > COST}
    collapsed = _collapsed(trees.values())
    if not costs and not collapsed:
        return ""
    bar = bar_of(found, method)
    parts = [f"its {name} is {percent(now)} % ({bar} {percent(now + less)} %)" for name, (now, less) in costs.items()]
    if collapsed:
        most = int(said.argmax())
        one = said[most] >= CONSTANT
        parts.insert(
            0, f"it answers {names[most] if one else 'one class'} to nearly all rows{'' if one else ' of each site'}"
        )
    common = int(truth.argmax())
    return f"{' and '.join(parts)}; always answering {names[common]} is right on {percent(truth[common])} %"


def _collapsed(trees: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a method gives one answer at every site whose rows have more than one class."""
    shares = [[np.bincount(codes).max() / len(codes) for codes in (tree["y"], answers_of(tree))] for tree in trees]
    mixed = [said for truth, said in shares if truth < CONSTANT]
    return bool(mixed) and min(mixed) >= CONSTANT


def _own_auroc(run: Run, seed: int, method: str, site: str) -> float:
    own = own_probabilities(run, seed, method, site)
    return math.nan if own is None else auroc(run.predictions[seed, method, site]["y"], own)


def _verdict(equal: Sequence[str], line: pd.Series[float], accuracy: pd.Series[float], bar: str) -> str:
    names = " and ".join([", ".join(equal[:-1]), equal[-1]] if len(equal) > 1 else equal)
    many = len(equal) > 1
    gain = _value(line, "accuracy_gain")
    if math.isnan(gain):
        own = accuracy.get(bar, math.nan)
        if math.isnan(own):
            if len(accuracy) == 1:
                return f"Only {names} was run"
            return f"{'Equally good are' if many else 'Most often right is'} {names}"
        gain = accuracy[equal[0]] - own
    if abs(gain) <= TIE:
        return f"No better and no worse than {_BARS[bar]} {'are' if many else 'is'} {names}"
    if gain < 0:
        return f"No method beat {_BARS[bar]}; {names} {'come' if many else 'comes'} nearest"
    sure = _value(line, "accuracy_gain_low") > 0
    if many:
        ahead = "" if sure else f", ahead of {_BARS[bar]} by a difference that is not significant"
        return f"Equally good are {names}{ahead}"
    return f"The winner is {names}" if sure else f"Ahead, perhaps by chance, is {names}"


def _gain(run: Run, found: Assessment, method: str) -> str:
    line: pd.Series[float] = found.methods.T[method]
    gain, low, high = (_value(line, f"accuracy_gain{end}") for end in ("", "_low", "_high"))
    if math.isnan(gain):
        return f", with nothing that a site has alone to hold that to (add {_missing_bar(run, method)})"
    ends = "" if math.isnan(low) else f" (95 % interval {interval(low, high)})"
    bar = bar_of(found, method)
    return f", {points(gain)} points over {_BARS[bar]} at {percent(_value(line, 'accuracy') - gain)} %{ends}"


def _value(line: pd.Series[float], key: str) -> float:
    return float(line.get(key, math.nan))


def _sites(gained: Mapping[str, float], surely: Collection[str], who: str, called: str) -> str:
    """For how many sites it is better or worse, the latter by name: first those whose loss is no chance."""
    order = sorted(gained.items(), key=lambda item: (item[0] not in surely, item[1]))
    lost = {name: gain for name, gain in order if gain < -TIE}
    helped = sum(gain > TIE for gain in gained.values())
    tied = len(gained) - helped - len(lost)
    parts = [f"{who} helped {helped} of {len(gained)} {called}"]
    parts += [f"left {tied} as {'it was' if tied == 1 else 'they were'}"] if tied else []
    named = [
        f"{name} ({points(gain)}{', significant' if name in surely else ''})"
        for name, gain in list(lost.items())[:NAMED]
    ]
    more = f" and {len(lost) - NAMED} more" if len(lost) > NAMED else ""
    parts.append(f"hurt {', '.join(named)}{more}" if lost else "hurt none")
    return f"; {', '.join(parts[:-1])} and {parts[-1]}"


def _gains_by_site(run: Run, found: Assessment, method: str) -> dict[str, float]:
    if same_sites(run):
        table = site_gains(found)
        known = table[method].dropna() if method in table.columns else table.iloc[:0].sum(axis=1)
        return {str(site): float(gain) for site, gain in known.items()}
    lines = found.sites[(found.sites["method"] == method) & found.sites["accuracy_gain"].notna()]
    return {f"{line['site']} of seed {line['seed']}": float(line["accuracy_gain"]) for _, line in lines.iterrows()}


def _surely_hurt(run: Run, found: Assessment, method: str) -> set[str]:
    """Sites, named as in `_gains_by_site`, whose loss the exact test does not put down to chance, in any seed."""
    lines = found.sites[(found.sites["method"] == method) & (found.sites["accuracy_gain"] < -TIE)]
    lines = lines[lines["holm_p"] < SURE]
    alone = same_sites(run)
    return {str(line["site"]) if alone else f"{line['site']} of seed {line['seed']}" for _, line in lines.iterrows()}


def _next(run: Run, contest: Sequence[str], equal: Sequence[str], accuracy: pd.Series[float]) -> list[str]:
    """How far the next one is behind."""
    others = [name for name in contest if name not in equal]
    if not others or len(equal) > 1:
        return []
    second = max(others, key=lambda name: accuracy[name])
    found = between(run, equal[0], second)
    if math.isnan(found.gain):
        return []
    said = f"Next is {second}, {percent(accuracy[equal[0]] - accuracy[second])} points behind"
    if math.isnan(found.low):
        return [said]
    return [f"{said} ({interval(found.low, found.high)}{': may be chance' if found.may_be_chance else ''})"]


def between(run: Run, ours: str, theirs: str) -> Versus:
    """Two methods of a run, on the same rows."""
    pairs = {}
    for (seed, method, site), tree in run.predictions.items():
        other = run.predictions.get((seed, theirs, site))
        if method == ours and other is not None:
            said = (answers_of(each) for each in (tree, other))
            pairs[seed, site] = (tree["y"], *said)
    return versus(pairs, common=run.experiment.test == "common")
