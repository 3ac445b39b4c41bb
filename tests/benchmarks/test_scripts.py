"""The smaller benchmark scripts run at a tiny size and print what they measure."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[2] / "benchmarks"


def _printed(script: str, *arguments: object) -> str:
    command = [sys.executable, HERE / script, *map(str, arguments)]
    found = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=300
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_neighbours_print_a_ratio() -> None:
    small = ("--rows", 200, "--queries", 20, "--models", 3, "--classes", 3, "--repeats", 1)
    assert "ratio" in _printed("neighbours.py", *small)


def test_attention_prints_a_ratio() -> None:
    assert "ratio" in _printed("attention.py", "--nodes", 30, "--degree", 4, "--width", 8, "--repeats", 1)


@pytest.mark.slow
def test_scale_measures_real_pulls_and_goes_on_to_a_million_sites() -> None:
    said = _printed("scale.py", "--pulls", 2, 4, "--models", 3, 5, 8)
    assert "pull of 4 members" in said
    assert "fit on 1000 rows, 8 models" in said
    lines = [line for line in said.splitlines() if line.startswith("| 1,000,000 |")]
    assert len(lines) == 1
    assert re.search(r"\d GB / [\d.]+ TB", lines[0]), "a million small and large files"


def test_reading_eicu_says_how_much_memory_it_took() -> None:
    pytest.importorskip("duckdb")
    said = _printed("eicu.py", "--stays", 60, "--memory", "100MB").splitlines()
    assert said[0].startswith("stays | rows of vitalPeriodic")
    assert said[1].startswith("60 | 34,560 | ")
