"""The report as one HTML file: drawn, readable without a network or a script, on paper, in light and dark.

`page_of` draws a story, `comparison_page` shows the tables of two runs held against each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from peerwise.report.page.markup import table, text
from peerwise.report.sheets import Sheet
from peerwise.report.story import Story

__all__ = ["comparison_page", "page_of"]


def page_of(story: Story) -> str:
    """The whole page. The same story gives the same bytes."""
    from peerwise.report.page.canvas import shared_styles  # matplotlib is slow to load
    from peerwise.report.page.scene import Scene
    from peerwise.report.page.sections import SECTIONS

    scene = Scene(story)
    body = "".join(section.html(scene) for section in SECTIONS)
    places = [(section.key, section.heading) for section in SECTIONS]
    body, rules = shared_styles(body)
    return _page(story.title, story.headline, places, body, rules)


def comparison_page(title: str, headline: str, sheets: Sequence[Sheet]) -> str:
    """A page of tables."""
    places = [(f"table-{place}", sheet.title) for place, sheet in enumerate(sheets)]
    body = "".join(
        f'<section id="{key}"><h2>{text(heading)}</h2>{table(sheet, heading=False)}</section>'
        for (key, heading), sheet in zip(places, sheets, strict=True)
    )
    return _page(title, headline, places, body, "")


def _page(title: str, headline: str, places: Sequence[tuple[str, str]], body: str, rules: str) -> str:
    style = files(__package__).joinpath("page.css").read_text(encoding="utf-8") + rules
    contents = "".join(f'<li><a href="#{key}">{text(heading)}</a></li>' for key, heading in places)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8" />'
        '<meta name="viewport" content="width=device-width, initial-scale=1" />'
        '<meta name="color-scheme" content="light dark" />'
        f"<title>{text(title)}</title><style>{style}</style></head><body>"
        f'<header><h1>{text(title)}</h1><p class="headline">{text(headline)}</p>'
        f'<nav aria-label="Contents"><ol>{contents}</ol></nav></header><main>{body}</main>'
        "<footer>Written by Peerwise. This file needs no network and no script.</footer></body></html>\n"
    )
