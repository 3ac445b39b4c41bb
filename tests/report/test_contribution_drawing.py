"""The picture of a contribution graph is well-formed, complete and safe to show."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerwise.evaluate.contribution import graph_from_scores
from peerwise.report.contribution_drawing import HEIGHT, MOST_ARROWS, MOST_LABELS, WIDTH, contribution_svg

SVG = "{http://www.w3.org/2000/svg}"


def drawn(sites: int, seed: int = 0) -> ElementTree.Element:
    values = np.random.default_rng(seed).dirichlet(np.full(sites, 0.5), size=sites)
    names = [f"s{place}" for place in range(sites)]
    rows = {name: dict(zip(names, map(float, row), strict=True)) for name, row in zip(names, values, strict=True)}
    return ElementTree.fromstring(contribution_svg(graph_from_scores(rows), "All sites"))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 40), st.integers(0, 100))
def test_every_site_is_there_with_its_name_within_the_picture(sites: int, seed: int) -> None:
    picture = drawn(sites, seed) if sites else ElementTree.fromstring(contribution_svg(graph_from_scores({})))
    texts = [text.text for text in picture.iter(f"{SVG}text")]
    assert all(f"s{place}" in texts for place in range(sites))
    for circle in picture.iter(f"{SVG}circle"):
        x, y, r = (float(circle.get(key, "nan")) for key in ("cx", "cy", "r"))
        assert r <= x <= WIDTH - r
        assert r <= y <= HEIGHT - r
    assert "nan" not in ElementTree.tostring(picture, encoding="unicode")


def test_a_stronger_arrow_is_wider_and_only_the_strongest_have_numbers() -> None:
    picture = drawn(20)
    arrows = [group for group in picture.iter(f"{SVG}g") if group.get("opacity")]
    assert len(arrows) == MOST_ARROWS
    owed = [float((group.findtext(f"{SVG}title") or "").split(" owes ")[1].split(" %")[0]) for group in arrows]
    widths = [float(group.findall(f"{SVG}path")[0].get("stroke-width", "0")) for group in arrows]
    assert owed == sorted(owed)
    assert widths == sorted(widths)
    assert len([t for t in picture.iter(f"{SVG}text") if t.get("class") == "number"]) <= MOST_LABELS


def test_a_site_that_owes_all_to_itself_has_a_full_ring_and_a_quiet_one_a_dashed_ring() -> None:
    svg = contribution_svg(graph_from_scores({"a": {"a": 1.0}}, ["b"]))
    rings = [circle for circle in ElementTree.fromstring(svg).iter(f"{SVG}circle") if circle.get("stroke-dasharray")]
    (full,) = rings
    on, off = map(float, str(full.get("stroke-dasharray")).split())
    assert on == pytest.approx(off)
    assert svg.count('class="quiet"') == 1


def test_names_cannot_break_out_of_the_picture() -> None:
    name = "<script>alert(1)</script>&\"'"
    svg = contribution_svg(graph_from_scores({name: {"b": 1.0}}), title=name)
    picture = ElementTree.fromstring(svg)
    assert not list(picture.iter(f"{SVG}script"))
    assert name in [title.text for title in picture.findall(f"{SVG}title")]


def test_long_names_are_cut_but_told_in_full() -> None:
    name = "the hospital at the far end of the long valley"
    picture = ElementTree.fromstring(contribution_svg(graph_from_scores({name: {name: 1.0}})))
    shown = [text.text or "" for text in picture.iter(f"{SVG}text")]
    assert name not in shown
    assert any(text.startswith("the hospital") and text.endswith("…") for text in shown)
    assert any(name in (title.text or "") for title in picture.iter(f"{SVG}title"))
