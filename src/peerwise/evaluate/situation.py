"""A site's situation from what is on disk: its folder, a finished run, or its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from peerwise.data import load
from peerwise.data.split import FRACTIONS
from peerwise.errors import ConfigError, NotTrusted
from peerwise.evaluate.recommend import class_share, skew_of
from peerwise.run.loading import is_run, load_run
from peerwise.run.peer import PeerFolder
from peerwise.run.peer.settings import FILE


def situation_at(place: Path, target: str | None = None) -> dict[str, Any]:
    """The keys of a `Situation` that are known there; ``target``: the column to be predicted, of a table of rows."""
    if place.is_dir() and target is not None:
        raise ConfigError(
            f"--target {target} and the folder {place}: only a file of rows needs a target. Leave it out."
        )
    if (place / FILE).is_file():
        return _of_a_site(PeerFolder(place))
    if is_run(place):
        return _of_a_run(place)
    if place.is_file():
        if target is None:
            raise ConfigError(f"{place} holds rows: name the column to be predicted, e.g. --target disease.")
        return _of_rows(place, target)
    raise ConfigError(
        f"{place} is no site's folder (of 'peerwise init'), no run (of 'peerwise simulate') and no file of rows: name "
        f"one of these, or describe the site with --kind and more."
    )


def _of_a_site(peer: PeerFolder) -> dict[str, Any]:
    site = peer.site()
    counts = np.bincount(site.train.y, minlength=len(site.classes))
    found = {"kind": site.kind, "rows": max(len(site.train.y), 1), "classes": len(counts), **_skew(counts)}
    found["public"] = 0 if site.public is None else len(site.public)
    try:
        members = len(peer.known_roster().names)
    except NotTrusted:  # not admitted yet
        return found
    return found | ({"sites": members} if members > 1 else {})


def _of_a_run(place: Path) -> dict[str, Any]:
    """Of its average site."""
    run = load_run(place)
    first = run.experiment.label(run.experiment.methods[0])
    counts = {key: tree["label_counts"] for key, tree in run.predictions.items() if key[1] == first}
    return {
        "kind": run.kind,
        "rows": max(round(float(np.mean([np.sum(each) for each in counts.values()]))), 1),
        "classes": len(run.classes),
        "sites": len(counts) // run.experiment.seeds,
        **_skew(*counts.values()),
        "public": run.experiment.public,
        "own_columns": run.experiment.partition == "vertical",
    }


def _of_rows(place: Path, target: str) -> dict[str, Any]:
    """Without a word on skew: which classes others have is not in the file."""
    data = load(place, target=target)
    return {"kind": data.kind, "rows": max(round(len(data.y) * FRACTIONS[0]), 1), "classes": len(data.classes)}


def _skew(*counts: Any) -> dict[str, Any]:
    """Nothing for two classes: one of them is rare mostly because it is rare everywhere."""
    if len(counts[0]) < 3:
        return {}
    return {"skew": skew_of(float(np.mean([class_share(each) for each in counts])))}
