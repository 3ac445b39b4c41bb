"""A run that is killed, stopped, or out of room at any moment, and run again: the same results, nothing done twice."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest
from crashing import OFFERED, SETTINGS

from peerwise import Run, simulate
from peerwise.errors import ConfigError, ModelError, PeerwiseError
from peerwise.parcels import write_atomic
from peerwise.run import RunFolder

HERE = Path(__file__).parent
COMMAND = [
    sys.executable, "-m", "peerwise", "simulate", "digits", "--sites", "4", "--rows", "300", "--models", "mlp,logistic",
    "--folds", "2", "--epochs", "12", "--seeds", "1", "--methods", "local,best_single", "--workers", "2",
]  # fmt: skip
SAME: dict[str, Any] = {
    "sites": 4, "rows": 300, "models": ["mlp", "logistic"], "folds": 2, "epochs": 12, "seeds": 1,
    "methods": ["local", "best_single"],
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run that nobody disturbs, with one worker."""
    return simulate("digits", out=tmp_path_factory.mktemp("whole"), **SAME)


def events(folder: Path) -> list[dict[str, Any]]:
    path = folder / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def same_as(whole: Run, folder: Path) -> None:
    """To the last bit: the results (but the seconds), and every site's answers."""
    found = pd.read_parquet(folder / "results.parquet")
    columns = [name for name in found if not name.startswith("seconds_")]
    assert whole.folder is not None
    expected = pd.read_parquet(whole.folder / "results.parquet")
    pd.testing.assert_frame_equal(found[columns], expected[columns], check_exact=True)
    for (seed, method, site), tree in whole.predictions.items():
        kept = RunFolder(folder).load_predictions(f"{method}-s{seed}")
        assert kept is not None
        assert np.array_equal(kept[site]["probabilities"], tree["probabilities"])


def nothing_twice(whole: Run, folder: Path) -> None:
    """Work is logged after it is kept: logged twice, it was done again; what was in flight when it was killed is logged
    once or not at all. And no half-written file stays behind."""
    assert whole.folder is not None
    logged = Counter(event["key"] for event in events(folder) if event["event"] == "worked")
    assert set(logged.values()) == {1}
    assert sorted(p.name for p in (folder / "kept").iterdir()) == sorted(
        p.name for p in (whole.folder / "kept").iterdir()
    )
    assert list(folder.rglob("*.unfinished")) == []


@pytest.mark.parametrize(
    "methods",
    [
        "local,mean",
        *(pytest.param(m, marks=pytest.mark.slow) for m in ("best_single,peerwise", "to_share,to_learn,to_answer")),
    ],
)
def test_dying_in_the_midst_of_any_write_changes_nothing(tmp_path: Path, methods: str, offer: Any) -> None:
    for name, where in OFFERED.items():
        offer(name, where)
    command = [sys.executable, HERE / "crashing.py", tmp_path / "killed", methods, "0"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert int(done.stdout) > 5, "it was killed often enough"
    undisturbed = simulate("digits", out=tmp_path / "whole", **SETTINGS, methods=methods)
    same_as(undisturbed, tmp_path / "killed")
    nothing_twice(undisturbed, tmp_path / "killed")
    assert done.stderr == ""


def begin(folder: Path, event: str, count: int = 1) -> subprocess.Popen[str]:
    """Start the command in a process group of its own, and wait until it says so many times that this happened."""
    before = Counter(each["event"] for each in events(folder))[event]
    process = subprocess.Popen(
        [*COMMAND, "--out", str(folder)], start_new_session=True, stdout=-1, stderr=-1, text=True
    )
    until = time.monotonic() + 120
    while Counter(each["event"] for each in _told(folder))[event] < before + count and process.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.02)
    return process


def _told(folder: Path) -> list[dict[str, Any]]:
    """Events while they are written: a last line may be half there."""
    path = folder / "events.jsonl"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]


