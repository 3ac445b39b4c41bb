"""The benchmark of the worker runs at a tiny size and prints both sides."""

import os
import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "worker.py"


def test_both_sides_and_their_difference_are_printed_for_each_kind_of_rows() -> None:
    command = [sys.executable, str(SCRIPT), "--rows", "1", "50", "--repeats", "2", "--models", "2", "--megabytes", "1"]
    found = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=300
    )
    assert found.returncode == 0, found.stderr
    assert len(re.findall(r"worker \d+ us, in process \d+ us, difference -?\d+ us", found.stdout)) == 6
    assert re.search(r"^start: \d+ ms, (\d+|nan) MB resident$", found.stdout, re.MULTILINE)
    assert re.search(r"2 files of 1 MB x 50 rows: worker [\d.]+ s, in process [\d.]+ s", found.stdout)
