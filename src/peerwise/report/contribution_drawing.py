"""A contribution graph as one SVG picture: who owes how much to whom."""

from __future__ import annotations

import math
from dataclasses import dataclass
from xml.sax.saxutils import escape

import networkx as nx

from peerwise.evaluate.contribution import in_strength

WIDTH, HEIGHT = 940, 830
CENTRE = complex(WIDTH / 2, HEIGHT / 2 - 10)
RADIUS = 250
SMALLEST, LARGEST = 9.0, 42.0  # radius of a site to which nothing, or everything, is owed
RING, GAP = 5.0, 4.0
WIDEST = 13.0
MOST_ARROWS, MOST_LABELS = 120, 12
LONGEST_NAME = 20
TOO_SMALL = 0.005  # for a number in whole percent
COLOURS = ("#3b82c4", "#e07b39", "#3f9e6b", "#c2559d", "#8a6fd1", "#b08b1e", "#2d9fa8", "#d1555b", "#7c8a3b", "#8c6d5a")
STYLE = """
.page{fill:#fcfcfa;stroke:#d9d9d4}.name{fill:#22262b;font-weight:600}.note{fill:#6a7078}.track{stroke:#dcdcd6}
.number{fill:#22262b;paint-order:stroke;stroke:#fcfcfa;stroke-width:3px;stroke-linejoin:round}
.quiet{fill:none;stroke:#9aa0a6;stroke-dasharray:3 3}
@media (prefers-color-scheme:dark){.page{fill:#16191d;stroke:#33383e}.name{fill:#eceef0}.note{fill:#9aa2ab}
.track{stroke:#3a4047}.number{fill:#eceef0;stroke:#16191d}}
"""


@dataclass(frozen=True)
class _Dot:
    """A site on the circle."""

    name: str
    at: complex
    radius: float
    colour: str

    @property
    def reach(self) -> float:
        return self.radius + RING + GAP


def contribution_svg(graph: nx.DiGraph, title: str = "") -> str:
    """The text of an SVG file; it needs no script, font or network and fits light and dark pages.

    A circle is as large (by area) as the site's share of what sites owe to others, the ring around it the share that
    the site owes to itself (dashed: the site said nothing). An arrow runs from who owes to whom it owes, as wide as the
    share, in the colour of the site that gave; the strongest ones have a number.
    """
    dots = _dots(graph)
    edges = sorted(graph.edges(data="weight"), key=lambda edge: -edge[2])
    shown = edges[:MOST_ARROWS]
    widest = max((weight for *_, weight in shown), default=1.0)
    arrows = [_arrow(dots[site], dots[peer], weight, weight / widest) for site, peer, weight in reversed(shown)]
    numbered = [edge for edge in shown[:MOST_LABELS] if edge[2] >= TOO_SMALL]
    labels = [_label(dots[site], dots[peer], weight) for site, peer, weight in numbered]
    notes = [
        "Circle: share of all that sites owe to others. Ring: share that a site owes to itself (dashed: said nothing).",
        "Arrows run from who owes to whom it owes, in percent of what the first one's answers owe to anyone.",
    ]
    if len(shown) < len(edges):
        notes.append(f"The {len(shown)} strongest of {len(edges)} arrows are shown.")
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="13">',
            f"<title>{escape(title or 'Contribution graph')}</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="page" x=".5" y=".5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="14"/>',
            f'<text class="name" x="28" y="40" font-size="17">{escape(title)}</text>',
            *arrows,
            *(_site(dot, graph, share) for dot, share in zip(dots.values(), in_strength(graph).values(), strict=True)),
            *labels,
            *(f'<text class="note" x="28" y="{HEIGHT - 58 + 20 * n}">{note}</text>' for n, note in enumerate(notes)),
            "</svg>\n",
        ]
    )


def _dots(graph: nx.DiGraph) -> dict[str, _Dot]:
    shares, many = in_strength(graph), max(len(graph), 1)
    found = {}
    for place, site in enumerate(graph):
        turn = 2 * math.pi * place / many - math.pi / 2
        at = CENTRE if many == 1 else CENTRE + RADIUS * complex(math.cos(turn), math.sin(turn))
        room = LARGEST if many <= 12 else LARGEST * 12 / many
        radius = (
            math.sqrt(SMALLEST**2 + (room**2 - SMALLEST**2) * min(1.0, shares[site] * 2)) if room > SMALLEST else room
        )
        found[site] = _Dot(site, at, radius, COLOURS[place % len(COLOURS)])
    return found


