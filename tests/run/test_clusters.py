"""Workers of a Dask and of a Ray cluster, started on this machine as others would start them on theirs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import psutil
import pytest
import submitit

from peerwise import Method, OneShot, PeerwiseClassifier, simulate
from peerwise.errors import ConfigError, StorageError
from peerwise.methods.fedavg import FedAvg
from peerwise.run.workers import Workers, open_workers

pytestmark = pytest.mark.slow
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # a cluster does not know the tests

TASKS = 6


def total(place: int, rows: list[int], begun: Path, go_on: Path) -> tuple[int, int]:
    """The first task to come says where it is, and waits for leave to go on."""
    if place == 0:
        begun.with_suffix(".new").write_text(str(os.getpid()))
        begun.with_suffix(".new").rename(begun)
        until = time.monotonic() + 200
        while not go_on.exists():
            assert time.monotonic() < until
            time.sleep(0.05)
    return place, sum(rows)


def fails() -> None:
    raise StorageError("no room")


def work(workers: Workers, folder: Path, on_lost: Callable[[int], None]) -> list[Any]:
    """What runs on each cluster: the same whatever befalls its workers."""
    rows = workers.scatter(list(range(1000)))
    tasks = [(place, rows, folder / "begun", folder / "go on") for place in range(TASKS)]
    return [result for _, result in sorted(workers.map(total, tasks, on_lost))]


def check(executor: Any, folder: Path) -> None:
    """All of it works on the executor, also when a worker is killed in mid-run; an error comes back as itself."""
    with open_workers(workers=1) as workers:
        (folder / "go on").touch()
        expected = work(workers, folder, pytest.fail)
    for name in ("begun", "go on"):
        (folder / name).unlink()
    killer = subprocess.Popen([sys.executable, "-S", "-c", KILLER, folder / "begun", folder / "go on"])
    lost: list[int] = []
    try:
        with open_workers(executor) as workers:
            assert workers.workers == 2
            found = work(workers, folder, lost.append)
            with pytest.raises(StorageError, match="no room"):
                list(workers.map(fails, [()]))
    finally:
        killer.kill()
        killer.wait()
    assert found == expected
    assert lost.count(0) == 1


KILLER = """
import os, sys, time
begun, go_on = sys.argv[1:]
while not os.path.exists(begun):
    time.sleep(0.05)
os.kill(int(open(begun).read()), 9)
open(go_on, "w").close()
"""


@contextmanager
def running(*command: str, log: Path, folder: Path | None = None) -> Iterator[psutil.Process]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=folder, env=environment, stdout=file, stderr=subprocess.STDOUT
        )
    try:
        yield psutil.Process(process.pid)
    finally:
        started = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for child in psutil.wait_procs(started, timeout=10)[1]:
            child.kill()


@contextmanager
def dask_scheduler(folder: Path) -> Iterator[str]:
    file = folder / "scheduler.json"
    options = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
    with running("dask", "scheduler", *options, log=folder / "scheduler.log"):
        until = time.monotonic() + 200
        while not file.exists() or not file.read_text().strip():
            assert time.monotonic() < until, (folder / "scheduler.log").read_text()
            time.sleep(0.1)
        yield json.loads(file.read_text())["address"]


def test_a_dask_scheduler_and_two_workers(tmp_path: Path) -> None:
    with dask_scheduler(tmp_path) as address:
        options = (address, "--nthreads", "1", "--no-dashboard", "--local-directory", str(tmp_path))
        with (
            running("dask", "worker", *options, log=tmp_path / "one.log"),
            running("dask", "worker", *options, log=tmp_path / "two.log"),
        ):
            from distributed import Client

            with Client(address, timeout=200) as client:
                client.wait_for_workers(2, timeout=200)
                (tmp_path / "text").mkdir()
                check(f"dask:{address}", tmp_path / "text")
                client.wait_for_workers(2, timeout=200)
                (tmp_path / "executor").mkdir()
                check(client.get_executor(), tmp_path / "executor")


def test_a_simulation_on_dask_workers_that_see_nothing_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They work in folders of their own, in which the path of the run leads elsewhere."""
    monkeypatch.chdir(tmp_path)
    with dask_scheduler(tmp_path) as address, ExitStack() as stack:
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            options = (address, "--nthreads", "1", "--no-dashboard", "--local-directory", str(tmp_path / name))
            stack.enter_context(
                running("dask", "worker", *options, log=tmp_path / f"{name}.log", folder=tmp_path / name)
            )
        from distributed import Client

        with Client(address, timeout=200) as client:
            client.wait_for_workers(2, timeout=200)
        check_simulation(f"dask:{address}", tmp_path)


def test_a_dask_scheduler_without_workers_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peerwise.run.executors.WITHOUT_WORKERS", 2)
    with dask_scheduler(tmp_path) as address:
        words = f"'dask:{address}': this Dask scheduler has no workers. Start some with `dask worker {address}`"
        with pytest.raises(ConfigError, match=words), open_workers(f"dask:{address}"):
            pass


