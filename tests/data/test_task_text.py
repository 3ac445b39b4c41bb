"""The text that all members agree on: strict to read, the same for the same content."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from peerwise.data import Feature, load
from peerwise.data.task import METRICS, PublicRows, Task, TaskFeature, task_from
from peerwise.data.task.values import MISSING
from peerwise.errors import ConfigError
from peerwise.metrics import scores

PLAIN: dict[str, Any] = {
    "format": 1,
    "name": "sepsis",
    "kind": "table",
    "classes": ["survived", "died"],
    "positive": "died",
    "target": "outcome",
    "metric": "auroc",
    "features": [
        {"name": "age", "type": "number", "unit": "years", "low": 0, "high": 120},
        {"name": "sex", "type": "category", "values": ["female", "male"]},
    ],
    "public": {"name": "mimic-open", "sha256": "0" * 64, "rows": 200},
}


def changed(**changes: Any) -> str:
    """The plain task with these keys changed; None leaves one out."""
    return tomli_w.dumps({key: value for key, value in (PLAIN | changes).items() if value is not None})


def feature(**changes: Any) -> str:
    return changed(features=[PLAIN["features"][0] | changes])


def test_a_task_says_what_was_agreed_on() -> None:
    task = Task.read(changed())
    assert task.columns == (Feature("age"), Feature("sex", ("female", "male")))
    assert task.inputs == {"x": (2,)}
    assert task.ranges == {"age": [0.0, 120.0]}
    assert task.positive_code == 1
    assert task.public == PublicRows("mimic-open", "0" * 64, 200)
    assert Task.read(task.text()) == task
    assert Task.read(task.text()).text() == task.text()


def test_comments_spaces_and_the_order_of_keys_do_not_change_the_digest_and_anything_else_does() -> None:
    task = Task.read(changed())
    shuffled = tomli_w.dumps(dict(reversed(PLAIN.items())))
    assert Task.read("# agreed in spring\n\n" + shuffled.replace(" = ", "   =  ")).digest == task.digest
    assert Task.read(changed().replace("120", "120.0")).digest == task.digest
    others = [
        changed(name="Sepsis"),
        changed(classes=["died", "survived"]),
        changed(positive="survived"),
        changed(metric="auprc"),
        changed(public=None),
        changed(features=PLAIN["features"][::-1]),
        feature(unit="months"),
        feature(high=121),
        changed(features=PLAIN["features"][:1]),
    ]
    assert len({Task.read(text).digest for text in others} | {task.digest}) == len(others) + 1


def test_the_digest_of_a_text_never_changes() -> None:
    """It is the name of a federation: a new version of Peerwise must find the same one."""
    assert Task.read(changed()).digest == "b50e8a2f7d1364bec73740f5aba686ce87ae4a15cb39a795c0bdec2b5ffff46a"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (changed(format=2), "format 2: this version of Peerwise reads format 1 only"),
        (changed(format=None), "format None: this version"),
        (changed(format=True), "format True: this version"),
        (changed(format="1"), "format '1': this version"),
        (changed(colour="red"), "unknown key 'colour'"),
        (changed(classses=["a"]), "did you mean 'classes'"),
        (changed(classes=None), "the task lacks classes"),
        (changed(name=""), "name has 0 characters"),
        (changed(name="x" * 201), "name has 201 characters"),
        (changed(name="a\nb"), "no line breaks"),
        (changed(name=" a"), "no space at its ends"),
        (changed(name=3), "name is 3: expected a text"),
        (changed(kind="graph"), "unknown kind 'graph'"),
        (changed(classes=["died"], positive="died"), "classes has 1 entries: expected 2"),
        (changed(classes=["died", "died"]), "classes has 'died' twice"),
        (changed(classes=["died", "NA"]), "'NA', which stands for a missing value"),
        (changed(classes="died"), "classes is 'died': expected a list"),
        (changed(classes=["died", 1]), "classes, entry 2 is 1: expected a text"),
        (changed(positive="dead"), "did you mean 'died'"),
        (changed(positive=None), "positive is not given"),
        (changed(metric="acc"), "unknown metric 'acc'"),
        (changed(target="age"), "target and features has 'age' twice"),
        (changed(features=None), "features has 0 entries"),
        (changed(features={"age": 1}), "expected [[features]]"),
        (changed(features=[3]), "feature 1 is 3: expected a table"),
        (changed(features=[PLAIN["features"][0]] * 2), "'age' twice"),
        (changed(features=[{"name": f"f{i}", "type": "number"} for i in range(10_001)]), "10,001 entries"),
        (changed(shape={"x": [1, 2, 3]}), "shape is given for a table"),
        (feature(type="text"), "feature 'age': unknown type 'text'"),
        (feature(colour="red"), "feature 1: unknown key 'colour'"),
        (feature(low=130), "goes from 130 to 120"),
        (feature(low=120), "goes from 120 to 120"),
        (feature(low=float("-inf")), "low is -inf: expected a finite number"),
        (feature(high=float("nan")), "high is nan: expected a finite number"),
        (feature(high=1e39), "high is 1e+39"),
        (feature(high="120"), "high is '120': expected a finite number"),
        (feature(high=True), "high is True: expected a finite number"),
        (feature(values=["a"]), "is a number: expected no values"),
        (feature(values=[]), "is a number: expected no values"),
        (feature(unit=3), "unit is 3: expected a text"),
        (feature(type="category"), "values has 0 entries"),
        (changed(features=[{"name": "s", "type": "category", "values": ["a"], "unit": "m"}]), "expected no unit"),
        (changed(features=[{"name": "s", "type": "category", "values": ["a", "a"]}]), "'a' twice"),
        (changed(public={"name": "p", "sha256": "A" * 64, "rows": 3}), "expected 64 characters of 0-9 and a-f"),
        (changed(public={"name": "p", "sha256": "0" * 64, "rows": 0}), "rows is 0: expected a whole number from 1"),
        (changed(public={"name": "p", "sha256": "0" * 64}), "public lacks rows"),
        (changed(public={"name": "p", "sha256": "0" * 64, "rows": 3, "url": "x"}), "unknown key 'url'"),
        (changed(public=3), "public is 3: expected a table"),
        (changed(kind="image"), "features are given for kind 'image'"),
        (changed(kind="image", features=None), "shape lacks x"),
        (changed(kind="image", features=None, shape=3), "shape is 3: expected a table"),
        (changed(kind="image", features=None, shape={"x": [28, 28]}), "expected [channels, height, width]"),
        (changed(kind="image", features=None, shape={"x": [1, 0, 28]}), "height is 0"),
        (changed(kind="image", features=None, shape={"x": [3, 10_000, 10_000]}), "at most 16,000,000 numbers"),
        (changed(kind="sequence", features=None, shape={"series": [48, 7]}), "shape lacks static"),
        ("format = 1\nformat = 1\n", "no TOML"),
        ("format = 1\nname = '" + "x" * 4_000_000 + "'", "expected at most 4,000,000"),
        ("format = 1\nx = " + "[" * 5_000, "no TOML"),
        ("format = 1\nx = " + "9" * 5_000, "no TOML"),
        ("", "format None"),
    ],
)
def test_a_text_that_is_not_as_agreed_is_refused_with_the_reason(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        Task.read(text)


def test_the_metrics_are_those_that_are_computed() -> None:
    assert set(METRICS) == set(scores(np.array([0, 1]), np.eye(2)))


# ---- any task at all -----------------------------------------------------------------------------------------------

NAMES = (
    st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=12)
    .filter(str.isprintable)
    .filter(lambda text: text not in MISSING)
)
LIMITS = st.floats(-1e30, 1e30, allow_nan=False)


def distinct(least: int, most: int) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(NAMES, min_size=least, max_size=most, unique=True).map(tuple)


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    names = draw(distinct(2, 6))
    features = []
    for name in names[1:]:
        if draw(st.booleans()):
            features.append(TaskFeature(name, "category", values=draw(distinct(1, 4))))
        else:
            low, high = sorted(draw(st.lists(LIMITS, min_size=2, max_size=2, unique_by=float)))
            ends = draw(st.sampled_from([(low, high), (low, None), (None, high), (None, None)]))
            features.append(TaskFeature(name, "number", draw(st.just("") | NAMES), *ends))
    kind = draw(st.sampled_from(["table", "image", "sequence"]))
    sizes = st.integers(1, 50)
    shape: dict[str, tuple[int, ...]] = {}
    if kind == "image":
        shape = {"x": (draw(sizes), draw(sizes), draw(sizes))}
    elif kind == "sequence":
        shape = {"static": (draw(sizes),), "series": (draw(sizes), draw(sizes))}
    classes = draw(distinct(2, 5))
    return Task(
        name=draw(NAMES),
        kind=kind,  # type: ignore[arg-type]
        classes=classes,
        target=names[0],
        features=tuple(features) if kind == "table" else (),
        positive=draw(st.sampled_from(classes)),
        metric=draw(st.sampled_from(METRICS)),
        shape=shape,
        public=draw(st.none() | st.builds(PublicRows, NAMES, st.just("ab" * 32), st.integers(1, 10**8))),
    )


@settings(deadline=None, max_examples=150)
@given(tasks())
def test_what_is_written_is_read_again(task: Task) -> None:
    again = Task.read(task.text())
    assert again == task
    assert again.text() == task.text()
    assert again.digest == task.digest


@settings(deadline=None, max_examples=150)
@given(st.text(max_size=200) | st.text("[]{}=\"'#.,\n 01aformatnamekindclasses", max_size=200))
def test_whatever_is_written_is_a_task_or_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        Task.read("format = 1\n" + text)


# ---- a draft from rows ---------------------------------------------------------------------------------------------


def test_a_draft_fits_the_rows_and_publishes_nobodys_exact_value() -> None:
    heart = load("heart_disease")
    task = task_from(heart, positive="disease", metric="auroc")
    assert task.columns == heart.features
    assert Task.read(task.text()) == task
    X = np.asarray(heart.X)
    for place, feature in enumerate(task.features):
        if feature.type == "number":
            low, high = np.nanmin(X[:, place]), np.nanmax(X[:, place])
            assert feature.unit == ""
            assert feature.low is not None
            assert feature.high is not None
            assert feature.high > high
            assert feature.low < low or feature.low == low == 0
    age = task.features[0]
    assert (age.low, age.high) == (0.0, 110.0)  # of 28 to 77


@pytest.mark.parametrize("column", [[3e38, -3e38], [5.0, 5.0], [0.0, 0.0], [1e-30, 2e-30], [-7.0, -6.5], [np.nan] * 2])
def test_a_draft_of_odd_columns_is_a_task(column: list[float]) -> None:
    from peerwise.data.task.made import around

    low, high = around(np.array(column, dtype=np.float32))
    feature = TaskFeature("f", "number", "", low, high)
    if low is not None and high is not None:
        assert low <= min(column)
        assert max(column) <= high
        assert feature.low == low
