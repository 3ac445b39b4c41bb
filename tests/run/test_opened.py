"""One decision opened: the case is chosen by the rule that the report tells, and everything fits what was answered."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from peerwise.data import Sequences
from peerwise.data.rows import Feature
from peerwise.run import Run, simulate
from peerwise.run.opened import explanation_of, rows_in_turn, shown_case


@pytest.fixture(scope="module")
def run() -> Run:
    return simulate(
        "heart_disease",
        models=["logistic", "forest"],
        folds=2,
        methods=["local", "global_ensemble", "peerwise"],
        seeds=1,
    )


def test_the_first_row_whose_answer_was_changed_is_opened(run: Run) -> None:
    opened = run.opened
    assert opened is not None
    assert (opened["method"], opened["seed"], opened["part"]) == ("peerwise", 0, "test")
    for (_, method, site), tree in run.predictions.items():
        if method == "peerwise":
            changed = tree["probabilities"].argmax(axis=1) != tree["details"]["own"].argmax(axis=1)
            if changed.any():
                assert (site, int(changed.argmax())) == (opened["site"], opened["row"])
                break
    assert "the first test row, site by site, whose answer the method changed" in opened["rule"]


def test_what_is_shown_is_what_was_answered(run: Run) -> None:
    opened: dict[str, Any] = run.opened or {}
    tree = run.predictions[0, "peerwise", opened["site"]]
    row = opened["row"]
    said = [opened["probabilities"][name] for name in run.classes]
    assert np.allclose(said, tree["probabilities"][row], atol=1e-6)
    assert opened["answer"] == run.classes[int(tree["probabilities"][row].argmax())]
    assert opened["own"] == run.classes[int(tree["details"]["own"][row].argmax())] != opened["answer"]
    assert opened["truth"] == run.classes[tree["y"][row]]
    assert opened["right"] == (opened["truth"] == opened["answer"])
    trust = dict(zip(tree["details"]["models"], tree["details"]["trust"][row], strict=True))
    assert {say["name"] for say in opened["models"]} == set(trust)
    assert all(abs(say["trust"] - trust[say["name"]]) < 1e-6 for say in opened["models"])
    assert sum(case["weight"] for case in opened["neighbours"]) == pytest.approx(1, abs=0.1)
    assert set(opened["values"]) == set(run.features)
    assert str(explanation_of(opened)).startswith(f"answer: {opened['answer']} (p = ")


def test_a_run_without_a_method_that_can_explain_opens_nothing() -> None:
    run = simulate("digits", sites=2, rows=200, models=["logistic"], methods=["local", "best_single"], seeds=1)
    assert run.opened is None


def test_rows_come_site_by_site_those_that_changed_first() -> None:
    answers = {"a": (np.array([0, 1]), np.array([0, 1])), "b": (np.array([1, 0, 1]), np.array([1, 1, 0]))}
    assert list(rows_in_turn(answers)) == [("b", 1), ("b", 2), ("a", 0), ("a", 1), ("b", 0)]


def test_values_of_a_table_are_told_by_name() -> None:
    features = [Feature("age"), Feature("sex", ("female", "male")), Feature("chol")]
    case = shown_case(np.array([[63.0, 1.0, np.nan]], np.float32), features)
    assert case == {"values": {"age": "63", "sex": "male", "chol": "missing"}, "image": None}


@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_can_be_shown(channels: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (1, channels, 9, 7), dtype=np.uint8)
    shown = shown_case(pixels, ())["image"]
    picture = np.asarray(Image.open(io.BytesIO(base64.b64decode(shown))))
    assert np.array_equal(picture, pixels[0, 0] if channels == 1 else np.moveaxis(pixels[0], 0, 2))


def test_what_is_no_picture_is_not_made_one() -> None:
    assert shown_case(np.zeros((1, 2, 4, 4), np.uint8), ())["image"] is None
    series = Sequences(np.zeros((1, 2), np.float32), np.zeros((1, 48, 5), np.float32))
    assert shown_case(series, ())["values"] == {"static 0": "0", "static 1": "0", "series": "48 steps of 5 values"}
