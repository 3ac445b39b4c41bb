"""What people look at: tables in the terminal."""

from peerwise.report.tables import behaviour_table, cost_table, metric_table, print_summary

__all__ = ["behaviour_table", "cost_table", "metric_table", "print_summary"]
