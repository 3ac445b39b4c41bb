"""What people look at: tables in the terminal and in files, a page for the browser, graphs of who owes what."""

from peerwise.report.contributions import write_contributions
from peerwise.report.printed import print_assessment, print_story, print_summary
from peerwise.report.story import Story, story_of
from peerwise.report.writing import story_from, write_page

__all__ = [
    "Story",
    "print_assessment",
    "print_story",
    "print_summary",
    "story_from",
    "story_of",
    "write_contributions",
    "write_page",
]
