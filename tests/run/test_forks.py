"""Workers forked from the leading process itself, where it has one thread: what a user's program notices of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from peerwise import simulate
from peerwise.environment import ARROW_ALONE, ONE_THREAD

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere the stem forks the workers")
# Buffered, or nothing could be written twice.
ALONE = {k: v for k, v in {**os.environ, **ONE_THREAD, **ARROW_ALONE}.items() if k != "PYTHONUNBUFFERED"}
SETTINGS: dict[str, Any] = {
    "sites": 3,
    "rows": 300,
    "models": ["mlp"],
    "seeds": 1,
    "methods": ["fedavg"],
    "training": {"rounds": 8},
}


def run(script: str, *arguments: object) -> tuple[list[str], Any]:
    """What a script writes in a process with one thread: lines, and in the last of them its findings."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, env=ALONE, capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stderr) == (0, "")
    *lines, last = done.stdout.splitlines()
    return lines, json.loads(last)


CREW = """
import gc, json, os, signal, socket, subprocess, sys, tempfile, threading, time
from pathlib import Path
import psutil, torch
from peerwise.run.crew import spread

class Mine(Exception):
    def __init__(self, one, two):
        super().__init__(one, two)

def fails():
    raise Mine(1, 2)

def files():
    return [str(one.readlink()) for one in Path("/proc/self/fd").iterdir() if int(one.name) > 2 and one.is_symlink()]

def told_to_end(number):
    if number:
        os.kill(os.getpid(), number)
    time.sleep(0.5)
    return "still there"

def prints(what):
    print("worker", what)
    return threading.active_count(), len(os.listdir("/proc/self/task"))

def ask(function, *arguments):
    return [result for _, result in sorted(spread(function, [arguments] * 2, 2))]

def own_memory():
    return psutil.Process().memory_full_info().uss / 2**20

signal.signal(signal.SIGTERM, lambda *_: None)
kept_open = open(os.path.join(tempfile.mkdtemp(), "log"), "w")
kept_open.write("half a line")
print("unwritten", end=" ")
found = {"me": os.getpid(), "parents": ask(os.getppid), "printing": ask(prints, "says")}
print("so far")
found["files"] = ask(files)
found["ended"] = ask(told_to_end, signal.SIGTERM)
found["ctrl_c"] = ask(told_to_end, signal.SIGINT)
found["exit_code"] = ask(subprocess.call, [sys.executable, "-S", "-c", "raise SystemExit(3)"])
found["environment"] = ask(os.getenv, "OMP_NUM_THREADS")
found["memory"] = ask(own_memory)
try:
    ask(fails)
except Mine as error:
    found["caught"] = error.args
try:
    ask(threading.Lock().acquire)
except TypeError as error:
    found["refused"] = str(error)
found["left"] = [child.status() for child in psutil.Process().children()]
found["handler"] = signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
found["when_ignored"] = ask(subprocess.call, [sys.executable, "-S", "-c", "raise SystemExit(4)"])
found["collects"] = gc.isenabled(), gc.get_freeze_count()
kept_open.close()
found["log"] = open(kept_open.name).read()
print(json.dumps(found))
"""


def test_a_program_with_one_thread_forks_its_workers_and_they_leave_it_as_it_was() -> None:
    lines, found = run(CREW)
    assert set(found["parents"]) == {found["me"]}, "there is no stem"
    assert lines == ["unwritten worker says", "worker says", "so far"], "nothing is written twice"
    for files in found["files"]:
        assert [file for file in files if "socket" in file][1:] == [], "its own connection"
        assert not [file for file in files if file.endswith("/log")]
    assert found["ended"] == ["lost"] * 2, "the program's handler is not for workers"
    assert found["ctrl_c"] == ["still there"] * 2, "it is for the leader alone"
    assert (found["exit_code"], found["when_ignored"]) == ([3, 3], [4, 4]), "also where the program ignores such ends"
    assert found["environment"] == ["1", "1"]
    assert max(found["memory"]) < 60
    assert found["caught"] == [1, 2], "an error class of the script comes back as itself"
    assert "lock" in found["refused"]
    assert found["left"] == []
    assert (found["handler"], found["collects"], found["log"]) == (True, [True, 0], "half a line")


