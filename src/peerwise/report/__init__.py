"""What people look at: tables in the terminal."""

from peerwise.report.printed import print_assessment, print_summary

__all__ = ["print_assessment", "print_summary"]
