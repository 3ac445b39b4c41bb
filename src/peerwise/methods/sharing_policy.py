"""What a site may make of contribution scores: whom to send its model to, and which version of it.

Plain functions of a site's own choice: nothing in Peerwise calls them by itself. ``scores`` are by site, from 0 to 1:
what this site owes to each peer (its row of the contribution graph), or the peers' in-strength in the whole graph. They
were taken from rows without noise, so who gets which version tells a little of the rows, beyond any epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from peerwise.errors import ConfigError


def share_with(scores: Mapping[str, float], threshold: float) -> list[str]:
    """The sites with a score of at least ``threshold``, the highest first.

    >>> share_with({"a": 0.05, "b": 0.6, "c": 0.35}, threshold=0.1)
    ['b', 'c']
    """
    _check_shares({"threshold": threshold}, "threshold")
    _check_shares(scores, "score")
    return sorted((site for site in scores if scores[site] >= threshold), key=lambda site: (-scores[site], site))


def version_for(scores: Mapping[str, float], versions: Mapping[float, float]) -> dict[str, float]:
    """For each site the privacy budget (epsilon) of the version that it may have: ``versions`` says for each epsilon
    the score that it takes, and a site gets the largest epsilon, hence the least noise, that its score reaches. A site
    that reaches none is not in the answer.

    Several versions are several releases of the same rows: sites that compare notes have the sum of their epsilons.

    >>> version_for({"a": 0.05, "b": 0.6, "c": 0.0}, {8.0: 0.3, 1.0: 0.01})
    {'a': 1.0, 'b': 8.0}
    """
    for epsilon in versions:
        if not epsilon > 0:
            raise ConfigError(f"versions has epsilon {epsilon}: expected a budget above 0 (inf for no noise).")
    _check_shares(versions, "score for epsilon")
    _check_shares(scores, "score")
    reached = {site: [e for e, least in versions.items() if score >= least] for site, score in scores.items()}
    return {site: max(budgets) for site, budgets in reached.items() if budgets}


def _check_shares(values: Mapping[str, float] | Mapping[float, float], what: str) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and 0 <= value <= 1):
            raise ConfigError(f"{what} of {name!r} is {value}: expected a share from 0 to 1.")
