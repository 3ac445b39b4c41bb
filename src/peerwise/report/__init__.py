"""What people look at: tables in the terminal."""

from peerwise.report.printed import print_assessment, print_summary
from peerwise.report.tables import (
    behaviour_table,
    cost_table,
    metric_table,
    own_table,
    probability_table,
    subgroup_table,
)

__all__ = [
    "behaviour_table",
    "cost_table",
    "metric_table",
    "own_table",
    "print_assessment",
    "print_summary",
    "probability_table",
    "subgroup_table",
]
