"""Images and sequences as real sites: from an .npz file to answers, as in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from peer_sites import QUICK, Sites, admitted

from peerwise.data.task import Task, read_inputs
from peerwise.errors import ConfigError, PeerwiseError
from peerwise.federation import answer
from peerwise.models import one_thread
from peerwise.models.worker import Worker
from peerwise.run import run_method
from peerwise.run.peer import fit, found, join, method_of, predict, task_for, train

SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "image": {"x": (1, 28, 28)},
    "sequence": {"static": (2,), "series": (12, 3)},
}
MODELS = {"image": "lenet5", "sequence": "cnn1d"}
NAMES = ("north", "south")


def arrays(kind: str, name: str, rows: int = 48) -> dict[str, np.ndarray[Any, Any]]:
    rng, y = np.random.default_rng([*name.encode()]), np.arange(rows) % 2
    if kind == "image":
        X = rng.integers(0, 150, (rows, 1, 28, 28)).astype(np.uint8)
        X[y == 1, :, :14] += 60
        return {"X": X, "y": y}
    series = rng.normal(size=(rows, 12, 3)) + 0.5 * y[:, None, None]
    return {"static": rng.normal(size=(rows, 2)), "series": series, "y": y}


def federation(kind: str, root: Path) -> Sites:
    """Two sites that have published and need not be asked."""
    task = Task(kind, kind, ("calm", "storm"), "y", positive="storm", shape=SHAPES[kind])  # type: ignore[arg-type]
    sites = Sites(root, NAMES)
    meeting = {"folder": str(root / "meeting")}
    given = {**QUICK, "models": [MODELS[kind]], "ask": "never", "meeting": meeting}
    for name in NAMES:
        np.savez(root / f"{name}.npz", **arrays(kind, name))
    told = found(root / "north", {**given, "data": "../north.npz"}, task)
    invite = root / "north" / "invite.json"
    admitted(sites, join(root / "south", {**given, "data": "../south.npz"}, invite, told["fingerprint"]))
    return sites


@pytest.mark.parametrize("kind", SHAPES)
def test_sites_of_every_kind_of_rows_answer_as_in_one_process(kind: str, tmp_path: Path, worker: Worker) -> None:
    sites = federation(kind, tmp_path)
    for name in NAMES:
        assert train(sites[name])["rows"]["train"] > 20
        sites.publish(name)
    assert sites.pull("north", worker)["peers"]["south"]["models"] == [MODELS[kind]]
    assert set(fit(sites["north"], worker, use_peers=True)["peers"]) == {"south"}
    expected = [sites[name].site() for name in NAMES]
    run_method(method_of(sites["north"]), expected)
    task = sites["north"].task
    with one_thread():
        same = answer(method_of(sites["north"]), expected[0], read_inputs(task, tmp_path / "south.npz").X)
    said = predict(sites["north"], tmp_path / "south.npz", worker, explain=2)
    assert np.array_equal(said.probabilities, same)
    assert [sum(trust.values()) for trust in said.trust] == pytest.approx([1, 1])
    other = {name: value[..., :-1] if value.ndim > 2 else value for name, value in arrays(kind, "south").items()}
    np.savez(tmp_path / "other.npz", **other)
    with pytest.raises(PeerwiseError, match="does not fit the task"):
        predict(sites["north"], tmp_path / "other.npz", worker)


def test_a_task_for_arrays_is_not_guessed(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", **arrays("image", "north"))
    with pytest.raises(ConfigError, match="expected --task"):
        task_for(tmp_path / "rows.npz", "y", drop=[], name="y", positive=None, metric="accuracy")


def test_models_for_other_rows_than_the_tasks_are_refused(tmp_path: Path) -> None:
    sites = federation("sequence", tmp_path)
    sites.change("north", models=["logistic"])
    with pytest.raises(ConfigError, match="'logistic' takes table rows, the task has sequence rows"):
        train(sites["north"])
