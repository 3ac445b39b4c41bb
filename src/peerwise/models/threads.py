"""One thread a process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from types import ModuleType

from threadpoolctl import ThreadpoolController


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch and the libraries below numpy on one thread.

    Sums in another order give other last digits, and numbers may not depend on how many cores or workers there are;
    and on small arrays many threads are slower than one.
    """
    torch = _torch()
    threads = 1 if torch is None else torch.get_num_threads()
    if torch is not None:
        torch.set_num_threads(1)
    try:
        with _libraries(len(sys.modules)).limit(limits=1):
            yield
    finally:
        if torch is not None:
            torch.set_num_threads(threads)


def _torch() -> ModuleType | None:
    """Not imported in a process where it will start with one thread whenever it comes, as in our commands: that takes
    seconds, and what is done may not need it."""
    if "torch" not in sys.modules and os.environ.get("OMP_NUM_THREADS") == "1":
        return None
    return import_module("torch")


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """The thread pools that are loaded. Looking for them takes longer than answering a row, so it is done again only
    when a module was imported since, which is how a new one comes."""
    return ThreadpoolController()
