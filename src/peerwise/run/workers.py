"""One step at every site, in this process or in worker processes that may fail or be killed."""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import BrokenProcessPool

from peerwise.data import Site
from peerwise.errors import STOPS_A_RUN, PeerwiseError, reason
from peerwise.models import one_thread

Observer = Callable[[dict[str, Any]], None]
Step = Callable[..., bool]
DEATHS = 3  # of workers, with no site finished in between, that end a run
PAUSE = 0.5


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

    Workers that are killed (as the system does when memory runs out) are replaced and their sites done again: first
    all at once, then one at a time, which needs less memory and shows which site it is.
    """
    if workers == 1:
        for site in sites:
            yield _alone(step, site, arguments)
        return
    left = {site.name: site for site in sites}
    deaths = 0
    while left:
        now = list(left.values()) if deaths < DEATHS - 1 else [next(iter(left.values()))]
        try:
            for done in _pool(step, now, arguments, min(workers, len(sites))):
                del left[done.site]
                deaths = 0
                yield done
        except BrokenProcessPool as error:
            deaths += 1
            tell({"event": "worker lost", "left": list(left)})
            if deaths == DEATHS:
                raise PeerwiseError(
                    f"site {next(iter(left))!r}: its worker process was ended from outside, {DEATHS} times in a row. "
                    f"Was there too little memory? Free some, or use smaller models, and run again: it goes on where "
                    f"it stopped."
                ) from error


def _pool(step: Step, sites: list[Site], arguments: tuple[Any, ...], workers: int) -> Iterator[Done]:
    # max_nbytes: rows go through a pipe and never through a file, for which there may be no room.
    # At least two workers: with one, the work would be done in this very process.
    with parallel_config("loky", n_jobs=max(2, workers), inner_max_num_threads=1, max_nbytes=None):
        pool = Parallel(return_as="generator_unordered", batch_size=1)
        with _deaf_to_ctrl_c():
            found = pool(delayed(_in_worker)(step, site, arguments, os.getpid()) for site in sites)
        yield from found


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Workers that start within never see Ctrl-C, which goes to all processes of a terminal: it is this process that
    ends them. Here it is not lost, only late."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _in_worker(step: Step, site: Site, arguments: tuple[Any, ...], parent: int) -> Done:
    _end_with(parent)
    return _alone(step, site, arguments)


@cache
def _end_with(parent: int) -> None:
    """Once a worker: watch for the end of the run that started it, which can be sudden, and end too."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PAUSE)
        os._exit(1)

    if os.getppid() == parent:
        threading.Thread(target=watch, daemon=True).start()


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
