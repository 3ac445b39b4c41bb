"""From results to claims: each method over all sites, and against every site's own model.

`assess` looks at a whole run. The rest works on plain arrays: `compare` and `mcnemar` (one site, two sets of answers),
`holm` (many tests), `score_interval` and `mean_interval`, `transfer` (many sites), `scores` and `by_subgroup`
(metrics), `mismatch` and `gap_closed` (choice among models).
"""

from peerwise.evaluate.assess import Assessment, assess, check_positive
from peerwise.evaluate.paired import Comparison, compare, holm, mcnemar, mean_interval, score_interval
from peerwise.evaluate.selection import gap_closed, home_correlation, home_frequency, mismatch
from peerwise.evaluate.subgroups import by_subgroup
from peerwise.evaluate.summary import summarise
from peerwise.evaluate.transfer import transfer, win_interval, worst_tenth
from peerwise.metrics import scores

__all__ = [
    "Assessment",
    "Comparison",
    "assess",
    "by_subgroup",
    "check_positive",
    "compare",
    "gap_closed",
    "holm",
    "home_correlation",
    "home_frequency",
    "mcnemar",
    "mean_interval",
    "mismatch",
    "score_interval",
    "scores",
    "summarise",
    "transfer",
    "win_interval",
    "worst_tenth",
]
