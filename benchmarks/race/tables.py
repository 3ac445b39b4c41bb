"""Tables in Markdown from the figures of each part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from race.exponents import cuts, exponent

Figures = Mapping[str, Any]


def table(head: Sequence[str], lines: Sequence[Sequence[Any]]) -> str:
    rule = "|---" + "|---:" * (len(head) - 1) + "|"
    return "\n".join(["| " + " | ".join(head) + " |", rule, *("| " + " | ".join(map(str, x)) + " |" for x in lines)])


def number(value: float | None) -> str:
    """Three figures."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def ratio(theirs: float | None, mine: float | None) -> str:
    return "-" if theirs is None or mine is None else f"{theirs / max(mine, 1e-9):.3g} x"


def percent(right: Sequence[float] | None) -> str:
    return "-" if right is None else f"{100 * np.mean(right):.2f} %"


def _against(right: Sequence[float], own: Sequence[float]) -> str:
    """The mean, and at how many sites it is better than, like and worse than the own model."""
    better, worse = (int(np.sum(np.sign(np.subtract(right, own)) == sign)) for sign in (1, -1))
    return f"{percent(right)} ({better}/{len(own) - better - worse}/{worse})"


def _said(cost: Figures | None, *path: str) -> Any:
    value: Any = None if cost is None else cost["said"]
    for key in path:
        value = None if value is None else value.get(key)
    return value


# ---- FedDES ----------------------------------------------------------------------------------------------------------


def feddes(figures: Figures) -> str:
    lines, costs = [], []
    for name, found in figures["federations"].items():
        mine, paper, peer = found["peerwise"], found["feddes"], found["rigfl"]
        own = mine["said"]["own"]
        theirs = "-" if peer is None else _against(peer["said"]["right"], peer["said"]["own"])
        lines.append(
            [
                name,
                len(own),
                percent(own),
                *(_against(each["said"]["right"], own) for each in (mine, paper)),
                percent(_said(peer, "own")),
                theirs,
            ]
        )
        costs += _federation_costs(name, mine, paper, peer)
    head = ["split", "sites", "own model, ours", "`peerwise`", "`feddes`", "own model, rigfl", "rigfl FedDES"]
    text = table(head, lines) + "\n\n" + table(["", "`peerwise`", "`feddes`", "rigfl", "rigfl / `peerwise`"], costs)
    both, alone = figures["two workers"], figures["federations"][figures["two workers"]["split"]]["rigfl"]
    peer_wall = None if alone is None else alone["wall"]
    return text + (
        f"\n\n{both['split']} with two workers on both cores: `peerwise` {number(both['peerwise']['wall'])} s "
        f"on the wall, {number(both['peerwise']['peak'])} MB at its peak; rigfl, which has no workers, "
        f"{number(peer_wall)} s ({ratio(peer_wall, both['peerwise']['wall'])})."
    )


PHASES = {"train": "base training", "outputs": "the pool's outputs", "fit": "graph and fit", "predict": "answers"}


def _federation_costs(name: str, mine: Figures, paper: Figures, peer: Figures | None) -> list[list[str]]:
    paper = _with_the_pools_answers(paper, mine)
    found = [[f"**{name}**", "", "", "", ""]]
    for phase, label in PHASES.items():
        found.append(_line(f"{label}, s", *(_said(each, "seconds", phase) for each in (mine, paper, peer))))
    pool = sum(mine["said"]["seconds"][phase] for phase in ("train", "outputs", "predict"))
    for key, label in (("cpu", "all, CPU s"), ("wall", "all, wall s"), ("peak", "peak of all processes, MB")):
        extra = pool if key in ("cpu", "wall") else 0  # feddes took the pool as peerwise left it
        found.append(_line(label, mine[key], paper[key] + extra, None if peer is None else peer[key]))
    for way in ("sent", "received"):
        values = [_said(each, "bytes", way) for each in (mine, paper, peer)]
        found.append(_line(f"{way} a site, MB", *(None if value is None else value / 1e6 for value in values)))
    for rows, phase, label, each in (
        ("rows_trained", "train", "rows trained on, epochs counted, thousands", "training a row once, µs"),
        ("rows_asked", "predict", "rows answered, thousands", "answering a row, µs"),
    ):
        counts = [_said(cost, rows) for cost in (mine, paper, peer)]
        seconds = [_said(cost, "seconds", phase) for cost in (mine, paper, peer)]
        if phase == "train":
            counts[1] = counts[0]  # the same pool
        found.append(_line(label, *(None if count is None else count / 1000 for count in counts)))
        pairs = zip(seconds, counts, strict=True)
        found.append(_line(each, *(None if count is None else 1e6 * spent / max(count, 1) for spent, count in pairs)))
    return found


