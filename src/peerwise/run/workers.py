"""One step at every site, in this process or in worker processes that may fail or be killed."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from peerwise.data import Site
from peerwise.errors import STOPS_A_RUN, PeerwiseError, reason
from peerwise.models import one_thread
from peerwise.run.crew import LOST, Crew

Observer = Callable[[dict[str, Any]], None]
Step = Callable[..., bool]
DEATHS = 3  # of workers at one site, that end a run


@dataclass(frozen=True)
class Done:
    """How one site's step ended: whether there was anything to do, and why it failed, with the traceback, if it did. Of
    one in many rounds, also which step failed, the bytes that were said, and in the end the best score."""

    site: str
    worked: bool = True
    why: str | None = None
    trace: str = ""
    step: str = ""
    said: int = 0
    score: float | None = None


Work = Callable[..., Done]


@contextmanager
def staff(workers: int, work: Work) -> Iterator[Crew | Work]:
    """Those who do this work as often as it comes: workers that stay meanwhile, or nobody but this process."""
    if workers == 1:
        yield work
        return
    with Crew(workers, work) as crew:
        yield crew


def in_turn(sites: Iterable[Site], workers: int) -> list[Site]:
    """For several workers the largest first, so that none of them is left at the end with one worker on it and the
    others idle."""
    return list(sites) if workers == 1 else sorted(sites, key=lambda site: len(site.train), reverse=True)


def everywhere(team: Crew | Work, tasks: Mapping[str, tuple[Any, ...]], tell: Observer) -> Iterator[Done]:
    """The work at every site, by its name, as they end; the numbers never depend on how many workers there are.

    Where a worker is killed (as the system does when memory runs out) the site is done again, after the others and
    alone, which needs less memory.
    """
    if not isinstance(team, Crew):
        for task in tasks.values():
            yield team(*task)
        return
    left = list(tasks)
    for death in range(1, DEATHS + 1):
        lost: list[str] = []
        for place, done in team.each([tasks[name] for name in left], at_once=None if death == 1 else 1):
            if done is LOST:
                lost.append(left[place])
                tell({"event": "worker lost", "site": left[place]})
            else:
                yield done
        left = lost
    if left:
        raise PeerwiseError(
            f"site {left[0]!r}: its worker process was ended from outside, {DEATHS} times in a row. Was there too "
            f"little memory? Free some, or use smaller models, and run again: it goes on where it stopped."
        )


def alone(step: Step, site: Site, arguments: tuple[Any, ...]) -> Done:
    try:
        return guarded(site.name, lambda: Done(site.name, step(site, *arguments)))
    finally:
        site.state = {}  # it lies in the folder; those of all sites together may be large


def guarded(site: str, work: Callable[[], Done]) -> Done:
    """One site's work on one thread. A failure of the site's own is told, any other stops the run."""
    try:
        with one_thread():
            return work()
    except MemoryError as error:
        raise PeerwiseError(
            f"site {site!r}: out of memory ({error}). Run again with fewer workers or smaller models: it goes on "
            f"where it stopped."
        ) from error
    except STOPS_A_RUN as error:
        if isinstance(error, PeerwiseError):
            raise type(error)(f"site {site!r}: {error}") from error
        raise
    except Exception as error:
        return Done(site, why=reason(error), trace=traceback.format_exc())
