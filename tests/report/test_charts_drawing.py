"""Charts leave matplotlib as they found it, and labels keep clear of each other."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import matplotlib as mpl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import made_story

from peerwise.report.page.canvas import Canvas, picture, shared_styles
from peerwise.report.page.cost import place_labels
from peerwise.report.page.curves import spaced
from peerwise.report.page.trust import matrix


def test_drawing_changes_no_setting_of_matplotlib() -> None:
    before = dict(mpl.rcParams)
    with pytest.raises(ZeroDivisionError):
        picture("a", 100, 100, lambda canvas: 1 / 0)  # type: ignore[arg-type, return-value]
    assert dict(mpl.rcParams) == before


def test_a_picture_is_text_and_shapes_with_the_colours_of_the_page() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.axes(10, 10, 10, 10).plot([0, 1], [0, 1], marker="o", color="#060601")
        canvas.title("a $b$ <c>")

    svg = picture("key", 200, 100, draw)
    assert "a $b$ &lt;c&gt;" in svg
    assert "var(--series-1)" in svg
    assert "<metadata" not in svg
    assert "font-family" not in svg
    assert 'id="key-0"' in svg


def test_a_style_is_written_once_for_the_whole_page() -> None:
    page, rules = shared_styles('<path style="fill:red" d="M0"/><use style="fill:red"/><p style="fill:red">x</p>')
    assert rules == ".d0{fill:red}"
    assert page == '<path class="d0" d="M0"/><use class="d0"/><p style="fill:red">x</p>'


@given(st.lists(st.floats(0, 300), max_size=12))
def test_names_at_the_ends_of_lines_keep_their_distance(wanted: list[float]) -> None:
    placed = spaced(sorted(wanted), 13.0, 0.0, 300.0)
    assert all(later - earlier >= 13 - 1e-6 for earlier, later in pairwise(placed))
    assert all(-1e-6 <= height <= 300 + 1e-6 for height in placed)


@given(st.lists(st.tuples(st.floats(60, 300), st.floats(60, 240)), min_size=1, max_size=8))
def test_names_beside_points_do_not_cover_each_other(points: list[tuple[float, float]]) -> None:
    names = [f"method-{place}" for place in range(len(points))]
    boxes = [label.box for label in place_labels(points, names, 340, 300)]
    for place, a in enumerate(boxes):
        for b in boxes[:place]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


def test_a_row_of_the_matrix_is_the_asking_site_and_sums_to_one() -> None:
    from peerwise.evaluate.contribution import contribution_graph

    story = made_story(5)
    values = matrix(contribution_graph(story.run, "peerwise", 0))
    assert values.sum(axis=1).tolist() == pytest.approx([1] * 5)
    trust = story.run.predictions[0, "peerwise", "site-02"]["details"]["trust"]
    assert values.loc["site-02"].tolist() == pytest.approx(trust.mean(axis=0).tolist())


def test_matplotlib_is_loaded_only_when_a_page_is_drawn() -> None:
    code = "import sys, peerwise.report, peerwise.report.page; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
