"""One thread a process, and afterwards as many as before."""

from __future__ import annotations

import numpy as np
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from peerwise.models import one_thread


def counts() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info()]


def test_every_library_gets_one_thread_and_has_its_own_number_back() -> None:
    assert np.eye(2).sum() == 2
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threadpool_limits(2):
            outside = counts()
            for _ in range(2):  # the second time the libraries are known already
                with one_thread():
                    assert set(counts()) == {1}
                    assert torch.get_num_threads() == 1
                assert counts() == outside
                assert torch.get_num_threads() == 2
            assert 2 in outside
    finally:
        torch.set_num_threads(before)