FEDERATION = """
import json, os, signal, sys, threading
import psutil
from peerwise import simulate

settings, me, stay = json.loads(sys.argv[1]), psutil.Process(), threading.Event()

def watched(workers, kill=False):
    seen = {"memory": 0, "lost": 0}

    def watch(event):
        seen["lost"] += event["event"] == "worker lost"
        if event["event"] != "round":
            return
        tree = [me, *me.children(recursive=True)]
        seen["stem"] = any(one.cmdline() != me.cmdline() for one in tree)
        seen["processes"] = len(tree)
        seen["memory"] = max(seen["memory"], sum(one.memory_full_info().pss for one in tree) / 2**20)
        if kill and event["round"] == 3:
            me.children()[0].kill()

    results = simulate("digits", workers=workers, on_event=watch, **settings).results
    seen["zombies"] = sum(one.status() == psutil.STATUS_ZOMBIE for one in me.children())
    return results[[name for name in results if not name.startswith("seconds")]], seen

one, alone = watched(1)
forks, forked = watched(2)
killed, after_kill = watched(2, kill=True)
threading.Thread(target=stay.wait, daemon=True).start()
stems, by_stem = watched(2)
stay.set()
equal = [one.equals(other) for other in (forks, killed, stems)]
print(json.dumps({"equal": equal, "forked": forked, "killed": after_kill, "by_stem": by_stem, "rows": len(one)}))
"""


@pytest.mark.slow
def test_forked_workers_give_the_same_numbers_as_the_stem_and_as_no_workers_in_less_memory() -> None:
    _, found = run(FEDERATION, json.dumps(SETTINGS))
    forked, killed, by_stem = found["forked"], found["killed"], found["by_stem"]
    assert found["equal"] == [True] * 3
    assert found["rows"] == 3
    assert (forked["stem"], forked["processes"], forked["lost"]) == (False, 3, 0)
    assert (killed["stem"], killed["processes"], killed["lost"]) == (False, 3, 1), "another worker takes its place"
    assert (by_stem["stem"], by_stem["processes"]) == (True, 4), "with another thread it is not safe to fork"
    assert forked["zombies"] == killed["zombies"] == 0
    assert forked["memory"] < by_stem["memory"] - 60


LEADING = """
import json, sys
from pathlib import Path
from peerwise import simulate
def watch(event):
    if event["event"] == "round" and event["round"] == 2:
        Path(sys.argv[3]).touch()
simulate("digits", workers=2, out=sys.argv[2], on_event=watch, **json.loads(sys.argv[1]))
"""


def test_killed_it_leaves_no_process_behind_and_its_folder_is_free(tmp_path: Path) -> None:
    many = {**SETTINGS, "training": {"rounds": 20}}
    begun = tmp_path / "begun"
    command = [sys.executable, "-c", LEADING, json.dumps(many), tmp_path / "run", begun]
    process = subprocess.Popen(command, env=ALONE)
    until = time.monotonic() + 100
    while not begun.exists():
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.03)
    workers = psutil.Process(process.pid).children(recursive=True)
    assert len(workers) == 2
    process.send_signal(signal.SIGKILL)
    process.wait()
    left = psutil.wait_procs(workers, timeout=5)[1]
    for worker in left:
        worker.kill()
    assert left == []
    rounds: list[int] = []

    def watch(event: dict[str, Any]) -> None:
        rounds.extend([event["round"]] if event["event"] == "round" else [])

    results = simulate("digits", out=tmp_path / "run", on_event=watch, **many).results
    assert (len(results), rounds[0] > 2, rounds[-1]) == (3, True, 19)


def test_the_command_has_one_thread_and_forks_its_workers_also_with_a_bar_on_a_terminal(tmp_path: Path) -> None:
    free = {k: v for k, v in os.environ.items() if k not in {**ONE_THREAD, **ARROW_ALONE}}
    options = ["--sites", "3", "--rows", "300", "--models", "mlp", "--seeds", "1", "--methods", "fedavg"]
    command = [sys.executable, "-m", "peerwise", "simulate", "digits", *options, "--rounds", "8", "--workers", "2"]
    here, there = os.openpty()
    process = subprocess.Popen([*command, "--out", tmp_path], env=free, stdout=subprocess.DEVNULL, stderr=there)
    os.close(there)
    shown: list[bytes] = []
    reader = threading.Thread(target=_drain, args=(here, shown))
    reader.start()
    leader, commands, threads = psutil.Process(process.pid), set(), 0
    while process.poll() is None:
        try:
            threads = max(threads, leader.num_threads())
            commands |= {" ".join(child.cmdline()) for child in leader.children()}
        except psutil.NoSuchProcess:
            break
        time.sleep(0.03)
    assert process.wait() == 0
    reader.join(20)
    os.close(here)
    text = b"".join(shown).decode()
    assert threads == 1
    commands = {one for one in commands if one and not one.startswith("git ")}  # which is asked for the commit
    assert [" simulate digits " in one for one in commands] == [True], "copies of the command, no stem"
    assert "4/8" in text
    assert "8/8" in text


def _drain(terminal: int, shown: list[bytes]) -> None:
    try:
        while part := os.read(terminal, 4096):
            shown.append(part)
    except OSError:  # the other end was closed
        pass
