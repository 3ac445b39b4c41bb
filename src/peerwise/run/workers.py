"""One step at every site, in this process or in worker processes that may fail or be killed."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from peerwise.data import Site
from peerwise.errors import STOPS_A_RUN, PeerwiseError, reason
from peerwise.models import one_thread
from peerwise.run.crew import LOST, spread

Observer = Callable[[dict[str, Any]], None]
Step = Callable[..., bool]
DEATHS = 3  # of workers at one site, that end a run


@dataclass(frozen=True)
class Done:
    """How one site's step ended: whether there was anything to do, and why it failed, with the traceback, if it did."""

    site: str
    worked: bool = True
    why: str | None = None
    trace: str = ""


def everywhere(
    step: Step, sites: list[Site], arguments: tuple[Any, ...], workers: int, tell: Observer
) -> Iterator[Done]:
    """The step at every site, as they end; the numbers never depend on how many workers there are.

    Where a worker is killed (as the system does when memory runs out) the site is done again, after the others and
    alone, which needs less memory.
    """
    if workers == 1:
        for site in sites:
            yield _alone(step, site, arguments)
        return
    # The largest first, so that none of them is left at the end with one worker on it and the others idle.
    left = sorted(sites, key=lambda site: len(site.train), reverse=True)
    for death in range(1, DEATHS + 1):
        lost: list[Site] = []
        for place, done in spread(_alone, [(step, site, arguments) for site in left], workers if death == 1 else 1):
            if done is LOST:
                lost.append(left[place])
                tell({"event": "worker lost", "site": left[place].name})
            else:
                yield done
        left = lost
    if left:
        raise PeerwiseError(
            f"site {left[0].name!r}: its worker process was ended from outside, {DEATHS} times in a row. Was there too "
            f"little memory? Free some, or use smaller models, and run again: it goes on where it stopped."
        )


def _alone(step: Step, site: Site, arguments: tuple[Any, ...]) -> Done:
    """One site's step on one thread. A failure of the site's own is told, any other stops the run."""
    try:
        with one_thread():
            return Done(site.name, step(site, *arguments))
    except MemoryError as error:
        raise PeerwiseError(
            f"site {site.name!r}: out of memory ({error}). Run again with fewer workers or smaller models: it goes on "
            f"where it stopped."
        ) from error
    except STOPS_A_RUN as error:
        if isinstance(error, PeerwiseError):
            raise type(error)(f"site {site.name!r}: {error}") from error
        raise
    except Exception as error:
        return Done(site.name, why=reason(error), trace=traceback.format_exc())
