"""What a child gives up, layer by layer with the others off: the attack that works without it fails with it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from peerwise.models.worker import child, isolation, process
from peerwise.models.worker.layers import LAYERS

# Without the packages' own imports, which would take a second each time.
PROGRAM = """
import importlib.util, os, sys
place = importlib.util.spec_from_file_location("child", {child!r})
child = importlib.util.module_from_spec(place)
place.loader.exec_module(child)
child.light_packages()
from peerwise.models.worker.layers import after_imports, applied, before_imports
import mmap, resource, socket
{before}
wanted = frozenset({layers!r})
found = applied(before_imports(2**28) | after_imports(os.getppid()), wanted)
missing = [f"{{name}}: {{found[name]}}" for name in wanted if found[name] != "on"]
if missing:
    os.write(1, ("missing " + "; ".join(missing)).encode())
    os._exit(0)
try:
    {attack}
    said = "it worked"
except (OSError, MemoryError) as error:
    said = type(error).__name__
os.write(1, said.encode())
os._exit(0)
"""
NEEDED = "no new privileges"  # without it only the superuser may have the last two

ATTACKS = {
    "takes half a gigabyte": "bytearray(2**29)",
    "writes a file": "open({folder!r} + '/made', 'wb', 0).write(b'x')",
    "opens many files": "kept = [open({folder!r} + '/patients') for _ in range(100)]",
    "reads a file": "open({folder!r} + '/patients').read()",
    "lists a folder": "os.listdir({folder!r})",
    "connects": "socket.socket().connect(('127.0.0.1', {port}))",
    "makes a socket": "socket.socket()",
    "forks": "os.fork() or os._exit(0)",
    "runs a program": "os.posix_spawn('/bin/true', ['true'], dict())",
    "signals others": "os.kill(os.getppid(), 0)",
    "makes code": "mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)",
    "changes its priority": "os.nice(1)",
    "gives a file away": "os.chown({folder!r} + '/patients', 1, 1)",
}
KEPT_OFF = [
    ("memory limit", "takes half a gigabyte", "MemoryError"),
    ("writes no files", "writes a file", "OSError"),
    ("few open files", "opens many files", "OSError"),
    ("network of its own", "connects", "OSError|ConnectionRefusedError"),
    ("no new processes", "forks", "BlockingIOError"),
    ("no capabilities", "gives a file away", "PermissionError"),
    ("opens no files", "reads a file", "PermissionError"),
    ("opens no files", "writes a file", "PermissionError"),
    ("opens no files", "lists a folder", "PermissionError"),
    ("opens no files", "connects", "PermissionError"),
    ("opens no files", "runs a program", "PermissionError"),
    ("opens no files", "signals others", "PermissionError"),
    *(
        ("few system calls", attack, "PermissionError")
        for attack in ATTACKS
        if attack not in ("takes half a gigabyte", "gives a file away")
    ),
]


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def _tried(attack: str, layers: tuple[str, ...], folder: Path, port: int, before: str = "") -> str:
    (folder / "patients").write_text("private")
    told = ATTACKS[attack].format(folder=str(folder), port=port)
    code = PROGRAM.format(child=child.__file__, before=before, layers=layers, attack=told)
    found = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr
    if found.stdout.startswith("missing"):
        pytest.skip(found.stdout)
    return found.stdout


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_works_where_nothing_hinders_it(attack: str, tmp_path: Path, port: int) -> None:
    if attack == "gives a file away" and os.geteuid():
        pytest.skip("only the superuser may")
    assert _tried(attack, (), tmp_path, port) == "it worked"


@pytest.mark.parametrize(("layer", "attack", "error"), KEPT_OFF)
def test_each_layer_alone_keeps_off_what_it_is_for(
    layer: str, attack: str, error: str, tmp_path: Path, port: int
) -> None:
    alone = (layer, NEEDED) if layer in LAYERS[-3:] else (layer,)
    # The superuser is exempt from that limit: somebody else is tried.
    before = "os.setuid(65534)" if layer == "no new processes" and not os.geteuid() else ""
    assert _tried(attack, alone, tmp_path, port, before) in error.split("|")


@pytest.mark.parametrize("attack", [name for name in ATTACKS if name != "takes half a gigabyte"])
def test_all_layers_together_leave_none_of_it(attack: str, tmp_path: Path, port: int) -> None:
    every = tuple(name for name in LAYERS if name != "no new processes" or os.geteuid())
    assert _tried(attack, every, tmp_path, port) in ("PermissionError", "OSError")
    assert [path.name for path in tmp_path.iterdir()] == ["patients"]


def test_a_child_says_which_layers_it_has() -> None:
    found = isolation()
    assert tuple(sorted(found)) == tuple(sorted(LAYERS))
    if sys.platform == "linux":  # what every Linux has
        assert {found[name] for name in ("memory limit", "writes no files", "no core dumps", NEEDED)} == {"on"}
    assert all(text == "on" or text.startswith("not on this platform") for text in found.values()), found


def test_a_layer_that_is_not_there_is_told_and_the_others_are_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "LAYERS", tuple(name for name in LAYERS if name != "few system calls"))
    found = isolation()
    assert found["few system calls"] == "not asked for"
    assert found["memory limit"] == "on"


def test_a_child_has_an_empty_folder_no_environment_and_three_pipes() -> None:
    from peerwise.models.worker import Worker

    with Worker() as worker:
        worker.isolation()
        place = Path(f"/proc/{worker.pid}")
        if not os.access(place / "environ", os.R_OK):
            pytest.skip("another user's process, as this kernel sees it")
        assert os.readlink(place / "cwd").endswith("(deleted)")
        given = {line.partition("=")[0] for line in (place / "environ").read_text().split("\0") if line}
        assert given <= {*process.ENVIRONMENT, *process.PASSED_ON}
        kinds = {os.readlink(path).partition(":")[0] for path in (place / "fd").iterdir()}
        assert kinds == {"pipe"}
        status = dict(line.split(":\t", 1) for line in (place / "status").read_text().splitlines() if ":\t" in line)
        assert (status["Threads"], status["NoNewPrivs"]) == ("1", "1")
