"""What people look at: tables in the terminal."""

from peerwise.report.tables import cost_table, metric_table, print_summary

__all__ = ["cost_table", "metric_table", "print_summary"]
