"""A sentence for each thing to be known before a number is believed: what failed, who was away, what privacy costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from peerwise.evaluate import Assessment
from peerwise.evaluate.summary import LOCAL
from peerwise.report.cells import percent
from peerwise.report.protocol import all_sites_lines, missed_lines, privacy_lines, tuned_lines

NOTABLE = 0.005  # between two shares that should be one
COMMON = "All sites are tested on the same rows, which are at none of them; intervals count these rows once"


def notes_of(found: Assessment) -> Iterator[str]:
    """A line for each site that fell back, and for each peer's model that a site had to do without; then a line a
    method for what collapsed, and for what its absent sites, its privacy and its tuning say."""
    if found.settings.get("test") == "common":
        yield COMMON
    yield from _other_own_models(found)
    for line in found.fell_back:
        yield _told(line, f"answered by {line['to']}")
    for line in found.peers_left_out:
        yield _told(line, f"without {line['model']}")
    for line in found.collapsed:
        what = f"{line['what'].capitalize()}: {line['method']} at {line['sites']} of {line['of']} sites x seeds"
        yield f"{what}, such as {line['site']} (seed {line['seed']}): {line['why']}"
    yield from tuned_lines(found.tuned)
    yield from missed_lines(found.missed_rounds)
    yield from all_sites_lines(found.had_all_sites)
    yield from privacy_lines(found.privacy)


def _other_own_models(found: Assessment) -> Iterator[str]:
    """Where rounds are asked for, local is trained otherwise than the models of a pool: a gain over these cannot be
    read off local's line."""
    if not len(found.sites):
        return
    local = found.sites[found.sites["method"] == LOCAL]
    lines = found.sites[(found.sites["reference"] == "own") & found.sites["own_accuracy"].notna()]
    if not len(local) or not len(lines):
        return
    right = float(local["accuracy"].mean())
    held = lines.groupby("method", sort=False)["own_accuracy"].mean()
    differ = held[(held - right).abs() > NOTABLE]
    for own, methods in differ.groupby(differ.round(3), sort=False):
        names = ", ".join(map(str, methods.index))
        yield (
            f"Over local: {names} are held to the own models of their pool, right on {percent(float(str(own)))} %, and "
            f"not to local ({percent(right)} %), which was trained otherwise"
        )


def _told(line: dict[str, Any], what: str) -> str:
    return f"Site {line['site']} (seed {line['seed']}, {line['method']}): {what}, because {line['why']}"
