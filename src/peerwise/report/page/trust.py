"""Who trusts whom: a matrix of sites for each method that says so, and the graph of what they owe each other."""

from __future__ import annotations

import re
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from numpy.typing import NDArray

from peerwise.errors import DataError
from peerwise.evaluate.contribution import contribution_graph, in_strength
from peerwise.report.contribution_drawing import contribution_svg
from peerwise.report.page.canvas import HEAT, INK, NARROW, PAPER, SMALL, WIDE, Canvas, picture, text_width
from peerwise.report.page.markup import Chart, figure, numbers, paragraph, plain
from peerwise.report.page.scene import Scene, left_out, short_names

FEW_SITES, MOST_ARROWS = 8, 40
SHORT = 11  # signs of a name in the graph
ALIKE = 1e-3  # spread of trust that is none
SMALLEST = 0.005  # for a number in whole percent
LEVELS = 12  # of colour: cells of one level are one shape
UPRIGHT = 18  # pixels of a cell below which names stand upright
NARROWEST = 21  # pixels of a cell that has room for a number
WITHOUT_NOTES = 'viewBox="8 70 924 690"'  # the part of the drawing that the caption does not say


def trust(scene: Scene) -> str:
    graphs = {method: graph for method in scene.methods if (graph := _graph(scene, method)) is not None}
    if not graphs:
        return paragraph("No method of this run says whom it trusts.", "none")
    sites = list(next(iter(graphs.values())))
    if len(sites) == 1:
        return paragraph("There is one site only, which trusts its own models.", "none")
    telling = [method for method, graph in graphs.items() if matrix(graph).to_numpy().std() > ALIKE] or list(graphs)
    shown = telling[: 3 if len(sites) <= FEW_SITES else 2]
    drawn = {method: graphs[method] for method in shown}
    return _matrices(scene, drawn, list(graphs), telling) + _owed(scene, shown[0], graphs[shown[0]])


def _graph(scene: Scene, method: str) -> nx.DiGraph | None:
    try:
        return contribution_graph(scene.story.run, method, scene.one_seed)
    except DataError:  # it does not say
        return None


