"""The page in a real browser (Debian's chromium): it fits a phone, turns dark, and prints light.

Skipped only where there is no chromium: install it, e.g. ``apt-get install chromium``.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_runs import HOSTILE, made_story

from peerwise.report.page import page_of

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")

PAPER = "getComputedStyle(document.body).backgroundColor"
WIDTH = "document.documentElement.scrollWidth"
SPILT = """() => [...document.querySelectorAll('main *')].filter(e => {
  const r = e.getBoundingClientRect();
  return r.width && r.right > innerWidth + 1 && !e.closest('.table') && !e.closest('.unseen');
}).map(e => e.outerHTML.slice(0, 80))"""
CUT = """() => [...document.querySelectorAll('svg text')].filter(e => {
  const r = e.getBoundingClientRect();
  return r.width && (r.left < 0 || r.right > innerWidth);
}).map(e => e.textContent)"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    ten = [f"class {place}" for place in range(10)]
    stories = {
        "hospitals": made_story(subgroups=["female", "male"], rounds=9),
        "twenty": made_story(20, ["local", "peerwise", "fedavg", "stacking", "fedmosaic"], classes=ten, rounds=9),
        "hostile": made_story(HOSTILE, ["local", *HOSTILE], classes=HOSTILE[:3], rounds=5, subgroups=HOSTILE[:4]),
    }
    for name, story in stories.items():
        (folder / f"{name}.html").write_text(page_of(story), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in stories}


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("name", ["hospitals", "twenty", "hostile"])
def test_nothing_spills_over_the_edge(browser: Any, pages: dict[str, Path], name: str, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(pages[name].as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate(WIDTH) <= width
    assert page.evaluate(SPILT) == []
    assert page.evaluate(CUT) == []
    assert asked == [pages[name].as_uri()]
    page.close()


def test_letters_in_charts_are_large_enough_on_a_phone(browser: Any, pages: dict[str, Path]) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(pages["hospitals"].as_uri())
    sizes = page.evaluate(
        """() => [...document.querySelectorAll('.chart text')].filter(e => e.getBoundingClientRect().width).map(e =>
           parseFloat(getComputedStyle(e).fontSize) * e.ownerSVGElement.getBoundingClientRect().width
           / e.ownerSVGElement.viewBox.baseVal.width)"""
    )
    assert min(sizes) >= 8
    page.close()


def test_it_is_dark_where_the_reader_wants_it_and_light_on_paper(browser: Any, pages: dict[str, Path]) -> None:
    page = browser.new_page(color_scheme="light")
    page.goto(pages["hospitals"].as_uri())
    light = page.evaluate(PAPER)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(PAPER)
    page.emulate_media(color_scheme="dark", media="print")
    printed = page.evaluate(PAPER)
    assert _brightness(light) > 240
    assert _brightness(dark) < 40
    assert _brightness(printed) > 240
    page.close()


def test_it_prints_on_pages_of_paper(browser: Any, pages: dict[str, Path]) -> None:
    page = browser.new_page()
    page.goto(pages["twenty"].as_uri())
    paper = page.pdf(format="A4")
    assert paper.startswith(b"%PDF")
    assert 4 <= paper.count(b"/Type /Page\n") <= 40
    page.close()


def _brightness(colour: str) -> float:
    parts = [float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    return sum(parts) / 3
