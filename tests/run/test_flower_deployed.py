"""Flower for real: a hub and three sites as processes on loopback, with TLS and keys; and its simulation with Ray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from flower_deployment import Deployment, commands, free_port

from peerwise.federation import answer
from peerwise.models import one_thread
from peerwise.parcels import read_tree
from peerwise.run import run_method
from peerwise.run.flower.settings import FlowerSettings
from peerwise.run.simulate import federation

SITES = ("site-0", "site-1", "site-2")


def answers_in_process(settings: FlowerSettings) -> dict[str, Any]:
    data = settings.experiment.load_data()
    sites, method = federation(settings.experiment.filled(data), data, settings.seed), settings.make()
    run_method(method, sites)
    with one_thread():
        return {site.name: answer(method, site, site.test.X) for site in sites}


def same(out: Path, settings: FlowerSettings) -> None:
    found, expected = read_tree(out / "answers.tree"), answers_in_process(settings)
    assert sorted(found) == sorted(expected)
    for name in expected:
        assert np.array_equal(found[name]["probabilities"], expected[name]), name


def started(deployment: Deployment) -> None:
    """The hub and three sites, as the page says it."""
    deployment.do(commands("mkdir -p certs"))
    deployment.start(commands("flower-superlink --host"), "hub")
    deployment.wait_for(deployment.listens, "the hub listens")
    for place, site in enumerate(SITES):
        here = {"SITE": site, "NODE": f"partition-id={place}", "NODE_PORT": str(free_port())}
        deployment.do(commands("ssh-keygen"), **here)
        deployment.do(commands("flwr supernode register"), **here)
        deployment.start(commands("flower-supernode"), site, **here)


@pytest.mark.slow
def test_a_hub_and_three_sites_answer_as_one_process_does(tmp_path: Path) -> None:
    with Deployment(tmp_path) as deployment:
        started(deployment)
        deployment.do(commands("peerwise flower app --method peerwise"))
        deployment.do(commands("flwr run app ours --stream --run-config"))
        assert [run["status"] for run in deployment.runs()] == ["finished:completed"] * 2, deployment.logs()
        ours = [process.pid for one in deployment.started for process in psutil.Process(one.pid).children(True)]
    research = {"dataset": "heart_disease", "partition": "dirichlet", "sites": 3, "models": "mlp"}
    research |= {"folds": 2, "epochs": 5}
    same(tmp_path / "results", FlowerSettings(method="peerwise", research=research, nodes=3))
    proto = {"rounds": 2, "lr": 0.1}
    same(tmp_path / "proto", FlowerSettings(method="fedproto", settings=proto, research=research, nodes=3))
    assert not [pid for pid in ours if psutil.pid_exists(pid)], "nothing is left running"


@pytest.mark.slow
def test_a_simulation_with_ray_answers_as_one_process_does(tmp_path: Path) -> None:
    with Deployment(tmp_path) as deployment:
        (tmp_path / "flower").mkdir()
        deployment.start(commands("flower-superlink --simulation"), "hub")
        deployment.wait_for(deployment.listens, "the hub listens")
        deployment.do(commands("printf '[superlink]"))
        assert [run["status"] for run in deployment.runs()] == ["finished:completed"], deployment.logs()
    research = {"dataset": "heart_disease", "models": "mlp"}
    same(tmp_path / "results", FlowerSettings(method="fedproto", settings={"rounds": 2}, research=research, nodes=4))
