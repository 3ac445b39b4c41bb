"""Every shipped method with rounds gives the same in the runtime of simulations as in memory, also after kills."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peerwise import simulate
from peerwise.checks.method import awkward_sites
from peerwise.federation import RUN, answer
from peerwise.methods import Method, make_method, method_names
from peerwise.methods.registry import has_budget
from peerwise.models import one_thread
from peerwise.run import RunFolder, run_method
from peerwise.run.participation import Participation
from peerwise.run.runner import MethodRun
from peerwise.run.workers import open_workers

HERE = Path(__file__).parent
NAMES = [name for name in method_names() if has_budget(name) and name != "centralised_rounds"]
AWAY = Participation(join=0.6, absent={"full": [0]}, seed=3)
KILLED: dict[str, Any] = {
    "sites": 3, "rows": 200, "models": ["mlp"], "seeds": 1, "partition": "quantity", "public": 20,
    "methods": "fedmosaic", "training": {"rounds": 3, "lr": 0.1}, "join": 0.6, "absent": {"site-1": [1]},
}  # fmt: skip
LIVES = f"""
import os, random, signal, sys
from crashing import die_after
from peerwise import simulate
import peerwise.methods.fedmosaic
chance, lives = random.Random(0), 0
while True:
    lives += 1
    writes = chance.randint(12, 24)
    if not (child := os.fork()):
        try:
            die_after(writes)
            simulate("digits", out=sys.argv[1], **{KILLED!r})
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), status
    if not status:
        break
print(lives)
"""


def small(name: str) -> Method:
    return make_method(name, {"rounds": 3, "lr": 0.1}, folds=5, epochs=None)


def test_the_shipped_methods_with_rounds_are_tried() -> None:
    assert {"fedavg", "scaffold", "ditto", "fedproto", "fedmosaic", "fedct", "local_rounds"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_runtime_gives_what_memory_gives(name: str, tmp_path: Path) -> None:
    sites, folder = awkward_sites(("mlp",)), RunFolder(tmp_path)
    run_method(small(name), sites, participation=AWAY)
    with open_workers() as workers:
        run = MethodRun(name, small(name), awkward_sites(("mlp",)), folder, workers, lambda event: None, AWAY)
        predictions = run.finish()
    for site in sites:
        kept, record = predictions[site.name], site.state[RUN]
        with one_thread():
            expected = answer(small(name), site, site.test.X)
        assert np.array_equal(kept["probabilities"], expected), site.name
        for key in ("sent", "received", "took_part"):
            assert kept[key] == record[key], (site.name, key)
        assert kept["best_round"] == record.get("best_round"), site.name
    assert 0 not in predictions["full"]["took_part"]


@pytest.mark.slow
def test_fedmosaic_killed_in_the_midst_again_and_again_comes_to_the_same(tmp_path: Path) -> None:
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", LIVES, tmp_path / "killed"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True)
    assert int(done.stdout) > 2, "it was killed often enough"
    undisturbed = simulate("digits", **KILLED)
    resumed = simulate("digits", out=tmp_path / "killed", **KILLED)
    for key, expected in undisturbed.predictions.items():
        found = resumed.predictions[key]
        assert np.array_equal(found["probabilities"], expected["probabilities"]), key
        for what in ("sent", "received", "took_part", "curves", "best_round", "privacy", "fell_back"):
            assert found[what] == expected[what], (key, what)
