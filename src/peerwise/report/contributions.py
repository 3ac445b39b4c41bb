"""Who owes how much to whom, as files beside a run's results: for programs and to look at."""

from __future__ import annotations

from pathlib import Path

from peerwise.parcels import write_atomic
from peerwise.run import Run

FOLDER = "contributions"


def write_contributions(run: Run, folder: Path) -> Path | None:
    """A graph for each seed and each method that knows whom it owes its answers to, as JSON, GraphML and SVG; None
    where there is no such method, or one site only."""
    speak = {(seed, method) for (seed, method, _), tree in run.predictions.items() if "trust" in tree["details"]}
    if not speak or len({site for _, _, site in run.predictions}) == 1:
        return None
    from peerwise.evaluate.contribution import contribution_graph
    from peerwise.evaluate.contribution_files import save_graph
    from peerwise.report.contribution_drawing import contribution_svg

    place = folder / FOLDER
    place.mkdir(exist_ok=True)
    for seed, method in sorted(speak):
        graph = contribution_graph(run, method, seed)
        stem = f"{method.replace(':', '+')}-s{seed}"
        for ending in ("json", "graphml"):
            save_graph(graph, place / f"{stem}.{ending}")
        write_atomic(place / f"{stem}.svg", contribution_svg(graph, f"{method}, seed {seed}").encode())
    return place
