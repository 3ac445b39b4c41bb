"""The commands of a site as processes of their own: Ctrl-C, pipes, and what they load."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from peer_windows import found, hospital_tables, right

COMMAND = [sys.executable, "-m", "peerwise"]
PATIENCE = 120


def start(*arguments: str | Path, **settings: Any) -> subprocess.Popen[str]:
    """With SIGINT as a terminal gives it: what starts the tests may ignore it."""
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        **settings,
    )


def until_it_says(process: subprocess.Popen[str], text: str) -> str:
    """What it has said on standard error up to there; a process that says nothing is ended."""
    assert process.stderr is not None
    late = threading.Timer(PATIENCE, process.kill)
    late.start()
    said = []
    try:
        for line in process.stderr:
            said.append(line)
            if text in line:
                return "".join(said)
    finally:
        late.cancel()
    raise AssertionError(f"it never said {text!r}: {''.join(said)}")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    rows = hospital_tables(tmp_path / "rows")["cleveland"]
    found(tmp_path / "north", rows, tmp_path / "shared", "--models", "boosting,forest,mlp")
    return tmp_path / "north"


def test_ctrl_c_during_train_exits_with_130_and_the_same_command_goes_on(site: Path) -> None:
    with start("train", "--folder", site) as process:
        until_it_says(process, "training boosting, forest, mlp")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (130, "")
    assert "Run the same command again to go on where it stopped" in err
    assert "Traceback" not in err
    assert set(right("train", "--folder", site, "--format", "json").told["models"]) == {"boosting", "forest", "mlp"}


def test_a_reader_that_goes_away_is_no_failure(site: Path) -> None:
    for arguments in (["status"], ["status", "--format", "json"]):
        with start(*arguments, "--folder", site) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            assert process.wait(timeout=PATIENCE) == 0
            assert process.stderr.read() == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_live_answers_until_ctrl_c_and_ends_with_0(number: signal.Signals, tmp_path: Path) -> None:
    pytest.importorskip("zenoh")
    rows = hospital_tables(tmp_path / "rows")["cleveland"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    site = tmp_path / "north"
    right("init", site, "--data", rows, "--target", "diagnosis", "--models", "logistic", "--listen", address)
    with start("live", "--folder", site, "--every", "0") as process:
        until_it_says(process, f"north is live at {address}, list 1")
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, "")
    assert err.splitlines()[-1] == "stopped"
    with start("live", "--folder", site, "--every", "0", "--format", "json") as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["text"].startswith("north is live")
        process.send_signal(number)
        out, _ = process.communicate(timeout=PATIENCE)
    assert [json.loads(text)["text"] for text in out.splitlines()] == ["stopped"]


def test_help_loads_nothing_that_takes_long() -> None:
    """A list of verbs and the help of one answer at once."""
    script = (
        "import sys\nfrom peerwise.cli import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "heavy = {'pandas', 'scipy', 'sklearn', 'torch', 'onnxruntime', 'zenoh'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    for arguments in (["--help"], ["--version"], ["accept", "--help"], ["predict", "--help"], ["nonsense"]):
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE
        )
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
