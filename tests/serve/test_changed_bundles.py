"""A saved learner that somebody changed is refused in a sentence when it is opened, and never answers wrongly."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from serve_processes import save_learner
from sklearn.linear_model import LogisticRegression

from peerwise import PeerwiseClassifier
from peerwise.errors import BadOutputs, PeerwiseError
from peerwise.parcels import Store
from peerwise.serve.cells import Columns
from peerwise.serve.opening import open_desk
from peerwise.serve.refusal import Refusal
from peerwise.trust.prediction_sets import PredictionSets

Tree = dict[str, Any]
CALIBRATION = {"probabilities": np.tile([0.7, 0.3], (30, 1)), "y": np.arange(30) % 2, "answers": np.zeros(30, np.int64),
               "by_class": False}  # fmt: skip


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    folder = tmp_path_factory.mktemp("saved")
    save_learner(folder)
    return Store(folder).load("bundle") | {"calibration": CALIBRATION}


def in_model(key: str, value: Any) -> Callable[[Tree], None]:
    return lambda tree: tree["models"][3].update({key: value})


def calibrated(**items: Any) -> Callable[[Tree], None]:
    return lambda tree: tree.update(calibration={**CALIBRATION, **items})


def with_(**items: Any) -> Callable[[Tree], None]:
    return lambda tree: tree.update(items)


CHANGES: dict[str, Callable[[Tree], None]] = {
    "scores of an earlier version": with_(calibration=np.array([0.1, 0.9])),
    "calibration as text": with_(calibration="0.1 0.2"),
    "calibration that is neither kind": calibrated(by_class="no"),
    "calibration without labels": with_(calibration={"probabilities": np.zeros((0, 2)), "by_class": False}),
    "calibration with answers that are no class": calibrated(answers=np.full(30, 2)),
    "calibration probabilities of no numbers": calibrated(probabilities=np.full((30, 2), np.nan)),
    "calibration probabilities above one": calibrated(probabilities=np.tile([7.0, -6.0], (30, 1))),
    "calibration probabilities that do not sum to one": calibrated(probabilities=np.full((30, 2), 0.9)),
    "calibration of another class": calibrated(probabilities=np.full((30, 3), 1 / 3)),
    "calibration with a label less": calibrated(y=np.zeros(29, np.int64)),
    "calibration with an unknown label": calibrated(y=np.full(30, 2)),
    "calibration labels that are fractions": calibrated(y=np.full(30, 0.5)),
    "a name twice": with_(names=["m0", "m0", "m2", "m3"]),
    "names that are numbers": with_(names=[0, 1, 2, 3]),
    "too few names": with_(names=["m0"]),
    "own of no model": with_(own=[-1]),
    "own by name": with_(own=["m0"]),
    "a class twice": with_(classes=[1, 1]),
    "a class too many": with_(classes=[0, 1, 2]),
    "no classes": with_(classes=None),
    "another kind of outputs": with_(kind="votes"),
    "too few models": lambda tree: tree["models"].pop(),
    "no list of models": with_(models="m0"),
    "a model with unknown classes": in_model("classes", [0, 7]),
    "a model with too few classes": in_model("classes", [1]),
    "a model with a class twice": in_model("classes", [1, 1]),
    "a model that is text": in_model("file", "onnx"),
    "a model that is no ONNX": in_model("file", b"onnx"),
    "rows of another width": with_(row_shape=[6]),
    "rows of a thousand million values": with_(row_shape=[10**9]),
    "columns that are none": with_(columns=[{"name": "a"}]),
    "columns of an unknown type": with_(columns=[{"name": f"x{at}", "type": "x", "values": None} for at in range(5)]),
    "nothing learned": with_(fitted=None),
    "less learned": lambda tree: tree["fitted"]["linear"].update(weights=np.zeros((1, 1))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_bundle_that_was_changed_is_refused(change: str, saved: Tree, tmp_path: Path) -> None:
    tree = copy.deepcopy(saved)
    CHANGES[change](tree)
    Store(tmp_path).save("bundle", tree)
    with pytest.raises(PeerwiseError) as told:
        open_desk(tmp_path).close()
    assert "\n" not in str(told.value)


def test_what_was_not_changed_is_served(saved: Tree, tmp_path: Path) -> None:
    Store(tmp_path).save("bundle", saved)
    desk = open_desk(tmp_path)
    assert desk.about.calibration_rows == 30
    desk.close()


@pytest.mark.parametrize("by_class", [False, True])
def test_calibration_as_fit_makes_it_is_kept(by_class: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    said = rng.dirichlet([1, 1, 1], 50).astype(np.float32)
    said[0] = (1.0, 0.0, 0.0)
    made = PredictionSets.fit(said, rng.integers(0, 3, 50), by_class=by_class)
    Store(tmp_path).save("sets", made.to_tree())
    kept = PredictionSets.from_tree(Store(tmp_path).load("sets"), 3)
    assert kept.kind == made.kind
    np.testing.assert_array_equal(kept(said, 0.8), made(said, 0.8))


def test_no_calibration_rows_are_kept_as_none(tmp_path: Path) -> None:
    Store(tmp_path).save("sets", PredictionSets.uncalibrated(3).to_tree())
    assert PredictionSets.from_tree(Store(tmp_path).load("sets"), 3).rows == 0


def test_columns_of_whole_numbers_take_neither_gaps_nor_fractions(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(20, 80, 200), "visits": rng.integers(0, 9, 200)})
    y = (frame.age + rng.normal(0, 10, 200) > 50).to_numpy()
    pool = {name: LogisticRegression().fit(frame[at : at + 50], y[at : at + 50]) for name, at in (("a", 0), ("b", 50))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        PeerwiseClassifier(pool, own=["a"]).fit(frame[100:], y[100:]).save(tmp_path)
    desk = open_desk(tmp_path)
    try:
        assert len(desk.answer(np.array([[50, 3]], np.float32)).probabilities) == 1
        for odd, told in ((np.nan, "a gap"), (50.7, "50.7"), (1e30, "1e\\+30")):
            with pytest.raises(BadOutputs, match=f"age has {told}: expected a whole number"):
                desk.answer(np.array([[odd, 3]], np.float32))
    finally:
        desk.close()


def test_lines_that_end_as_on_old_macs_are_counted_before_they_are_read(saved: Tree, tmp_path: Path) -> None:
    Store(tmp_path).save("bundle", saved)
    desk = open_desk(tmp_path)
    desk.close()
    with pytest.raises(Refusal, match="about 2,000,002 cells"):
        Columns.of(desk.about).from_csv(b"x0\r" + b"1\r" * 2_000_000, 10)
