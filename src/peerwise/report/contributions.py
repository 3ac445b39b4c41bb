"""Who owes how much to whom, as files beside a run's results: for programs and to look at."""

from __future__ import annotations

from pathlib import Path

from peerwise.errors import DataError, StorageError
from peerwise.parcels import write_atomic
from peerwise.run import Run

FOLDER = "contributions"


def write_contributions(run: Run, folder: Path) -> Path | None:
    """A graph for each seed and each method that knows whom it owes its answers to, as JSON, GraphML and SVG; None
    where there is no such method, or one site only. A method that says nothing at any site of a seed has none there."""
    speak = {(seed, method) for (seed, method, _), tree in run.predictions.items() if "trust" in tree["details"]}
    if not speak or len({site for _, _, site in run.predictions}) == 1:
        return None
    from peerwise.evaluate.contribution import contribution_graph
    from peerwise.evaluate.contribution_files import save_graph
    from peerwise.report.contribution_drawing import contribution_svg

    place = folder / FOLDER
    written = False
    for seed, method in sorted(speak):
        try:
            graph = contribution_graph(run, method, seed)
        except DataError:
            continue
        _make(place)
        written = True
        stem = f"{method.replace(':', '+')}-s{seed}"
        for ending in ("json", "graphml"):
            save_graph(graph, place / f"{stem}.{ending}")
        write_atomic(place / f"{stem}.svg", contribution_svg(graph, f"{method}, seed {seed}").encode())
    return place if written else None


def _make(place: Path) -> None:
    try:
        place.mkdir(exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"{place} cannot be made ({error.strerror}): expected a folder that can be written."
        ) from error
