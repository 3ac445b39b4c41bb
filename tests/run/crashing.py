"""A program that runs a simulation over and over, killing it after ever so many writes, until one run ends.

All that a run leaves behind are its writes, so dying between any two of them, or within one, is all that can happen.
Each life is a forked process: importing the libraries is much slower than a small run.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import onnxruntime  # noqa: F401 - here, or every life would import it

import peerwise.models.zoo.tables  # noqa: F401 - and torch
from peerwise import simulate
from peerwise.run import RunFolder

sys.path.append(str(Path(__file__).parents[1]))  # run as a program
from packages import installed

OFFERED = {
    "mean": "toy_methods:Mean",
    "to_share": "failing_methods:FailsToShare",
    "to_learn": "failing_methods:FailsToLearn",
    "to_answer": "failing_methods:FailsToAnswer",
}
SETTINGS: dict[str, Any] = {"sites": 3, "rows": 240, "models": ["logistic"], "folds": 2, "seeds": 1, "epochs": 1}


def die_after(writes: int) -> None:
    """From now on the process kills itself in the midst of its n-th write, be it a file or a line of the log."""
    left = [writes]
    real_sync, real_log, real_replace = os.fsync, RunFolder.log, os.replace

    def sync(descriptor: int) -> None:
        left[0] -= 1
        if left[0] <= 0:
            if Path(f"/proc/self/fd/{descriptor}").resolve().is_file():
                os.truncate(descriptor, os.fstat(descriptor).st_size // 2)  # half a file
            os.kill(os.getpid(), signal.SIGKILL)
        real_sync(descriptor)

    def replace(unfinished: Path, path: Path) -> None:
        """Files that are not flushed: they are whole by the time they get their name."""
        left[0] -= 1
        if left[0] <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        real_replace(unfinished, path)

    def log(self: RunFolder, event: dict[str, Any]) -> None:
        left[0] -= 1
        if left[0] <= 0:
            with (self.path / "events.jsonl").open("a") as file:
                file.write('{"time": 12.5, "ev')  # half a line
            os.kill(os.getpid(), signal.SIGKILL)
        real_log(self, event)

    os.fsync, os.replace, RunFolder.log = sync, replace, log  # type: ignore[assignment,method-assign]


def one_life(out: str, methods: str, writes: int) -> bool:
    """Whether the run came to its end before it was killed."""
    child = os.fork()
    if child == 0:
        try:
            die_after(writes)
            simulate("digits", out=out, **SETTINGS, methods=methods)
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), f"a life ended with {status}"
    return status == 0


if __name__ == "__main__":
    out, methods, seed = sys.argv[1:]
    sys.path.append(str(installed(Path(tempfile.mkdtemp()), {"peerwise.methods": OFFERED})))
    chance = random.Random(int(seed))
    lives = 1
    while not one_life(out, methods, chance.randint(10, 30)):
        lives += 1
    sys.stdout.write(f"{lives}\n")
