"""What people look at: tables in the terminal, graphs of who owes how much to whom."""

from peerwise.report.contributions import write_contributions
from peerwise.report.printed import print_assessment, print_summary

__all__ = ["print_assessment", "print_summary", "write_contributions"]
