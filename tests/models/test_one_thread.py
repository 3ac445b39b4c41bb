"""One thread a process, and afterwards as many as before."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
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


@pytest.mark.parametrize("threads", ["1", "2"])
def test_torch_has_one_thread_inside_whenever_it_is_imported(threads: str) -> None:
    code = (
        "import sys\nfrom peerwise.models import one_thread\nwith one_thread():\n"
        "    early = 'torch' in sys.modules\n    import torch\n    print(early, torch.get_num_threads())"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": threads}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert found.stdout.split() == ["False" if threads == "1" else "True", "1"], found.stderr
