"""HTML from words and tables. Every name and value is other people's text: nothing gets in but through `text`.

The page is well-formed XML too, so that any tool can read it.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from peerwise.report.sheets import Cell, Column, Sheet

LONG = 40  # signs of a text that is broken anywhere
MARKS = {"best": "▲", "worst": "▼"}


@dataclass(frozen=True)
class Chart:
    """``finding``: what it shows, in a sentence. ``caption``: what is drawn, with units. ``pictures`` fit any width;
    ``narrow`` and ``wide`` are the same drawn for a phone and for a whole line. ``numbers`` are behind all of them."""

    finding: str
    caption: str
    numbers: Sheet
    pictures: Sequence[str] = ()
    narrow: Sequence[str] = ()
    wide: Sequence[str] = ()
    extra_class: str = ""


def plain(value: object) -> str:
    """One line without signs that cannot be seen: no control characters, nothing that turns the direction of text."""
    signs = (" " if sign.isspace() else sign for sign in str(value))
    return " ".join("".join(sign for sign in signs if unicodedata.category(sign)[0] != "C").split())


def text(value: object) -> str:
    return html.escape(plain(value), quote=True)


def paragraph(words: str, kind: str = "") -> str:
    return f'<p class="{kind}">{text(words)}</p>' if kind else f"<p>{text(words)}</p>"


def numbers(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], about: str = "") -> Sheet:
    """A sheet of texts, for what is behind a chart."""
    heads = tuple(Column(name, name) for name in columns)
    return Sheet("", title, about, heads, tuple(tuple(Cell(plain(value)) for value in row) for row in rows))


def table(sheet: Sheet, *, heading: bool = True) -> str:
    """Names to the left, numbers to the right; the best and the worst of a column have a sign and a word. Without a
    ``heading`` its title is for those who cannot see that it stands below one."""
    kinds = [_kind([row[place].text for row in sheet.rows]) if place else "" for place in range(len(sheet.columns))]
    heads = "".join(
        f'<th scope="col"{_of_kind(kind)}>{_head(c, _has_unit(sheet, place))}</th>'
        for place, (c, kind) in enumerate(zip(sheet.columns, kinds, strict=True))
    )
    body = "".join(
        f"<tr>{''.join(_cell(cell, place, kinds[place]) for place, cell in enumerate(row))}</tr>" for row in sheet.rows
    )
    marked = any(cell.mark for row in sheet.rows for cell in row)
    legend = '<p class="about">▲ best, ▼ worst of its column.</p>' if marked else ""
    return (
        f'<div class="table" tabindex="0" role="region" aria-label="{text(sheet.title)}"><table>'
        f"<caption{'' if heading else _of_kind('unseen')}>{text(sheet.title)}</caption>"
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
        + (f'<p class="about">{text(sheet.about)}</p>' if sheet.about else "")
        + legend
    )


def folded(sheet: Sheet, label: str = "The numbers") -> str:
    return f"<details><summary>{text(label)}</summary>{table(sheet)}</details>"


def figure(chart: Chart) -> str:
    """A chart with its finding in words, what it shows, and the numbers behind it."""
    parts = [("", chart.pictures), (" narrow", chart.narrow), (" wide", chart.wide)]
    drawn = "".join(f'<div class="panels{kind}">{"".join(each)}</div>' for kind, each in parts if each)
    return (
        f'<figure class="{chart.extra_class}"><p class="finding">{text(chart.finding)}</p>'
        f'<div class="chart" role="img" aria-label="{text(chart.finding)}">{drawn}</div>'
        f"<figcaption>{text(chart.caption)}</figcaption>{folded(chart.numbers)}</figure>"
    ).replace(' class=""', "")


def _has_unit(sheet: Sheet, place: int) -> bool:
    """Whether the cells say theirs, as "77 kB" does."""
    return any(re.fullmatch(r"[\d.]+ [a-zA-Z]+", row[place].text) for row in sheet.rows)


def _head(column: Column, told: bool) -> str:
    name = column.name.replace("-\n", "\u00ad").replace("/\n", "/").replace("\n", " ")
    shy = "\u00ad".join(text(part) for part in name.split("\u00ad"))  # a word that may be broken there
    return shy + (
        f' <span class="unit">{text(column.unit)}</span>'
        if column.unit and not told and column.unit not in name
        else ""
    )


def _kind(texts: Sequence[str]) -> str:
    """ "words" for a column that is read, not compared: some cell has letters and does not begin as a number does;
    "long" besides where it may be broken anywhere, as a hash."""
    worded = any(re.search(r"[^\W\d_]", each) and not re.match(r"[\s+\-\u2212<>≤≥~]*[\d.]", each) for each in texts)
    return "" if not worded else "words long" if max(map(len, texts)) > LONG else "words"


def _of_kind(*kinds: str) -> str:
    named = " ".join(kind for kind in kinds if kind)
    return f' class="{named}"' if named else ""


def _cell(cell: Cell, place: int, kind: str) -> str:
    if place == 0:
        return f'<th scope="row">{text(cell.text)}</th>'
    if not cell.mark:
        return f"<td{_of_kind(kind)}>{text(cell.text)}</td>"
    sign = f'<span aria-hidden="true">{MARKS[cell.mark]}</span><span class="unseen"> ({cell.mark})</span>'
    return f"<td{_of_kind(kind, cell.mark)}>{text(cell.text)} {sign}</td>"
