"""peerwise demo --serve, as a process of its own: made once, there at once the next time, ended by Ctrl-C."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from peerwise.data import load
from peerwise.run.peer import PeerFolder, demo
from peerwise.run.peer.settings import FILE

COMMAND = [sys.executable, "-m", "peerwise", "demo", "--serve"]


def started(folder: Path) -> tuple[subprocess.Popen[str], list[str], str]:
    """The process, what it said on its way, and the address that it printed."""
    process = subprocess.Popen([*COMMAND, "--port", "0"], cwd=folder, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if found := re.search(r"http://\S+", line):
            return process, lines[:-1], found[0]
    raise AssertionError(f"it ended with {process.wait()}: {''.join(lines)}")


def ended(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    return process.returncode


@pytest.mark.slow
def test_a_hospital_of_a_real_federation_answers_and_does_so_at_once_the_next_time(tmp_path: Path) -> None:
    process, said, address = started(tmp_path)
    home, _, token = address.partition("/#token=")
    told = httpx.get(f"{home}/v1/bundle", headers={"Authorization": f"Bearer {token}"}, timeout=30).json()
    assert (told["site"], len(told["models"])) == ("cleveland", 12)
    assert "Peerwise" in httpx.get(home, timeout=30).text
    assert ended(process) == 0
    assert sum("training and publishing its models" in line for line in said) == 4
    site = tmp_path / "runs" / "demo-site" / "cleveland"
    assert {line["what"] for line in PeerFolder(site).ledger.lines()} >= {"founded", "published", "accepted", "fitted"}
    process, said, again = started(tmp_path)
    assert said == [], "nothing is made twice"
    assert again != address
    assert ended(process) == 0


@pytest.mark.slow
def test_a_demo_that_was_killed_goes_on_where_it_stopped(tmp_path: Path) -> None:
    site = tmp_path / "runs" / "demo-site"
    with subprocess.Popen(COMMAND, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 120
        while not (site / "hungarian" / FILE).is_file() and time.monotonic() < until:
            time.sleep(0.01)
        process.kill()
    process, said, _ = started(tmp_path)
    assert ended(process) == 0
    assert not any("founding" in line for line in said)


def test_a_port_that_is_taken_is_told_before_anything_is_made(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        command = [*COMMAND, "--port", str(taken.getsockname()[1])]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "is in use: expected a free one" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_hospitals_agree_on_units_and_on_ranges_that_hold_every_patient() -> None:
    task, data = demo.hospital_task(), load("heart_disease")
    for place, feature in enumerate(task.features):
        if feature.type == "number":
            assert feature.unit
            assert feature.low is not None
            assert feature.high is not None
            column = data.X[:, place]  # type: ignore[index]
            assert not ((column < feature.low) | (column > feature.high)).any(), feature.name
