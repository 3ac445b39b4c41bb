"""A sentence for each thing to be known before a number is believed: what failed, who was away, what privacy costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from peerwise.evaluate import Assessment
from peerwise.report.protocol import all_sites_lines, missed_lines, privacy_lines, tuned_lines

COMMON = "All sites are tested on the same rows, which are at none of them; intervals count these rows once"


def notes_of(found: Assessment) -> Iterator[str]:
    """A line for each site that fell back, and for each peer's model that a site had to do without; then a line a
    method for what collapsed, and for what its absent sites, its privacy and its tuning say."""
    if found.settings.get("test") == "common":
        yield COMMON
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


def _told(line: dict[str, Any], what: str) -> str:
    return f"Site {line['site']} (seed {line['seed']}, {line['method']}): {what}, because {line['why']}"