def _with_the_pools_answers(paper: Figures, mine: Figures) -> Figures:
    """The second method in a folder finds the models' answers to the test rows there: peerwise's seconds, nearly all of
    which are theirs, are added."""
    seconds = paper["said"]["seconds"] | {
        "predict": paper["said"]["seconds"]["predict"] + mine["said"]["seconds"]["predict"]
    }
    return {**paper, "said": {**paper["said"], "seconds": seconds}}


def _line(label: str, mine: float | None, paper: float | None, peer: float | None) -> list[str]:
    return [label, number(mine), number(paper), number(peer), ratio(peer, mine)]


def selection(figures: Figures) -> str:
    lines, costs = [], []
    for name, found in figures.items():
        about, own = found["about"], found["about"]["own"]
        contenders = [found[key] for key in ("peerwise", "feddes", "graphroute")]
        right = ["-" if cost is None else _against(cost["said"]["right"], own) for cost in contenders]
        lines.append([name, about["sites"], about["models"], about["test"], percent(own), *right])
        costs += _selection_costs(name, *contenders)
    head = ["pool", "sites", "models", "test rows", "own model", "`peerwise`", "`feddes`", "graphroute"]
    costs_head = ["", "`peerwise`", "`feddes`", "graphroute", "graphroute / `peerwise`"]
    balanced = [_class_balanced(name, found) for name, found in figures.items() if "class_balanced" in found]
    return "\n\n".join([table(head, lines), table(costs_head, costs), *balanced])


def _class_balanced(name: str, pool: Figures) -> str:
    """`feddes` beside graphroute on the paper's graph, with malloc as it is and with malloc that keeps its memory."""
    found = pool["class_balanced"]
    pairs = [(found[memory]["feddes"], found[memory]["graphroute"]) for memory in ("malloc", "kept")]
    accuracy = [[*(percent(_said(cost, "right")) for cost in pair), ""] for pair in pairs]
    lines = [["accuracy", *accuracy[0], *accuracy[1]]]
    for label, value in SITE_COSTS.items():
        line = [label]
        for mine, peer in pairs:
            line += [number(value(mine)), number(value(peer)), ratio(value(peer), value(mine))]
        lines.append(line)
    head = ["", "`feddes`", "graphroute", "ratio", "`feddes`, memory kept", "graphroute, memory kept", "ratio"]
    rows = "{train:,} training, {validation:,} validation and {test:,} test rows".format(**found["rows"])
    return (
        f"The class-balanced graph, {found['k']} neighbors of every class, at the first site of {name}: {rows}, "
        f"{pool['about']['models']} models. The site's own model: {percent(pool['about']['own'][:1])}.\n\n"
        f"{table(head, lines)}"
    )


def _fit_seconds(cost: Figures | None) -> float | None:
    return None if cost is None else sum(_said(cost, "seconds", part) for part in ("graph", "learning", "rest"))


def _per(seconds: float | None, count: int | None) -> float | None:
    return None if seconds is None or count is None else seconds / max(count, 1)


SITE_COSTS: dict[str, Callable[[Figures | None], float | None]] = {
    "epochs": lambda cost: _said(cost, "epochs"),
    "training steps": lambda cost: _said(cost, "steps"),
    "graph, CPU s": lambda cost: _said(cost, "seconds", "graph"),
    "training, CPU s": lambda cost: _said(cost, "seconds", "learning"),
    "whole fit, CPU s": _fit_seconds,
    "training, CPU s per epoch": lambda cost: _per(_said(cost, "seconds", "learning"), _said(cost, "epochs")),
    "training, CPU s per step": lambda cost: _per(_said(cost, "seconds", "learning"), _said(cost, "steps")),
    "test rows at once, CPU s": lambda cost: _said(cost, "seconds", "queries"),
    "peak memory, MB": lambda cost: _said(cost, "own_peak"),
}


