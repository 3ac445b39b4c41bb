"""Runs made of numbers, as large and as oddly named as a test wants them; what they say is no matter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from peerwise.evaluate import assess
from peerwise.report.story import Story, story_of
from peerwise.run import Experiment, Run
from peerwise.run.finished import results_of

HOSTILE = (
    "</title><script>alert(1)</script>",
    '" onload="alert(1)" x="',
    "#010101 url(#a) href=\"#b\" id='c'",
    "$\\frac{1}{0}$ & <b>bold</b> --> ]]>",
    "\u202eevil\u0000\u0007\nname",
    "St. Mary of the Very Long Name Memorial Hospital and Research Centre, Northern Wing, Ward 12",
    "St. Mary of the Very Long Name Memorial Hospital and Research Centre, Southern Wing, Ward 12",
    "病院・東京 ünïcode",
)


def made_story(
    sites: int | Sequence[str] = 4,
    methods: Sequence[str] = ("local", "peerwise", "fedavg"),
    *,
    seeds: int = 1,
    classes: Sequence[str] = ("healthy", "ill"),
    rounds: int = 0,
    rows: int = 30,
    subgroups: Sequence[str] = (),
    is_site: bool = False,
    peers: Sequence[str] = (),
) -> Story:
    """All methods but the first have a pool where their place is odd, and rounds where it is even. ``peers``: sites
    whose models are in the pool, but of which there are no rows."""
    names = [f"site-{place:02}" for place in range(sites)] if isinstance(sites, int) else list(sites)
    rng = np.random.default_rng(0)
    predictions = {
        (seed, method, site): _tree(rng, names, site, place, len(classes), rounds, rows, subgroups, peers)
        for seed in range(seeds)
        for place, method in enumerate(methods)
        for site in names
    }
    experiment = Experiment(dataset="", partition="dirichlet", seeds=seeds, subgroup="sex" if subgroups else None)
    run = Run(experiment, results_of(predictions), None, predictions, tuple(classes), (), "table",
              _opened(names, classes, methods), {"python": "3", "data": {"name": names[0]}})  # fmt: skip
    return story_of(run, assess(run, classes=classes), is_site=is_site, notes=(f"{names[0]} fell back",))


def _tree(
    rng: np.random.Generator, names: list[str], site: str, place: int, classes: int, rounds: int, rows: int,
    subgroups: Sequence[str], peers: Sequence[str],
) -> dict[str, Any]:  # fmt: skip
    y = rng.integers(classes, size=rows)
    said = rng.dirichlet(np.ones(classes), size=rows)
    said[np.arange(rows), y] += 0.3 + 0.1 * place
    details: dict[str, Any] = {}
    if place % 2:
        pool = [*names, *peers]
        trust = rng.dirichlet(np.full(len(pool), 0.3), size=rows)
        drawn = rng.integers(classes, size=(rows, len(pool)))
        says = np.where(rng.random((rows, len(pool))) < 0.6, y[:, None], drawn)
        own = rng.dirichlet(np.ones(classes), size=rows)
        own[np.arange(rows), y] += 0.3
        details = {"trust": trust, "says": says, "own": own, "fallback": np.zeros(rows, dtype=bool),
                   "models": [f"net@{name}" for name in pool]}  # fmt: skip
    curve = [(round, float(value)) for round, value in enumerate(np.sort(rng.random(rounds)))]
    noted = {"validation accuracy": curve, "lambda": curve} if rounds and place and place % 2 == 0 else {}
    return {
        "y": y, "probabilities": said / said.sum(axis=1, keepdims=True), "details": details,
        "subgroup": [subgroups[row % len(subgroups)] for row in range(rows)] if subgroups else None,
        "label_counts": rng.integers(40, size=classes), "fell_back": None, "peers_left_out": {}, "privacy": None,
        "sent": place * 1000**place if place < 4 else 10**6 + place, "received": 1, "seconds": {"train": 1.0},
        "rounds": rounds or 1, "took_part": list(range(rounds or 1)), "best_round": 0, "lr": None, "curves": noted,
    }  # fmt: skip


def _opened(names: list[str], classes: Sequence[str], methods: Sequence[str]) -> dict[str, Any]:
    says = [
        {"name": f"net@{name}", "own": name == names[0], "says": classes[place % len(classes)], "confidence": 0.8,
         "competence": 0.7, "trust": 1 / len(names), "right_nearby": 3, "of_nearby": 7}
        for place, name in enumerate(names)
    ]  # fmt: skip
    return {
        "seed": 0, "method": methods[-1], "site": names[0], "row": 3, "part": "test", "truth": classes[0],
        "own": classes[-1], "answer": classes[0], "right": True, "rule": "the first row of all",
        "values": dict.fromkeys(names, "1.5"), "image": None, "fallback": False, "models": says,
        "probabilities": dict.fromkeys(classes, 1 / len(classes)),
        "influence": {"a": 0.2, "b": -0.1},
        "own_probability": 0.6,
        "neighbours": [{"row": 4, "label": classes[0], "distance": 0.5, "weight": 1.0}],
    }  # fmt: skip
