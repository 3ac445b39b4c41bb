"""Below the tables: who took part when, what privacy was promised and what it cost, which learning rates were tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from peerwise.methods.registry import label_base

SHOWN = 4  # sites by name in one line


def missed_lines(missed: Sequence[dict[str, Any]]) -> Iterator[str]:
    """One line a method in which a site missed a round."""
    methods: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for line in missed:
        methods.setdefault(line["method"], {}).setdefault(line["site"], []).append(line)
    for method, sites in methods.items():
        parts = [f"{site}: {_when(lines)}" for site, lines in list(sites.items())[:SHOWN]]
        more = [f"and {len(sites) - SHOWN} more sites (--format json has all)"] if len(sites) > SHOWN else []
        yield f"{method}: not all took part in every round (from 0): {'; '.join([*parts, *more])}"


def all_sites_lines(methods: Sequence[str]) -> Iterator[str]:
    """One line, where some methods never had to do without a site."""
    if methods:
        yield f"{', '.join(methods)}: one round only, with all sites all the time, whatever join and absent say"


def _when(seeds: list[dict[str, Any]]) -> str:
    total, first = seeds[0]["rounds"], seeds[0]["took_part"]
    if all(line["took_part"] == first for line in seeds):
        return f"{len(first)} of {total} rounds ({ranges(first)})" if first else f"no round of {total}"
    counts = [len(line["took_part"]) for line in seeds]
    least, most = min(counts), max(counts)
    return f"{least if least == most else f'{least} to {most}'} of {total} rounds, others in each seed"


def ranges(rounds: Sequence[int]) -> str:
    """
    >>> ranges([0, 4, 5, 6, 9])
    '0, 4-6, 9'
    """
    parts = [[each for _, each in run] for _, run in groupby(enumerate(rounds), lambda pair: pair[1] - pair[0])]
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def privacy_lines(promises: Sequence[dict[str, Any]]) -> Iterator[str]:
    """One line a method with a guarantee."""
    for line in promises:
        promise = f"epsilon {_number(line['epsilon'])}, delta {_number(line['delta'])}; unit: {line['unit']}"
        made = f"rounds: {line['rounds']}; mechanism: {line['mechanism']}; accountant: {line['accountant']}"
        lacking = line["of"] - line["promised_at"]
        less = f"nothing is promised at {lacking} of {line['of']} sites x seeds; " if lacking else ""
        if line["trials"] > 1:
            less += f"tuning ran it {line['trials']} times, and each time spends this anew; "
        if line["compared_with"] is None:
            name = label_base(line["method"])
            cost = f"run it beside {name} to see what it costs"
        else:
            points = 100 * line["accuracy_cost"]
            cost = f"{abs(points):.1f} points {'less' if points >= 0 else 'more'} accurate than {line['compared_with']}"
        yield f"{line['method']}: {promise}; {made}; {less}{cost}"


def tuned_lines(tuned: Sequence[dict[str, Any]]) -> Iterator[str]:
    """One line a method whose learning rate was chosen."""
    for line in tuned:
        chosen = line["chosen"]
        one = len(set(chosen)) == 1
        shown = f"{chosen[0]:g}" if one else f"{', '.join(f'{lr:g}' for lr in chosen)} (by seed)"
        tried = ", ".join(f"{lr:g}" for lr in line["tried"])
        yield f"{line['method']}: learning rate {shown}, the best of {len(line['tried'])} on validation rows ({tried})"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
