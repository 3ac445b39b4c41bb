"""Commands of docs/flower.md run as they stand there, and every process that they start ended."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

PAGE = Path(__file__).parents[2] / "docs" / "flower.md"
PATIENCE = 600.0  # seconds for anything; a busy machine is slow
ENDING = 20.0  # seconds to end by itself


def commands(beginning: str) -> str:
    """The block of commands on the page that begins so."""
    found = [
        block for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL) if block.startswith(beginning)
    ]
    assert len(found) == 1, f"{len(found)} blocks begin with {beginning!r}"
    return found[0]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


class Deployment:
    """A shell's environment in a folder, and what was started there; nothing of it remains."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._short = tempfile.TemporaryDirectory(prefix="ray")  # the paths of Ray's sockets may not be long
        self.started: list[subprocess.Popen[bytes]] = []
        self.env = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "FLWR_HOME": str(folder / "flower"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "RAY_TMPDIR": self._short.name,
            "HUB": "127.0.0.1",
            "PORT": str(free_port()),
            "OMP_NUM_THREADS": "1",
        }

    def __enter__(self) -> Deployment:
        return self

    def __exit__(self, *error: object) -> None:
        ours = [process for one in self.started for process in _family(one.pid)]
        for one in self.started:
            one.terminate()
        _, left = psutil.wait_procs(ours, ENDING)
        for process in left:
            process.kill()
        psutil.wait_procs(left, ENDING)
        for one in self.started:
            one.wait(ENDING)
        self._short.cleanup()

    def do(self, text: str, **env: str) -> str:
        """Run commands to their end; what they said."""
        try:
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", text],
                cwd=self.folder,
                env={**self.env, **env},
                capture_output=True,
                text=True,
                timeout=PATIENCE,
            )
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"{text}\n{error.stdout!r}\n{self.logs()}") from error
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}\n{self.logs()}"
        return done.stdout

    def start(self, text: str, name: str, **env: str) -> None:
        """Start what runs until it is stopped."""
        with (self.folder / f"{name}.log").open("wb") as log:
            self.started.append(
                subprocess.Popen(
                    ["bash", "-c", f"exec {text}"],
                    cwd=self.folder,
                    env={**self.env, **env},
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )

    def wait_for(self, ready: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + PATIENCE
        while not ready():
            ended = [one.args for one in self.started if one.poll() is not None]
            assert not ended, f"{what}: ended already: {ended}\n{self.logs()}"
            assert time.monotonic() < until, f"{what}\n{self.logs()}"
            time.sleep(0.2)

    def listens(self) -> bool:
        with socket.socket() as client:
            client.settimeout(1)
            return client.connect_ex(("127.0.0.1", int(self.env["PORT"]))) == 0

    def runs(self) -> list[dict[str, Any]]:
        """As `flwr list` tells them, because `flwr run` ends with 0 where a run has failed."""
        listed: list[dict[str, Any]] = json.loads(self.do("flwr list ours --format json"))["runs"]
        return listed

    def logs(self) -> str:
        return "\n".join(f"--- {path.name}\n{path.read_text()[-3000:]}" for path in sorted(self.folder.glob("*.log")))


def _family(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
