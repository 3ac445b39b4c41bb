"""One child process, from its parent's side: started, asked within a deadline, ended."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from peerwise.errors import WorkerError
from peerwise.models.worker.frames import Ended, Frame, Garbage, Header, Late, Part, Wire
from peerwise.models.worker.layers import LAYERS
from peerwise.models.worker.limits import Limits
from peerwise.models.worker.replies import Reply, printable

CHILD = Path(__file__).with_name("child.py")
START_SECONDS = 60.0
ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",  # a second one takes 64 MB of address space
    "ORT_DISABLE_TELEMETRY": "1",
}
PASSED_ON = ("LD_LIBRARY_PATH",)  # without it some Pythons do not start
TOLD = 300  # characters of what a dead child said last


class Process:
    """Starts at once; the first question waits until it is ready. After an error it is of no more use: `end` it.

    ``keeper`` is a thread that outlives the child: the kernel ends a child when the *thread* that started it ends.
    """

    def __init__(self, limits: Limits, keeper: ThreadPoolExecutor, *, with_onnx: bool = False) -> None:
        if not hasattr(select, "poll"):
            raise WorkerError(f"peers' models cannot be run on {sys.platform}: expected Linux, or another Unix.")
        self.limits, self.with_onnx = limits, with_onnx
        self.seen: set[str] = set()  # the models that it was asked about
        self.opened: set[str] = set()  # those that it has opened, and may have let go
        self.was_late = self.has_died = False
        self._isolation: dict[str, str] | None = None
        # As big as the pipe is, so much is kept of what a library prints: when it is full, the rest is lost.
        self._errors, errors = os.pipe()
        os.set_blocking(errors, False)
        os.set_blocking(self._errors, False)
        try:
            self._child = keeper.submit(_started, errors).result()
        except OSError as error:
            os.close(self._errors)
            raise WorkerError(
                f"no process could be started for peers' models: {error}. Free memory, or files."
            ) from error
        finally:
            os.close(errors)
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._wire = Wire(self._child.stdout.fileno(), self._child.stdin.fileno())
        start = {
            "path": [os.path.abspath(place) for place in sys.path if place],
            "layers": list(LAYERS),
            "parent": os.getpid(),
            "with_onnx": with_onnx,
            "memory_bytes": limits.memory_bytes,
            "seconds": limits.seconds,
            "most_open_bytes": limits.most_open_bytes,
            "most_reply_bytes": limits.most_reply_bytes,
        }
        with suppress(Ended, Late):  # it is told to who asks first
            self._wire.send([(start, [])], time.monotonic() + START_SECONDS)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def is_running(self) -> bool:
        return self._child.poll() is None

    @property
    def is_idle(self) -> bool:
        """Ready for a question; not so one that died, or speaks unasked."""
        return self._isolation is None or self._wire.is_quiet

    def isolation(self) -> dict[str, str]:
        if self._isolation is None:
            header, _ = self._received("start", START_SECONDS)
            found = header.get("isolation")
            if not isinstance(found, dict) or not all(type(value) is str for value in found.values()):
                raise WorkerError("the process for peers' models did not say how it is isolated: expected its layers.")
            self._isolation = found
        return dict(self._isolation)

    @property
    def takes(self) -> int:
        """How many bytes can be sent without waiting for an answer."""
        return self._wire.holds

    def ask(self, what: str, header: Header, parts: Sequence[Part] = ()) -> Reply:
        return self.ask_all(what, [(header, parts)])[0]

    def ask_all(self, what: str, asked: Sequence[Frame]) -> list[Reply]:
        """The replies, each within the deadline of one; `WorkerError` where there is none, in which case this process
        must be ended. Several at once must be no more than it `takes`, or both sides might wait for each other."""
        self.isolation()
        self._said_on_the_side()  # of what came before
        if not self._wire.is_quiet and self._child.poll() is None:
            raise WorkerError(f"the process spoke before it was asked {what!r}: expected it to wait. It was ended.")
        deadline = time.monotonic() + self.limits.seconds
        with suppress(Ended):  # what it said last is worth more than that it is gone
            try:
                self._wire.send([({"what": what, **header}, parts) for header, parts in asked], deadline)
            except Late:
                raise WorkerError(self._too_late(what, self.limits.seconds)) from None
        return [self._received(what, self.limits.seconds) for _ in asked]

    def end(self) -> None:
        """Killed and gone on return; safe to call twice."""
        if self._child.stdin is not None and not self._child.stdin.closed:
            self._child.kill()
            self._child.wait()
            os.close(self._errors)
            for pipe in (self._child.stdin, self._child.stdout):
                assert pipe is not None
                pipe.close()

    def _received(self, what: str, seconds: float) -> Reply:
        try:
            return self._wire.receive(self.limits.most_reply_bytes, time.monotonic() + seconds)
        except Late:
            raise WorkerError(self._too_late(what, seconds)) from None
        except Ended:
            raise WorkerError(f"the process died at {what!r}: {self._last_words()}.") from None
        except Garbage as garbage:
            raise WorkerError(
                f"the process answered {what!r} with {garbage}: expected a frame. It was ended."
            ) from None

    def _too_late(self, what: str, seconds: float) -> str:
        self.was_late = True
        return f"no answer to {what!r} within {seconds:g} seconds: it was ended. Leave the model out, or allow more."

    def _last_words(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(1)
        self.has_died = True
        code = self._child.poll()
        how = "it closed its pipes" if code is None else f"exit code {code}" if code >= 0 else f"signal {-code}"
        said = printable(self._said_on_the_side())[-TOLD:]
        return f"{how}, saying {said!r}" if said else how

    def _said_on_the_side(self) -> str:
        try:
            return os.read(self._errors, 2**16).decode(errors="replace")
        except BlockingIOError:
            return ""


def _started(errors: int) -> subprocess.Popen[bytes]:
    folder = tempfile.mkdtemp(prefix="peerwise-worker-")
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", str(CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            bufsize=0,
            cwd=folder,
            env=ENVIRONMENT | {name: os.environ[name] for name in PASSED_ON if name in os.environ},
            start_new_session=True,
        )
    finally:
        os.rmdir(folder)  # a folder that is no more stays empty