def _selection_costs(name: str, mine: Figures, paper: Figures | None, peer: Figures | None) -> list[list[str]]:
    found = [[f"**{name}**", "", "", "", ""]]
    found.append(
        _line("whole fit, CPU s", *(_said(each, "seconds", "fit") for each in (mine, paper)), _fit_seconds(peer))
    )
    for key, label in (("queries", "test rows at once, CPU s"), ("batches", "in batches of 32, CPU s")):
        found.append(_line(label, *(_said(each, "seconds", key) for each in (mine, paper, peer))))
    for key, label in (("one_median", "one row alone, ms"), ("one_p95", "one row alone, 95th percentile, ms")):
        found.append(_line(label, *(_said(each, key) for each in (mine, paper)), None))
    return [*found, _line("peak memory, MB", *(_said(each, "own_peak") for each in (mine, paper, peer)))]


# ---- rules and rounds ------------------------------------------------------------------------------------------------


def rules(figures: Figures) -> str:
    parts = []
    for width, found in figures["widths"].items():
        lines = []
        peers = _said(found["deslib"], "rules") or {}
        for name, line in found["ours"]["said"]["inputs"].items():
            peer = peers.get(name, {})
            same = "-" if not peer else f"{100 * peer['same']:.1f} %"
            lines.append(
                [
                    name,
                    number(line["ours"]),
                    number(line["plain"]),
                    ratio(line["plain"], line["ours"]),
                    f"{100 * line['same']:.1f} %",
                    number(peer.get("seconds")),
                    ratio(peer.get("seconds"), line["ours"]),
                    same,
                ]
            )
        head = [f"{width} inputs, CPU s", "ours", "plain", "ratio", "same answers", "DESlib", "ratio", "same answers"]
        parts.append(table(head, lines))
    lines = [
        [
            name,
            number(line["ours"]),
            number(line["plain"]),
            ratio(line["plain"], line["ours"]),
            f"{100 * line['same']:.1f} %",
        ]
        for name, line in next(iter(figures["widths"].values()))["ours"]["said"]["decision"].items()
    ]
    parts.append(table(["decision space, CPU s", "ours", "plain", "ratio", "same answers"], lines))
    sizes = figures["sizes"]
    about = "{queries:,} queries, {models} models, {rows:,} known rows, {classes} classes.".format(**sizes)
    return "\n\n".join([about, *parts])


def rounds(figures: Figures) -> str:
    lines = []
    for method, runs in figures["methods"].items():
        mine = runs["ours"]
        for name, cost in runs.items():
            if cost is None:
                continue
            said = cost["said"]
            sizes = [number(said["bytes"][way] / 1e6) for way in ("sent", "received")]
            compared = "" if name == "ours" else ratio(said["round"], mine["said"]["round"])
            memory = "" if name == "ours" else ratio(cost["peak"], mine["peak"])
            lines.append(
                [
                    f"{method}, {name}",
                    percent(said["right"]),
                    number(1 / said["round"]),
                    compared,
                    number(cost["wall"]),
                    number(cost["cpu"]),
                    number(cost["peak"]),
                    memory,
                    *sizes,
                ]
            )
    head = ["method", "accuracy", "rounds a second", "ours is faster", "whole run, wall s", "CPU s", "peak MB"]
    return f"{figures['split']}, {figures['rounds']} rounds.\n\n" + table(
        [*head, "peak / ours", "MB sent a site", "MB received"], lines
    )


COLUMNS = {"round": "CPU s a round", "start": "start and first round", "end": "after the last", "peak": "peak MB"}