def _curve(start: _Dot, end: _Dot) -> tuple[complex, complex, complex]:
    """Begin, bend and end of an arrow: bent towards the middle, and to one side, so that both ways are seen."""
    chord = end.at - start.at
    bend = (start.at + end.at) / 2 + 0.35 * (CENTRE - (start.at + end.at) / 2) + chord * 1j * 0.1
    leaves, arrives = (bend - start.at) / abs(bend - start.at), (end.at - bend) / abs(end.at - bend)
    return start.at + start.reach * leaves, bend, end.at - end.reach * arrives


def _arrow(start: _Dot, end: _Dot, weight: float, strength: float) -> str:
    first, bend, last = _curve(start, end)
    width = 0.7 + (WIDEST - 0.7) * strength
    way = (last - bend) / abs(last - bend)
    head = 5 + 1.1 * width
    neck = last - head * way
    side = way * 1j * (2.5 + 0.8 * width)
    opacity = 0.18 + 0.62 * strength
    return (
        f'<g fill="{end.colour}" stroke="{end.colour}" opacity="{opacity:.2f}"><title>{escape(start.name)} owes '
        f"{100 * weight:.1f} % to {escape(end.name)}</title>"
        f'<path d="M{_xy(first)}Q{_xy(bend)} {_xy(neck)}" fill="none" stroke-width="{width:.1f}"/>'
        f'<path d="M{_xy(last)}L{_xy(neck + side)}L{_xy(neck - side)}Z" stroke="none"/></g>'
    )


def _label(start: _Dot, end: _Dot, weight: float) -> str:
    first, bend, last = _curve(start, end)
    t = 0.6
    at = (1 - t) ** 2 * first + 2 * t * (1 - t) * bend + t**2 * last
    return (
        f'<text class="number" x="{at.real:.1f}" y="{at.imag + 4:.1f}" text-anchor="middle">{100 * weight:.0f}</text>'
    )


def _site(dot: _Dot, graph: nx.DiGraph, share: float) -> str:
    own = graph.nodes[dot.name].get("self_weight")
    x, y, ring = dot.at.real, dot.at.imag, dot.radius + RING / 2 + 1
    said = "said nothing" if own is None else f"owes {100 * own:.0f} % to itself"
    parts = [f"<g><title>{escape(dot.name)}: {100 * share:.1f} % of what sites owe to others; {said}</title>"]
    parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{dot.radius:.1f}" fill="{dot.colour}"/>')
    if own is None:
        parts.append(f'<circle class="quiet" cx="{x:.1f}" cy="{y:.1f}" r="{ring:.1f}" stroke-width="2"/>')
    else:
        parts.append(
            f'<circle class="track" cx="{x:.1f}" cy="{y:.1f}" r="{ring:.1f}" fill="none" stroke-width="{RING}"/>'
        )
        length = 2 * math.pi * ring
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{ring:.1f}" fill="none" stroke="{dot.colour}" stroke-width="{RING}" '
            f'stroke-dasharray="{own * length:.1f} {length:.1f}" transform="rotate(-90 {x:.1f} {y:.1f})"/>'
        )
    return "".join([*parts, _name(dot, share), "</g>"])


def _name(dot: _Dot, share: float) -> str:
    """Outside of the circle of sites, on the side where the site is."""
    out = dot.at - CENTRE
    out = out / abs(out) if abs(out) > 1 else 1j
    at = dot.at + out * (dot.reach + 10)
    anchor = "middle" if abs(out.real) < 0.25 else "start" if out.real > 0 else "end"
    y = at.imag + (4 if abs(out.imag) < 0.8 else 16 if out.imag > 0 else -14)
    name = dot.name if len(dot.name) <= LONGEST_NAME else dot.name[: LONGEST_NAME - 1] + "…"
    where = f'x="{at.real:.1f}" text-anchor="{anchor}"'
    return (
        f'<text class="name" {where} y="{y:.1f}">{escape(name)}</text>'
        f'<text class="note" {where} y="{y + 16:.1f}">{100 * share:.0f} %</text>'
    )


def _xy(point: complex) -> str:
    return f"{point.real:.1f} {point.imag:.1f}"
