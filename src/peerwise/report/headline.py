"""One sentence for a run: which method won, for how many sites it helped, and whom it hurt. It claims no more than the
intervals do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from peerwise.evaluate import Assessment
from peerwise.evaluate.summary import LOCAL
from peerwise.evaluate.versus import Versus, versus
from peerwise.methods.registry import base_name
from peerwise.report.cells import interval, percent, points
from peerwise.report.first_tables import TIE, same_sites, site_gains
from peerwise.run import Run

SEES_ALL = "centralised"  # it has every site's rows, so it takes no part in the contest
NAMED = 4  # sites by name in one sentence


def headline(run: Run, found: Assessment, rows: str = "test rows") -> str:
    accuracy = found.methods["accuracy"].dropna()
    rivals = [str(name) for name in accuracy.index if base_name(str(name).split("~")[0]) != SEES_ALL]
    if not rivals:
        return f"There are no {rows}: nothing can be said of how good the methods are."
    contest = [name for name in rivals if name != LOCAL]
    if not contest:
        return (
            f"Only local was run, right on {percent(accuracy[LOCAL])} % of the {rows}: add a method to compare it with."
        )
    best = max(contest, key=lambda name: (accuracy[name], -contest.index(name)))
    equal = [name for name in contest if abs(accuracy[name] - accuracy[best]) <= TIE]
    line: pd.Series[float] = found.methods.T[best]
    said = f"{_verdict(equal, line, accuracy)}: right on {percent(accuracy[best])} % of the {rows}{_gain(line)}"
    gained = _gains_by_site(run, found, best)
    sites = _sites(gained, "sites" if same_sites(run) else "sites x seeds") if len(gained) > 1 else ""
    return ". ".join([f"{said}{sites}", *_next(run, contest, equal, accuracy)]) + "."


def _verdict(equal: Sequence[str], line: pd.Series[float], accuracy: pd.Series[float]) -> str:
    names = " and ".join([", ".join(equal[:-1]), equal[-1]] if len(equal) > 1 else equal)
    many = len(equal) > 1
    gain = _value(line, "accuracy_gain")
    if math.isnan(gain):
        own = accuracy.get(LOCAL, math.nan)
        if math.isnan(own):
            return (
                f"{names} are equally good" if many else f"{names} was right most often" if len(accuracy) > 1 else names
            )
        gain = accuracy[equal[0]] - own
    if abs(gain) <= TIE:
        return f"{names} {'are' if many else 'is'} no better and no worse than the own models"
    if gain < 0:
        return f"No method beat the own models; {names} {'come' if many else 'comes'} nearest"
    sure = _value(line, "accuracy_gain_low") > 0
    if many:
        return f"{names} are equally good" + ("" if sure else ", and ahead of the own models by what may be chance")
    return f"{names} won" if sure else f"{names} is ahead, which may be chance"


def _gain(line: pd.Series[float]) -> str:
    gain, low, high = (_value(line, f"accuracy_gain{end}") for end in ("", "_low", "_high"))
    if math.isnan(gain):
        return ", with no own models to hold that to (add local)"
    ends = "" if math.isnan(low) else f" (95 % interval {interval(low, high)})"
    return f", {points(gain)} points over the own models{ends}"


def _value(line: pd.Series[float], key: str) -> float:
    return float(line.get(key, math.nan))


def _sites(gained: Mapping[str, float], called: str) -> str:
    """For how many sites it is better or worse, the latter by name."""
    lost = {name: gain for name, gain in sorted(gained.items(), key=lambda item: item[1]) if gain < -TIE}
    helped = sum(gain > TIE for gain in gained.values())
    tied = len(gained) - helped - len(lost)
    parts = [f"it helped {helped} of {len(gained)} {called}"]
    parts += [f"left {tied} as {'it was' if tied == 1 else 'they were'}"] if tied else []
    named = [f"{name} ({points(gain)})" for name, gain in list(lost.items())[:NAMED]]
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


def _next(run: Run, contest: Sequence[str], equal: Sequence[str], accuracy: pd.Series[float]) -> list[str]:
    """How far the next one is behind."""
    others = [name for name in contest if name not in equal]
    if not others or len(equal) > 1:
        return []
    second = max(others, key=lambda name: accuracy[name])
    found = between(run, equal[0], second)
    if math.isnan(found.gain):
        return []
    said = f"The next, {second}, is {percent(accuracy[equal[0]] - accuracy[second])} points behind"
    if math.isnan(found.low):
        return [said]
    return [f"{said} ({interval(found.low, found.high)}{': may be chance' if found.may_be_chance else ''})"]


def between(run: Run, ours: str, theirs: str) -> Versus:
    """Two methods of a run, on the same rows."""
    pairs = {}
    for (seed, method, site), tree in run.predictions.items():
        other = run.predictions.get((seed, theirs, site))
        if method == ours and other is not None:
            said = (each["probabilities"].argmax(axis=1) for each in (tree, other))
            pairs[seed, site] = (tree["y"], *said)
    return versus(pairs, common=run.experiment.test == "common")
