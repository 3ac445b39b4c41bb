"""The benchmark of the service runs at a tiny size and prints every figure."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "serving.py"


@pytest.mark.slow
def test_latency_load_and_restart_are_printed() -> None:
    small = ["--repeats", "5", "--seconds", "1", "--clients", "5", "--restarts", "1", "--models", "3", "2"]
    found = subprocess.run(
        [sys.executable, str(SCRIPT), *small],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=300,
    )
    assert found.returncode == 0, found.stderr
    assert len(re.findall(r"overhead( +-?[\d.]+){3}\n +ratio( +[\d.]+){3}\n", found.stdout)) == 2
    assert re.search(r"5 clients for 1 s: 0 errors in \d+ requests, \d+ a second", found.stdout)
    assert len(re.findall(r"memory (start|warm|middle|end) +service \d+ MB, workers \d+ MB", found.stdout)) == 4
    assert re.search(r"restart to first answer: [\d.]+ s", found.stdout)