def many_sites(figures: Figures) -> str:
    parts = []
    for found in figures["federations"]:
        contenders = found["contenders"]
        pfl, lean = (contenders.get(name, {}).get("round") for name in ("pfl", "bare loop, lean"))
        lines = []
        for name, costs in contenders.items():
            least = costs["round"]["least"]
            ratios = [ratio(least, other["least"] if other else None) for other in (lean, pfl)]
            columns = [f"{number(costs[key]['least'])} ({number(costs[key]['median'])})" for key in COLUMNS]
            lines.append([name, columns[0], *ratios, *columns[1:], percent([costs["accuracy"]["median"]])])
        head = ["", COLUMNS["round"], "/ lean", "/ pfl", *list(COLUMNS.values())[1:], "accuracy"]
        parts.append(f"{_federation(found)}\n\n{table(head, lines)}")
    large, smallest = figures["large"], figures["smallest"]
    values = {label: number(large[key]) for key, label in COLUMNS.items()}
    parts.append(f"Ours, with a run folder: {_federation(large)}\n\n{table(list(values), [list(values.values())])}")
    lines = [[name, number(min(seconds)), number(float(np.median(seconds)))] for name, seconds in smallest.items()]
    parts.append("The smallest run, wall seconds.\n\n" + table(["", "least", "median"], lines))
    return "\n\n".join(parts)


def _federation(found: Figures) -> str:
    train, val, test = found["rows"]
    return (
        f"{found['sites']:,} sites of {train} train, {val} validation and {test} test rows, {found['net']}, batches of "
        f"{found['batch']}, {found['join']:.0%} take part, {found['rounds']} rounds; least (median)."
    )


# ---- growth and bounds -----------------------------------------------------------------------------------------------

COSTS = {
    "fit": "fit, CPU s", "graph": "graph, CPU s", "epoch": "an epoch, CPU s", "queries": "250 queries, CPU s",
    "train": "base training, s", "round": "a round, s",
    "outputs": "the pool's outputs, s", "predict": "test rows, s", "cpu": "all, CPU s",
    "peak": "peak memory, MB", "received": "received a site, bytes",
}  # fmt: skip


def growth(figures: Figures) -> str:
    lines = []
    for axis, contenders in figures["curves"].items():
        for name, curve in contenders.items():
            for cut, sizes in cuts(axis, name, curve["size"]).items():
                places = [place for place, size in enumerate(curve["size"]) if size in sizes]
                for cost, label in COSTS.items():
                    if cost in curve and len(sizes) > 1:
                        values = [curve[cost][place] for place in places]
                        lines.append(_growth_line(f"{axis}{cut}", name, label, sizes, values))
    return table(["over", "", "cost", "sizes", "costs", "exponent", "R²"], lines)


def _growth_line(over: str, name: str, label: str, sizes: list[int], values: list[float]) -> list[str]:
    found = exponent(sizes, values)
    span = f"{sizes[0]:,} to {sizes[-1]:,}"
    return [
        over,
        name,
        label,
        span,
        f"{number(values[0])} to {number(values[-1])}",
        str(found),
        f"{found.r_squared:.3f}",
    ]


def bounds(figures: Figures) -> str:
    most, near = figures["machine"], figures["neighbours"]
    passing = f"{near['bytes'] / 1e9:.1f} GB/s pass by, {near['bytes'] / most['memory']:.1f} times what memory gives"
    lines = [
        _rate(
            f"training step, {name}, batches of 32", found["step"], found, "single", most, f"{found['fixed']:.0%} fixed"
        )
        for name, found in figures["training"].items()
    ]
    lines += [
        _rate(f"outputs of {name}, 400 rows", found["seconds"], found, "single", most)
        for name, found in figures["outputs"].items()
    ]
    fit = figures["fit"]
    lines.append(_rate(f"kernel of the fit, {fit['rows']:,} rows", fit["seconds"], fit, "double", most))
    lines.append(_rate(f"neighbours, {near['rows']:,} rows", near["seconds"], near, "single", most, passing))
    about = (
        f"One core does {most['single'] / 1e9:.0f} GFLOP/s in single and {most['double'] / 1e9:.0f} in double "
        f"precision (a product of 1,024 x 1,024 matrices), and adds arrays in memory at {most['memory'] / 1e9:.0f}"
        " GB/s."
    )
    return about + "\n\n" + table(["phase", "ms", "GFLOP/s", "share of the most", ""], lines)


def _rate(label: str, seconds: float, found: Figures, kind: str, most: Figures, note: str = "") -> list[str]:
    share = f"{found['rate'] / most[kind]:.0%} of {kind}"
    return [label, number(1000 * seconds), number(found["rate"] / 1e9), share, note]
