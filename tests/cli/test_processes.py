"""The command as a process of its own: exit codes, signals and pipes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd

TINY = ["digits", "--sites", "3", "--rows", "300", "--models", "logistic", "--seeds", "1", "--folds", "2"]
COMMAND = [sys.executable, "-m", "peerwise"]


def test_the_module_is_the_command(tmp_path: Path) -> None:
    arguments = ["simulate", *TINY, "--methods", "local", "--format", "json", "--out", "run"]
    done = subprocess.run([*COMMAND, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert len(json.loads(done.stdout)["sites"]) == 3
    assert "seed 0, local: 3 sites" in done.stderr


def test_a_reader_that_goes_away_is_no_failure(tmp_path: Path) -> None:
    for arguments in (["list", "methods"], ["list", "methods", "--format", "json"]):
        with subprocess.Popen([*COMMAND, *arguments], cwd=tmp_path, stdout=-1, stderr=-1, text=True) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            assert process.wait(timeout=120) == 0
            assert process.stderr.read() == ""


def test_ctrl_c_exits_with_130_and_the_folder_goes_on(tmp_path: Path) -> None:
    arguments = ["simulate", *TINY, "--methods", "local,neighbourhood", "--seeds", "200", "--out", "run"]
    with subprocess.Popen([*COMMAND, *arguments], cwd=tmp_path, stdout=-1, stderr=-1, text=True) as process:
        events = tmp_path / "run" / "events.jsonl"
        until = time.monotonic() + 120
        while not (events.exists() and "predicted" in events.read_text()) and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Run the same command again to go on where it stopped" in err
    assert "Traceback" not in err
    assert out == ""
    assert not (tmp_path / "run" / "results.parquet").exists()
    again = [*COMMAND, "simulate", *TINY, "--methods", "local,neighbourhood", "--out", "run", "-q"]
    done = subprocess.run(again, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(pd.read_parquet(tmp_path / "run" / "results.parquet")) == 6


def test_ctrl_c_is_answered_while_the_libraries_are_still_loading(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "peerwise", "simulate", *TINY]
    with subprocess.Popen(command, cwd=tmp_path, stdout=-1, stderr=-1, text=True) as process:
        assert process.stderr is not None
        assert any("peerwise.data.rows" in line for line in process.stderr)  # reads up to there
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped. Run the same command again" in rest
    assert "Traceback" not in rest
    assert list(tmp_path.iterdir()) == []
