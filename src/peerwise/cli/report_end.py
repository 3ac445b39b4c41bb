"""The report at the end of a command. It is written after the results were printed, and costs none of them."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from peerwise.cli.output import messages_console
from peerwise.errors import PeerwiseError, reason
from peerwise.evaluate import Assessment
from peerwise.report import Story, print_assessment, print_story, story_of, write_page
from peerwise.report.writing import FILE
from peerwise.run import Run

REFUSED, FAULT = 2, 1


def story_or_error(run: Run, found: Assessment) -> Story | Exception:
    try:
        return story_of(run, found)
    except Exception as error:
        return error


def print_found(run: Run, found: Assessment, console: Console) -> Story | Exception:
    """The sentence and the tables; the tables at least, where the rest of the report fails."""
    story = story_or_error(run, found)
    if isinstance(story, Story):
        print_story(story, console, all_tables=False)
    else:
        print_assessment(found, console)
    return story


def report_written(story: Story | Exception, folder: Path | None, console: Console | None = None) -> int:
    """Write it, and say where it is if there is a ``console`` to say so; if that fails, one sentence on standard error
    and the exit code for it."""
    if folder is None:
        return 0
    try:
        if isinstance(story, Exception):
            raise story
        path = write_page(story, folder / FILE)
    except PeerwiseError as error:
        return _told(str(error), REFUSED)
    except Exception as error:  # whatever it is: the results are there, and so is the sentence
        return _told(f"a fault in Peerwise ({reason(error)}). Please report it.", FAULT)
    if console is not None:
        console.print(f"report: {path}", soft_wrap=True, markup=False)
    return 0


def _told(why: str, code: int) -> int:
    messages_console().print(
        f"peerwise: the results are complete, but there is no report of them: {why}", markup=False, soft_wrap=True
    )
    return code
