"""One thread a process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from threadpoolctl import ThreadpoolController


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch and the libraries below numpy on one thread.

    Sums in another order give other last digits, and numbers may not depend on how many cores or workers there are;
    and on small arrays many threads are slower than one.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with _libraries(len(sys.modules)).limit(limits=1):
            yield
    finally:
        torch.set_num_threads(threads)


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """The thread pools that are loaded. Looking for them takes longer than answering a row, so it is done again only
    when a module was imported since, which is how a new one comes."""
    return ThreadpoolController()
