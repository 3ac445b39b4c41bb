"""The page stays small with many sites, and safe and legible with any names."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from made_runs import HOSTILE, made_story

from peerwise.report.page import page_of
from peerwise.report.page.markup import plain

TEN = ["local", *(f"method-{place}" for place in range(9))]


@pytest.mark.slow
def test_twenty_sites_ten_methods_three_seeds_and_a_hundred_rounds_stay_well_under_a_megabyte() -> None:
    classes = [f"class {place}" for place in range(10)]
    groups = ["a", "b", "c", "d"]
    page = page_of(made_story(20, TEN, seeds=3, classes=classes, rounds=100, subgroups=groups))
    assert len(page.encode()) < 800_000


def test_hostile_names_are_shown_and_do_nothing() -> None:
    story = made_story(HOSTILE, ["local", *HOSTILE[:4]], classes=HOSTILE[:3], rounds=5, subgroups=HOSTILE[:4])
    page = page_of(story)
    found = ElementTree.fromstring(page)
    assert "<script" not in page
    assert "<b>" not in page
    tags = {str(element.tag).split("}")[-1] for element in found.iter()}
    assert not tags & {"script", "b", "iframe"}
    assert not any(key.startswith("on") for element in found.iter() for key in element.attrib)
    shown = "".join(found.itertext())
    assert all(plain(name) in shown for name in HOSTILE)
    assert "\u202e" not in page
    assert "\x00" not in page


def test_a_name_that_looks_like_a_colour_or_an_id_stays_as_it_is() -> None:
    name = '#010101 id="a"'
    page = page_of(made_story([name, "b"]))
    texts = re.findall(r"<text [^>]*>([^<]*)</text>", page)
    assert name in texts


def test_long_names_that_differ_in_the_middle_have_labels_that_differ() -> None:
    from peerwise.report.page.scene import short_names

    names = short_names([f"hospital of {word} at the river" for word in ("east", "west", "north")])
    assert len(set(names.values())) == 3
    assert all(len(name) <= 15 for name in names.values())
