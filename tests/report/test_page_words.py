"""The page of a run can be read in order, by ear, without a network, and with nothing but a text reader."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from made_runs import made_story

from peerwise import simulate
from peerwise.evaluate import assess
from peerwise.report.page import comparison_page, page_of
from peerwise.report.sheets import Cell, Column, Sheet
from peerwise.report.story import Story, story_of

ORDER = ["methods", "gain", "cost", "trust", "selection", "calibration", "subgroups", "decision", "curves", "split",
         "provenance"]  # fmt: skip


@pytest.fixture(scope="module")
def hospitals() -> Story:
    methods = ["local", "peerwise", "stacking", "global_ensemble"]
    run = simulate("heart_disease", models=["logistic"], methods=methods, seeds=1, subgroup="sex")
    return story_of(run, assess(run, classes=run.classes))


def read(page: str) -> ElementTree.Element:
    return ElementTree.fromstring(page)


def words(element: ElementTree.Element | None) -> str:
    return "" if element is None else " ".join("".join(element.itertext()).split())


def test_the_sentence_comes_first_then_every_part_in_its_order(hospitals: Story) -> None:
    page = read(page_of(hospitals))
    assert words(page.find(".//p[@class='headline']")) == hospitals.headline
    assert [section.get("id") for section in page.iter("section")] == ORDER
    first = page.find(".//section[@id='methods']")
    assert first is not None
    assert words(first.find(".//tbody")).startswith("own")


def test_the_contents_lead_to_every_part_and_headings_skip_no_level(hospitals: Story) -> None:
    page = read(page_of(hospitals))
    nav = page.find(".//nav")
    assert nav is not None
    assert [link.get("href") for link in nav.iter("a")] == [f"#{key}" for key in ORDER]
    levels = [int(each.tag[1]) for each in page.iter() if re.fullmatch("h[1-6]", str(each.tag))]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in pairwise(levels))


def test_every_chart_says_in_words_what_it_shows_and_has_its_numbers(hospitals: Story) -> None:
    figures = list(read(page_of(hospitals)).iter("figure"))
    assert len(figures) >= 8
    for figure in figures:
        drawn = figure.find(".//div[@role='img']")
        assert drawn is not None
        assert len(drawn.get("aria-label", "").split()) > 4
        assert drawn.get("aria-label") == words(figure.find("p[@class='finding']"))
        assert len(words(figure.find("figcaption")).split()) > 10
        assert figure.find("details//tbody/tr") is not None
        assert all(svg.get("aria-hidden") == "true" for svg in figure.iter("{http://www.w3.org/2000/svg}svg"))


def test_nothing_is_fetched_and_nothing_runs(hospitals: Story) -> None:
    page = page_of(hospitals)
    for element in read(page).iter():
        assert not str(element.tag).endswith(("script", "link", "iframe", "object"))
        for key, value in element.attrib.items():
            assert not key.startswith("on")
            if key in {"href", "src"}:
                assert value.startswith(("#", "data:image/png;base64,"))
    style = page[page.index("<style>") : page.index("</style>")]
    assert "http" not in style
    assert "@import" not in style
    assert "url(" not in style


def test_ids_are_used_once_and_every_reference_finds_its_own(hospitals: Story) -> None:
    page = page_of(hospitals)
    ids = [element.get("id") for element in read(page).iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', page))
    assert used <= set(ids)


def test_colours_are_those_of_the_page_so_that_dark_and_print_can_change_them(hospitals: Story) -> None:
    page = page_of(hospitals)
    charts = "".join(re.findall(r'<svg [^>]*aria-hidden="true">.*?</svg>', page, flags=re.DOTALL))
    owed = page[page.index('<figure class="owes">') :].split("</figure>")[0]
    assert not re.search(r"#[0-9a-f]{6}", charts.replace(owed[owed.index("<svg") : owed.index("</svg>")], ""))
    assert "@media screen and (prefers-color-scheme:dark)" in page
    assert "@media print" in page


def test_the_best_and_the_worst_are_marked_by_more_than_colour(hospitals: Story) -> None:
    page = read(page_of(hospitals))
    best = [words(cell) for cell in page.iter("td") if "best" in cell.get("class", "").split()]
    assert best
    assert all("▲" in text and "(best)" in text for text in best)


def test_the_same_story_gives_the_same_bytes(hospitals: Story) -> None:
    assert page_of(hospitals) == page_of(hospitals)


def test_a_run_without_rounds_or_subgroups_says_so_in_one_line() -> None:
    page = read(page_of(made_story(rounds=0)))
    assert words(page.find(".//section[@id='curves']/p")).startswith("No method of this run takes more than two rounds")
    assert words(page.find(".//section[@id='subgroups']/p")).startswith("No subgroup was named")


def test_rounds_have_learning_curves_and_lambda_a_chart_of_its_own() -> None:
    section = read(page_of(made_story(rounds=12))).find(".//section[@id='curves']")
    assert section is not None
    captions = [words(caption) for caption in section.iter("figcaption")]
    assert len(captions) == 2
    assert captions[1].startswith("lambda")


@pytest.mark.parametrize(
    "story",
    [
        made_story(sites=1),
        made_story(methods=["local"]),
        made_story(methods=["a", "peerwise"], sites=2),
        made_story(sites=3, seeds=2, subgroups=["f", "m"]),
        made_story(sites=1, is_site=True, peers=["north", "south"]),
        made_story(sites=9, classes=[f"class {place}" for place in range(30)]),
    ],
    ids=["one site", "own models only", "no own method", "two seeds", "a real site", "many classes"],
)
def test_small_and_odd_runs_have_a_page_too(story: Story) -> None:
    page = read(page_of(story))
    assert [section.get("id") for section in page.iter("section")] == ORDER
    assert "nan" not in words(page).lower().split()


def test_two_runs_held_against_each_other_are_a_page_of_tables() -> None:
    sheet = Sheet("versus", "A <against> B", "paired", (Column("site", "site"), Column("a", "a", "%")),
                  ((Cell("x&y"), Cell("1.0", 1.0, "best")),))  # fmt: skip
    page = read(comparison_page("A & B", "A won.", [sheet]))
    assert words(page.find(".//h1")) == "A & B"
    assert words(page.find(".//h2")) == "A <against> B"
    assert words(page.find(".//tbody")).startswith("x&y")
