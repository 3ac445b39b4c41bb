"""Commands of `peerwise` as processes of their own, forked from one that has imported all it needs: quick to start, and
real ones to kill. Run as a program it takes orders, one line of JSON each, and ends its children when they end."""

from __future__ import annotations

import json
import os
import pkgutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

from peerwise.environment import ARROW_ALONE, ONE_THREAD

PATIENCE = 120.0  # seconds that a busy machine may take for anything


def until(true: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Wait for something that must come true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not within {seconds:g} seconds: {what}"
        time.sleep(0.02)


class Command:
    """One command that was started; what it says is in files, so that it never waits for a reader."""

    def __init__(self, pid: int, poll: Callable[[], int | None], said: Path) -> None:
        self.pid, self._poll, self._said = pid, poll, said
        self.code: int | None = None

    def ended(self) -> bool:
        if self.code is None:
            self.code = self._poll()
        return self.code is not None

    def wait(self, seconds: float = PATIENCE) -> int:
        until(self.ended, f"process {self.pid} ends; it says {self.errors()!r}", seconds)
        assert self.code is not None
        return self.code

    def send(self, number: int) -> None:
        if not self.ended():
            os.kill(self.pid, number)

    def kill(self) -> None:
        """As a power cut would."""
        self.send(signal.SIGKILL)
        self.wait()

    def output(self) -> str:
        return self._said.with_suffix(".out").read_text()

    def errors(self) -> str:
        return self._said.with_suffix(".err").read_text()

    def found(self) -> Any:
        """The result of a command that was asked for JSON and went well."""
        assert self.wait() == 0, self.errors()
        return json.loads(self.output())

    def hears(self, text: str) -> None:
        """Wait until it has said this on standard error."""
        until(lambda: text in self.errors() or self.ended(), f"{text!r} in {self.errors()!r}")
        assert text in self.errors(), self.errors()


class Forge:
    """Where commands come from; ``folder`` is for what they say."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._started: list[Command] = []
        environment = {**os.environ, **ONE_THREAD, **ARROW_ALONE}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen([sys.executable, __file__], env=environment, text=True, **pipes)  # type: ignore[call-overload]
        assert self._process.stdout.readline() == "1\n", "a process with threads cannot be forked"

    def start(self, *argv: object, dies: dict[str, Any] | None = None) -> Command:
        """``dies``: where it kills itself, {"writes": n}, or {"before": "module:Class.method", "with": the first
        argument, "nth": n}."""
        said = self._place(argv[0])
        pid = self._ask(argv=[str(part) for part in argv], said=str(said), dies=dies)
        command = Command(pid, lambda: self._ask(poll=pid), said)
        self._started.append(command)
        return command

    def fresh(self, *argv: object) -> Command:
        """The same as a shell starts it, which takes seconds."""
        said = self._place(argv[0])
        with said.with_suffix(".out").open("w") as out, said.with_suffix(".err").open("w") as err:
            words = [sys.executable, "-m", "peerwise", *map(str, argv)]
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, preexec_fn=_as_usual)
        command = Command(process.pid, process.poll, said)
        self._started.append(command)
        return command

    def run(self, *argv: object) -> Any:
        """To its end, and what it found."""
        return self.start(*argv, "--format", "json").found()

    def close(self) -> None:
        for command in self._started:
            if not command.ended():
                command.kill()
        self._process.stdin.close()
        self._process.wait(PATIENCE)

    def _place(self, verb: object) -> Path:
        said = self.folder / f"{len(self._started):03d}-{verb}"
        for suffix in (".out", ".err"):
            said.with_suffix(suffix).touch()
        return said

    def _ask(self, **order: Any) -> Any:
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def _as_usual() -> None:
    """Ctrl-C counts, also where whoever runs the tests has it ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


# ---- the program -----------------------------------------------------------------------------------------------------


def _orders() -> None:
    from peerwise.cli import main, peer

    verbs = [f"peerwise.cli.peer.{found.name}" for found in pkgutil.iter_modules(peer.__path__)]
    for name in (*verbs, "peerwise.run.peer", "peerwise.models.zoo.tables", "onnxruntime", "torch.onnx", "zenoh"):
        import_module(name)
    children: set[int] = set()
    print(len(os.listdir("/proc/self/task")) if Path("/proc/self/task").is_dir() else 1, flush=True)  # noqa: T201
    for line in sys.stdin:
        order = json.loads(line)
        if "argv" in order:
            pid = os.fork()
            if pid == 0:
                _become(order)
                sys.exit(main())
            children.add(pid)
            print(pid, flush=True)  # noqa: T201
        else:
            pid, status = os.waitpid(order["poll"], os.WNOHANG)
            children.discard(pid)
            print(json.dumps(os.waitstatus_to_exitcode(status) if pid else None), flush=True)  # noqa: T201
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _become(order: dict[str, Any]) -> None:
    _as_usual()
    said = Path(order["said"])
    for number, path in enumerate((Path(os.devnull), said.with_suffix(".out"), said.with_suffix(".err"))):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), number)
    sys.argv = ["peerwise", *order["argv"]]
    dies = order["dies"] or {}
    if "writes" in dies:
        _die_in_write(dies["writes"])
    if "before" in dies:
        _die_before(dies["before"], dies.get("with"), dies.get("nth", 1))


def _die_in_write(number: int) -> None:
    left = [number]
    real = os.fsync

    def sync(descriptor: int) -> None:
        left[0] -= 1
        if left[0] <= 0:
            if Path(f"/proc/self/fd/{descriptor}").resolve().is_file():
                os.truncate(descriptor, os.fstat(descriptor).st_size // 2)  # half a file
            os.kill(os.getpid(), signal.SIGKILL)
        real(descriptor)

    os.fsync = sync


def _die_before(where: str, given: Any, nth: int) -> None:
    module, _, name = where.partition(":")
    owner, _, name = name.rpartition(".")
    holder = getattr(import_module(module), owner)
    real, left = getattr(holder, name), [nth]

    @wraps(real)
    def dying(self: Any, first: Any, *rest: Any, **named: Any) -> Any:
        left[0] -= given is None or first == given
        if left[0] <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(self, first, *rest, **named)

    setattr(holder, name, dying)


if __name__ == "__main__":
    _orders()