def matrix(graph: nx.DiGraph) -> pd.DataFrame:
    """Rows: the asking site, where it said anything; columns: whose models it trusts."""
    rows = {
        site: {peer: graph.get_edge_data(site, peer, {"weight": 0.0})["weight"] for peer in graph}
        | {site: about["self_weight"]}
        for site, about in graph.nodes.items()
        if "self_weight" in about
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def _matrices(scene: Scene, graphs: dict[str, nx.DiGraph], known: list[str], telling: list[str]) -> str:
    tables = {method: matrix(graph) for method, graph in graphs.items()}
    peers = list(dict.fromkeys(peer for table in tables.values() for peer in table.columns))
    tables = {method: table.reindex(columns=peers, fill_value=0.0) for method, table in tables.items()}
    most = max(float(table.to_numpy().max()) for table in tables.values())
    small, large = (
        [_drawn(scene, f"trust{n}{width}", width, method, tables[method], most) for n, method in enumerate(tables)]
        for width in (NARROW, WIDE)
    )
    rows = [[method, site, *(_percent(value) for value in row)] for method, table in tables.items()
            for site, *row in table.itertuples()]  # fmt: skip
    caption = (
        "Rows: the asking site. Columns: the site whose models it trusts. Share of trust over the "
        f"{scene.rows} in percent; each row sums to 100. {scene.of_the_seeds} "
        f"{_alike([method for method in known if method not in telling])} {left_out(list(graphs), telling)}"
    )
    behind = numbers("Trust in percent", ["method", "asking site", *peers], rows)
    finding = _finding(*next(iter(tables.items())))
    if len(peers) <= FEW_SITES:
        return figure(Chart(finding, caption, behind, pictures=small))
    return figure(Chart(finding, caption, behind, narrow=small, wide=large))


def _finding(method: str, table: pd.DataFrame) -> str:
    own = pd.Series({site: table.loc[site, site] for site in table.index}, dtype=float)
    given = table.sum() - own.reindex(table.columns, fill_value=0.0)
    most = str(given.idxmax())
    one = len(table) == 1
    if given[most] <= 0:
        return f"With {plain(method)} every site trusts its own models alone."
    share = 100 * given[most] / given.sum()
    return (
        f"With {plain(method)} {plain(table.index[0]) if one else 'sites'} {'puts' if one else 'put'} "
        f"{100 * own.mean():.0f} % of {'its' if one else 'their'} trust in {'its' if one else 'their'} own models; "
        f"{plain(most)} has the most trust of others ({share:.0f} % of all that is given away)."
    )


def _alike(methods: list[str]) -> str:
    return f"Not drawn, as they trust all sites alike: {', '.join(map(plain, methods))}." if methods else ""


def _percent(value: float) -> str:
    return "-" if np.isnan(value) else f"{100 * value:.1f}"


def _drawn(scene: Scene, key: str, width: int, method: str, table: pd.DataFrame, most: float) -> str:
    names, asking = ([scene.names[str(site)] for site in each] for each in (table.columns, table.index))
    values, many = table.to_numpy(), len(names)
    left = min(max(text_width(name, SMALL) for name in asking) + 10, 0.34 * width)
    beyond = max(8.0, 0.7 * text_width(names[-1], SMALL) - 12)  # where the last column's name ends
    cell = min((width - left - beyond) / many, 46.0)
    named = cell >= 9
    top = 30 + (min(max(text_width(name, SMALL) for name in names) * 0.75 + 12, 100) if named else 16)
    height = int(top + cell * len(asking) + 8)

    def draw(canvas: Canvas) -> None:
        canvas.title(scene.names[method])
        axes = canvas.axes(left, width - left - cell * many, top, 8)
        axes.set_xlim(-0.5, many - 0.5)
        axes.set_ylim(len(asking) - 0.5, -0.5)
        for side in axes.spines.values():
            side.set_visible(False)
        _cells(axes, values, most)
        if cell >= NARROWEST:
            _numbers(axes, values, most, 10.5 if cell >= 26 else 9)
        axes.tick_params(length=0, labelcolor=INK, pad=4)
        axes.xaxis.tick_top()
        axes.set_xticks(range(many) if named else [])
        axes.set_yticks(range(len(asking)) if named else [])
        if named:
            turned: dict[str, Any] = {"rotation": 90} if cell < UPRIGHT else {"rotation": 45, "ha": "left"}
            axes.set_xticklabels(names, rotation_mode="anchor", fontsize=min(SMALL, cell - 1), **turned)
            axes.set_yticklabels(asking, fontsize=min(SMALL, cell))

    return picture(key, width, height, draw)


def _cells(axes: Axes, values: NDArray[np.float64], most: float) -> None:
    """Cells by level of trust, each level one shape."""
    levels = _levels(values, most)
    for level in range(LEVELS + 1):
        squares = [_square(x, y) for y, x in np.argwhere(levels == level)]
        if squares:
            path = Path.make_compound_path(*squares)
            axes.add_patch(PathPatch(path, facecolor=HEAT, alpha=max(level / LEVELS, 0.04), linewidth=0))


def _levels(values: NDArray[np.float64], most: float) -> NDArray[np.int64]:
    """From 0 to the largest value drawn."""
    return np.ceil(values / most * LEVELS).astype(np.int64)


def _square(x: float, y: float, half: float = 0.47) -> Path:
    return Path([(x - half, y - half), (x + half, y - half), (x + half, y + half), (x - half, y + half), (x, y)],
                [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY])  # fmt: skip


def _numbers(axes: Axes, values: NDArray[np.float64], most: float, size: float) -> None:
    levels = _levels(values, most)
    for (y, x), value in np.ndenumerate(values):
        if value >= SMALLEST:
            colour = PAPER if levels[y, x] > LEVELS / 2 else INK
            axes.text(x, y, f"{100 * value:.0f}", ha="center", va="center", fontsize=size, color=colour)


def _owed(scene: Scene, method: str, graph: nx.DiGraph) -> str:
    shares = in_strength(graph)
    svg = contribution_svg(nx.relabel_nodes(graph, short_names(graph, SHORT)))
    svg = re.sub(r"<style>.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<text class="note" x="28".*?</text>', "", svg)
    svg = re.sub(r'viewBox="[^"]*"', WITHOUT_NOTES, svg, count=1).replace(' role="img"', ' aria-hidden="true"')
    svg = re.sub(r' font-family="[^"]*"', "", svg, count=1)
    arrows = re.findall(r'<g fill="[^"]*" stroke="[^"]*" opacity=.*?</g>', svg)  # the strongest last
    for arrow in arrows[:-MOST_ARROWS]:
        svg = svg.replace(arrow, "")
    rows = [[site, _percent(share), _percent(graph.nodes[site].get("self_weight", np.nan)), graph.in_degree(site)]
            for site, share in sorted(shares.items(), key=lambda each: -each[1])]  # fmt: skip
    most = rows[0][0]
    caption = (
        f"The same for {plain(method)} as a graph. An arrow runs from who owes to whom it owes, as wide as the share "
        "of the first one's answers, in percent. Circle: share of all that sites owe to others. Ring: share that a "
        f"site owes to itself (dashed: it said nothing). {scene.of_the_seeds} "
        + (f"The {MOST_ARROWS} strongest of {graph.number_of_edges()} arrows." if len(arrows) > MOST_ARROWS else "")
    )
    finding = f"Most is owed to {plain(most)}: {rows[0][1]} % of all that sites owe to each other."
    columns = ["site", "owed to it, % of all", "owes to itself, %", "sites that owe it"]
    return figure(Chart(finding, caption, numbers("Who is owed how much", columns, rows), [svg], extra_class="owes"))
