"""The benchmark of the dynamic rules runs at a tiny size, and both sides give the same answers."""

import os
import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "dynamic.py"


def test_every_rule_is_measured_in_both_spaces_with_the_same_answers() -> None:
    sizes = {"queries": 60, "models": 8, "rows": 50, "classes": 3, "width": 4, "repeats": 1}
    flags = [part for name, size in sizes.items() for part in (f"--{name}", str(size))]
    command = [sys.executable, str(SCRIPT), *flags]
    found = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=300
    )
    assert found.returncode == 0, found.stderr
    lines = [line for line in found.stdout.splitlines() if "ratio" in line]
    assert len(lines) == 15
    assert all(re.search(r"same answer for (\S+) %", line)[1] == "100.00" for line in lines), found.stdout
