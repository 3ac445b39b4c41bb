"""One thread a process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch and the libraries below numpy on one thread.

    Sums in another order give other last digits, and numbers may not depend on how many cores or workers there are;
    and on small arrays many threads are slower than one.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(threads)
