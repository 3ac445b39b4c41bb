"""Pictures as inline SVG: drawn by matplotlib, coloured by the page.

A chart is drawn in stand-in colours that become variables of the page's style sheet, so that one drawing serves light,
dark and print. What matplotlib adds beside the drawing (prologue, metadata, a style for everything) is left out, ids
are unique in the page, and the same data give the same bytes.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, MUTED, RULE, PAPER, HEAT = "#010101", "#020202", "#030303", "#040404", "#050505"
SERIES = tuple(f"#0606{place:02x}" for place in range(6))
VARIABLES = {INK: "ink", MUTED: "muted", RULE: "rule", PAPER: "paper", HEAT: "heat"}
VARIABLES |= {colour: f"series-{place}" for place, colour in enumerate(SERIES)}

TAG = r"<[^>]+>"  # a text never has these signs as they are
USED = r'(?:href="|url\()#([^")]+)'

NARROW, WIDE = 340, 720  # pixels: a phone's page, and a whole line
SMALL, NORMAL = 10.5, 11.5
SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "peerwise",
    "text.parse_math": False,  # names are other people's text
    "axes.unicode_minus": True,
    "font.size": NORMAL,
    "text.color": INK,
    "axes.edgecolor": RULE,
    "axes.labelcolor": MUTED,
    "axes.labelsize": NORMAL,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 1.0,
    "xtick.color": RULE,
    "ytick.color": RULE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "xtick.major.size": 3.0,
    "ytick.major.size": 0.0,
    "lines.linewidth": 1.6,
    "grid.color": RULE,
    "grid.linewidth": 0.8,
}


class Canvas:
    """One picture of so many pixels; `axes` are placed by their margins, also in pixels."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width / 72, height / 72), dpi=72, facecolor="none")

    def axes(self, left: float, right: float, top: float, bottom: float) -> Axes:
        w, h = self.width, self.height
        return self.figure.add_axes((left / w, bottom / h, (w - left - right) / w, (h - top - bottom) / h))

    def title(self, text: str, note: str = "") -> None:
        """In the upper left corner."""
        at: dict[str, Any] = {"ha": "left", "va": "baseline"}
        self.figure.text(2 / self.width, 1 - 13 / self.height, text, fontweight="bold", fontsize=12, **at)
        if note:
            self.figure.text(2 / self.width, 1 - 28 / self.height, note, color=MUTED, fontsize=SMALL, **at)


def picture(key: str, width: int, height: int, draw: Callable[[Canvas], None]) -> str:
    """The SVG that ``draw`` makes; ``key`` is this picture's own in the page."""
    with rc_context(SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # the reader's browser has other fonts
        canvas = Canvas(width, height)
        draw(canvas)
        written = io.StringIO()
        canvas.figure.savefig(written, format="svg", metadata={"Date": None})
    return _for_the_page(written.getvalue(), key, width, height)


def text_width(text: str, size: float = NORMAL) -> float:
    """Pixels that a text takes at the most, in common fonts."""
    return 0.62 * size * len(text)


def shared_styles(page: str) -> tuple[str, str]:
    """The page with a class for each style that its pictures use, and the rules of these classes: a point is drawn
    thousands of times, its style is written once."""
    rules: dict[str, str] = {}

    def named(found: re.Match[str]) -> str:
        return f'{found[1]} class="{rules.setdefault(found[2], f"d{len(rules)}")}"'

    page = re.sub(
        r'(<(?:path|use|text) [^>]*?)(?<=\s)style="([^"]*)"', lambda found: named(found).replace("  ", " "), page
    )
    return page, "".join(f".{name}{{{style}}}" for style, name in rules.items())


def _for_the_page(svg: str, key: str, width: int, height: int) -> str:
    body = svg[svg.index(">", svg.index("<svg")) + 1 :]
    for waste in (r"<metadata>.*?</metadata>", r"<!--.*?-->", r"<defs>\s*<style.*?</style>\s*</defs>"):
        body = re.sub(waste, "", body, flags=re.DOTALL)
    used = sorted({name for tag in re.findall(TAG, body) for name in re.findall(USED, tag)})
    names = {name: f"{key}-{place}" for place, name in enumerate(used)}
    body = re.sub(TAG, lambda found: _tag(found.group(), names), body)
    body = re.sub(r">\s+<", "><", body).replace("<g/>", "")
    inner, before = re.compile(r"<g>((?:(?!</?g[ >]).)*)</g>", flags=re.DOTALL), ""
    while before != body:  # groups that say nothing
        before, body = body, inner.sub(r"\1", body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'aria-hidden="true">{body.strip()}'
    )


def _tag(tag: str, names: Mapping[str, str]) -> str:
    """With ids of its own, the page's colours, and no needless digit, space or word."""
    tag = re.sub(r'\sid="([^"]*)"', lambda found: f' id="{names[found[1]]}"' if found[1] in names else "", tag)
    tag = re.sub(USED, lambda found: found.group().replace(found[1], names[found[1]]), tag).replace(
        "xlink:href", "href"
    )
    tag = re.sub("#0[1-6]0[1-6][0-9a-f]{2}", lambda found: f"var(--{VARIABLES[found.group()]})", tag)
    tag = re.sub(r"(?<![\w#.-])(-?\d+\.\d{2,})", lambda found: f"{float(found[1]):.1f}".removesuffix(".0"), tag)
    tag = re.sub(r"font: (?:(bold|[1-9]00) )?([\d.]+)px [^;\"]*", _font, tag)
    tag = re.sub(r"\s*font-family:[^;\"]*;?", "", tag)
    tag = re.sub(r' transform="rotate\(-?0 [^)]*\)"', "", tag)
    return re.sub(r"\s+", " ", tag).replace("; ", ";").replace(": ", ":").replace(' "', '"').replace(' style=""', "")


def _font(found: re.Match[str]) -> str:
    return f"font-size: {found[2]}px" + (f"; font-weight: {found[1]}" if found[1] else "")