def processes_of(group: int) -> list[str]:
    command = ["ps", "-ww", "-o", "pid=", "-o", "args=", "-g", str(group)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.splitlines()


def workers_of(leader: psutil.Process) -> list[psutil.Process]:
    """Its own children, or those of a fork server."""
    ours = [one for one in leader.children(recursive=True) if "resource_tracker" not in " ".join(one.cmdline())]
    return [one for one in ours if not one.children()]


def all_gone(group: int) -> bool:
    until = time.monotonic() + 20
    while processes_of(group) and time.monotonic() < until:
        time.sleep(0.1)
    return not processes_of(group)


def finished(folder: Path) -> None:
    done = subprocess.run([*COMMAND, "--out", str(folder), "-q"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_killed_with_its_workers_at_many_moments_it_goes_on_to_the_same_results(tmp_path: Path, whole: Run) -> None:
    """In base training, in folds, in learning; at last, while answering, only the main process, so that the workers
    have to notice."""
    for event, count in [("worked", 3), ("shared", 5), ("absorbed", 1)]:
        process = begin(tmp_path, event, count)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL, event
    process = begin(tmp_path, "predicted")
    process.kill()
    process.wait()
    assert all_gone(process.pid), "workers ended with the run that had started them"
    process.communicate()
    finished(tmp_path)
    same_as(whole, tmp_path)
    nothing_twice(whole, tmp_path)


@pytest.mark.slow
def test_ctrl_c_ends_all_processes_and_says_how_to_go_on(tmp_path: Path, whole: Run) -> None:
    for event, count in [("method", 1), ("shared", 6)]:
        process = begin(tmp_path, event, count)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert out == ""
        assert "Traceback" not in err
        said = [line for line in err.splitlines() if line and not line.startswith("seed ")]
        assert said == ["stopped. Run the same command again to go on where it stopped."]
        assert all_gone(process.pid)
    finished(tmp_path)
    same_as(whole, tmp_path)
    nothing_twice(whole, tmp_path)


@pytest.mark.slow
def test_a_worker_that_is_killed_is_replaced_and_its_site_done_again(tmp_path: Path, whole: Run) -> None:
    process = begin(tmp_path, "worked", 2)
    workers = workers_of(psutil.Process(process.pid))
    assert len(workers) == 2
    workers[0].kill()
    process.communicate(timeout=200)
    assert process.returncode == 0
    same_as(whole, tmp_path)
    nothing_twice(whole, tmp_path)
    assert Counter(event["event"] for event in events(tmp_path))["worker lost"] == 1


DYING = """
import sys
from peerwise import simulate
from peerwise.errors import PeerwiseError
out, folder = sys.argv[1:]
try:
    simulate("digits", out=out, workers=2, sites=3, rows=240, models=["logistic"], seeds=1, folds=2,
             methods="failing_methods:Dies", method={"failing_methods:Dies": {"folder": folder}})
except PeerwiseError as error:
    sys.stdout.write(str(error))
"""


KILLED = """
import sys
from peerwise import simulate
out, folder, step, last = sys.argv[1:]
simulate("digits", out=out, sites=3, rows=240, models=["logistic"], seeds=1, folds=2,
         methods="failing_methods:KilledAfterwards",
         method={"failing_methods:KilledAfterwards": {"folder": folder, "step": step, "last": last}})
"""


def killed_among_failures(tmp_path: Path, step: str, last: str) -> dict[str, Any]:
    """Run until it kills itself at the last site, where two have failed before; what to run again with."""
    (tmp_path / "tried").mkdir()
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", KILLED, tmp_path / "run", tmp_path / "tried", step, last]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    settings = {"folder": str(tmp_path / "tried"), "step": step, "last": last}
    return {"out": tmp_path / "run", "sites": 3, "rows": 240, "models": ["logistic"], "seeds": 1, "folds": 2,
            "methods": "failing_methods:KilledAfterwards",
            "method": {"failing_methods:KilledAfterwards": settings}}  # fmt: skip


def tries(folder: Path) -> dict[str, int]:
    return dict(Counter(path.name.split(".")[0] for path in (folder / "tried").iterdir()))


@pytest.mark.parametrize("step", ["share", "absorb", "predict"])
def test_what_failed_before_the_kill_fails_again_and_then_for_good(tmp_path: Path, step: str) -> None:
    settings = killed_among_failures(tmp_path, step, "well")
    for _ in range(2):
        run = simulate("digits", **settings)
        assert tries(tmp_path) == {"site-0": 2, "site-1": 2, "site-2": 2}, "all since the last checkpoint"
    failed = run.results.set_index("site")["fell_back_why"].to_dict()
    luck = f"{step}: ArithmeticError: bad luck at"
    assert failed == {"site-0": f"{luck} site-0", "site-1": f"{luck} site-1", "site-2": ""}


@pytest.mark.parametrize("step", ["share", "predict"])
def test_where_all_fail_after_the_kill_the_run_stops_and_they_try_again_when_it_goes_on(
    tmp_path: Path, offer: Any, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    settings = killed_among_failures(tmp_path, step, "fails")
    for times in (2, 3):
        with pytest.raises(ModelError, match=f"{step} failed at every site still at work.*bad luck at site-0"):
            simulate("digits", **settings)
        assert tries(tmp_path) == {"site-0": times, "site-1": times, "site-2": times}
    monkeypatch.setenv("MENDED", "yes")
    run = simulate("digits", **settings)
    assert run.results["fell_back_to"].tolist() == [""] * 3


@pytest.mark.slow
def test_a_site_that_ends_its_workers_again_and_again_is_named_and_the_others_are_done(tmp_path: Path) -> None:
    (tmp_path / "deaths").mkdir()
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", DYING, tmp_path / "run", tmp_path / "deaths"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=True, capture_output=True, text=True)
    assert done.stdout.startswith("site 'site-1': its worker process was ended from outside, 3 times in a row.")
    assert 3 <= len(list((tmp_path / "deaths").iterdir())) <= 9
    shared = {event["site"] for event in events(tmp_path / "run") if event["event"] == "shared"}
    assert "site-0" in shared


LIMITED = """
import resource, sys
from peerwise import simulate
from peerwise.errors import StorageError
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    simulate("digits", out=sys.argv[1], workers=int(sys.argv[3]), sites=4, rows=300, models=["mlp", "logistic"],
             folds=2, epochs=12, seeds=1, methods=["local", "best_single"])
except StorageError as error:
    sys.stdout.write(str(error))
"""


def out_of_room(folder: Path, limit: int, workers: int) -> str:
    command = [sys.executable, "-c", LIMITED, folder, str(limit), str(workers)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_without_room_for_a_file_it_stops_with_one_sentence_and_goes_on_when_there_is(
    tmp_path: Path, whole: Run, workers: int
) -> None:
    said = out_of_room(tmp_path, 20_000, workers)
    assert workers > 1 or said.startswith("site 'site-")  # what workers made, the leader writes
    assert "cannot be written (File too large): expected room for" in said
    assert "Free some space" in said
    assert "\n" not in said
    assert list(tmp_path.rglob("*.unfinished")) == []
    simulate("digits", out=tmp_path, **SAME)
    same_as(whole, tmp_path)
    nothing_twice(whole, tmp_path)


def test_without_room_for_the_log_it_stops_and_the_half_line_is_mended(tmp_path: Path) -> None:
    settings = {**SETTINGS, "methods": "local"}
    simulate("digits", out=tmp_path, **settings)
    (tmp_path / "results.parquet").unlink()
    log = tmp_path / "events.jsonl"
    log.write_bytes(log.read_bytes() + b'{"event": "end", "res')
    lines = len(log.read_text().splitlines()) - 1
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = log.stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        with pytest.raises(
            PeerwiseError, match=r"events.jsonl cannot be written \(no room for the whole line\): free some"
        ):
            simulate("digits", out=tmp_path, **settings)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    simulate("digits", out=tmp_path, **settings)
    assert len(events(tmp_path)) == lines + 3
    assert (tmp_path / "results.parquet").is_file()


def test_a_folder_serves_one_run_at_a_time(tmp_path: Path) -> None:
    settings = {**SETTINGS, "methods": "local"}
    run = simulate("digits", out=tmp_path, **settings)
    rows = (tmp_path / ".pool").read_text().split(" ", 1)[1]
    before = events(tmp_path)
    with (
        RunFolder(tmp_path).open(run.experiment, rows),
        pytest.raises(ConfigError, match=r"is in use by another run: expected one at a time.*--out"),
    ):
        simulate("digits", out=tmp_path, **settings)
    assert events(tmp_path) == before
    simulate("digits", out=tmp_path, **settings)


def test_what_others_keep_in_the_folder_stays_there(tmp_path: Path) -> None:
    write_atomic(tmp_path / "notes" / ".hidden", b"mine")
    (tmp_path / f".{'0' * 32}.unfinished").touch()
    simulate("digits", out=tmp_path, **SETTINGS, methods="local")
    assert (tmp_path / "notes" / ".hidden").read_bytes() == b"mine"
    assert not (tmp_path / f".{'0' * 32}.unfinished").exists()
