"""Every benchmark script runs at a tiny size, and says what it could not compare with."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parents[2] / "benchmarks"


def _printed(script: str, *arguments: object) -> str:
    clean = {name: value for name, value in os.environ.items() if name != "PEERWISE_PEER_PYTHON"}
    command = [sys.executable, HERE / script, *map(str, arguments)]
    found = subprocess.run(command, capture_output=True, text=True, env={**clean, "OMP_NUM_THREADS": "1"}, timeout=300)
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_rounds_without_a_split_or_sites_says_what_is_missing() -> None:
    found = subprocess.run([sys.executable, HERE / "rounds.py"], capture_output=True, text=True, timeout=100)
    assert found.returncode == 2
    assert found.stderr.splitlines()[-1].endswith(
        "expected a split file, or --sites with numbers of sites, e.g. --sites 20,100"
    )


def test_neighbours_print_a_ratio() -> None:
    small = ("--rows", 200, "--queries", 20, "--models", 3, "--classes", 3, "--repeats", 1)
    assert "ratio" in _printed("neighbours.py", *small)


def test_attention_prints_a_ratio() -> None:
    assert "ratio" in _printed("attention.py", "--nodes", 30, "--degree", 4, "--width", 8, "--repeats", 1)


def test_selection_without_the_peer_says_what_to_install() -> None:
    small = ("--rows", 80, "--validation", 40, "--queries", 40, "--models", 4, "--classes", 3)
    said = _printed("selection.py", *small)
    assert "own model alone" in said
    assert "pip install rigfl==0.3.0 graphroute==0.1.7" in said


def test_growth_prints_exponents_and_draws_them(tmp_path: Path) -> None:
    said = _printed("growth.py", "--rows", 60, 120, "--models", "--models-fixed", 3, "--plot", tmp_path / "growth.png")
    assert "exponents over rows: fit" in said
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_scale_measures_real_pulls_and_goes_on_to_a_million_sites() -> None:
    said = _printed("scale.py", "--pulls", 2, 4, "--models", 3, 5, 8)
    assert "pull of 4 members" in said
    assert "fit on 1000 rows, 8 models" in said
    lines = [line for line in said.splitlines() if line.startswith("| 1,000,000 |")]
    assert len(lines) == 1
    assert re.search(r"\d GB / [\d.]+ TB", lines[0]), "a million small and large files"


@pytest.mark.slow
def test_federation_without_the_peer_says_what_to_install(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 120
    np.savez(
        tmp_path / "split.npz",
        x=rng.integers(0, 256, (n, 28, 28)).astype(np.uint8),
        y=np.arange(n) % 3,
        client=np.arange(n) // 40,
        split=np.array([0, 0, 0, 1, 2] * (n // 5), np.int8),
        meta='{"kind": "image", "num_clients": 3, "num_classes": 3}',
    )
    said = _printed("federation.py", tmp_path / "split.npz", "--epochs", 1, "--workers", 2)
    assert "own model alone" in said
    assert "pip install rigfl==0.3.0 graphroute==0.1.7" in said