def test_a_ray_cluster_of_this_machine(tmp_path: Path) -> None:
    import ray

    ray.init(address="local", num_cpus=2, include_dashboard=False)
    try:
        check("ray:auto", tmp_path)
        assert ray.is_initialized(), "whoever began it ends it"
    finally:
        ray.shutdown()


def test_a_ray_cluster_that_lives_as_long_as_the_run() -> None:
    import ray

    with open_workers("ray:local", 2) as workers:
        rows = workers.scatter("abc")
        assert (workers.local, workers.workers) == (True, 2)
        assert sorted(workers.map(len, [(rows,), ("ab",)])) == [(0, 3), (1, 2)]
    assert not ray.is_initialized()


def test_a_simulation_on_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_simulation("ray:local", tmp_path, workers=2)


@pytest.mark.parametrize("kind", ["dask", "ray"])
def test_an_address_without_a_port_is_an_error(kind: str) -> None:
    with pytest.raises(ConfigError, match="expected an address with a port"), open_workers(f"{kind}:127.0.0.1"):
        pass


@pytest.mark.parametrize("kind", ["dask", "ray"])
def test_a_cluster_that_does_not_answer_is_an_error_at_once(kind: str) -> None:
    begun = time.monotonic()
    words = f"'{kind}:127.0.0.1:1': no .* answers there .* Start one"
    with pytest.raises(ConfigError, match=words), open_workers(f"{kind}:127.0.0.1:1"):
        pass
    assert time.monotonic() - begun < 60


class DiesOnce(Method):
    """Ends its worker in the first task of a round at one site, unless it has done so before."""

    died = ""

    def share(self, site: Any, round: int) -> Any:
        if (site.name, round) == ("site-1", self.rounds // 2) and not Path(self.died).exists():
            Path(self.died).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().share(site, round)


class DyingAverages(DiesOnce, FedAvg):
    def __init__(self, died: str = "", **budget: Any) -> None:
        super().__init__(**budget)
        self.died = died


class DyingPool(DiesOnce, OneShot):
    def __init__(self, died: str = "", folds: int = 5, epochs: int | None = None) -> None:
        super().__init__(PeerwiseClassifier(), folds, epochs)
        self.died = died


def check_simulation(executor: str, folder: Path, **more: Any) -> None:
    """A whole run with a worker killed in each method: the numbers are those of this process alone."""
    settings: dict[str, Any] = {
        "sites": 3, "rows": 300, "models": ["mlp"], "folds": 2, "epochs": 2, "seeds": 1, "training": {"rounds": 4},
        "methods": [DyingAverages(str(folder / "averages")), DyingPool(str(folder / "pool"))],
    }  # fmt: skip
    events: list[dict[str, Any]] = []
    run = simulate("digits", executor=executor, out="run", on_event=events.append, **settings, **more)
    assert "warning" not in {event["event"] for event in events}
    lost = {event["run"]: event["sites"] for event in events if event["event"] == "worker lost"}
    assert len(lost) == 2, "once in each method"
    assert ["site-1"] in lost.values()
    assert (folder / "run" / "results.parquet").exists()
    assert [path.name for path in folder.rglob("run")] == ["run"], "only the leader writes it"
    alone = simulate("digits", **settings)
    columns = [name for name in run.results if not name.startswith("seconds_")]
    assert run.results[columns].equals(alone.results[columns])
    for key, tree in alone.predictions.items():
        assert np.array_equal(run.predictions[key]["probabilities"], tree["probabilities"]), key
    again: list[dict[str, Any]] = []
    simulate("digits", executor=executor, out="run", on_event=again.append, **settings, **more)
    assert {event["event"] for event in again} == {"start", "method", "end"}, "nothing is done again"


def accuracy(out: Path, alpha: float) -> float:
    run = simulate(
        "digits", out=out, sites=2, rows=200, models=["logistic"], folds=2, seeds=1, methods="local",
        partition="dirichlet", partition_settings={"alpha": alpha},
    )  # fmt: skip
    return float(run.results["accuracy"].mean())


def test_a_grid_of_experiments_by_submitit(tmp_path: Path) -> None:
    """As on a SLURM cluster, where jobs are processes of other machines."""
    executor = submitit.LocalExecutor(tmp_path / "jobs")
    executor.update_parameters(timeout_min=10)
    alphas = [0.3, 100.0]
    jobs = [executor.submit(accuracy, tmp_path / str(alpha), alpha) for alpha in alphas]
    found = [job.result() for job in jobs]
    assert found == [accuracy(tmp_path / f"here {alpha}", alpha) for alpha in alphas]
    assert all((tmp_path / str(alpha) / "results.parquet").exists() for alpha in alphas)
