"""What was said of a site's validation rows when it was fitted, kept beside the bundle for the report: labels, answers
and trust, never the rows. The one case that a report shows is read from the site's own file when it is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Site
from peerwise.errors import BrokenFile, ConfigError, ParcelError
from peerwise.federation import RUN, privacy_of
from peerwise.methods import Method, OneShot
from peerwise.methods.registry import base_name
from peerwise.parcels import Store
from peerwise.run.experiment import Experiment
from peerwise.run.finished import Run, results_of
from peerwise.run.opened import can_open, in_order, opened_case, rows_in_turn, shown_case
from peerwise.run.peer.folder import PeerFolder
from peerwise.run.provenance import bare, environment

RECORD, BUNDLE = "record", "bundle"
FORMAT = 1
LOCAL = "local"
AGAIN = "Run 'peerwise fit' again."
BLANK: dict[str, Any] = {"details": {}, "subgroup": None, "fell_back": None, "peers_left_out": {}, "sent": 0,
                         "received": 0, "seconds": {}, "rounds": 1, "took_part": [0], "best_round": None, "lr": None,
                         "curves": {}, "privacy": None}  # fmt: skip


@dataclass
class Seen:
    """Collects what a fit says of the validation rows, as `fit` comes by it. ``details`` only where one state has
    answered them all."""

    ours: NDArray[np.float64] | None = None
    own: NDArray[np.float64] | None = None
    details: dict[str, Any] = field(default_factory=dict)
    opened: dict[str, Any] | None = None

    def look(
        self, method: Method, probe: Site, site: Site, answers: NDArray[np.int64], details: dict[str, Any]
    ) -> None:
        """At a site as it has just given these answers to all its validation rows."""
        self.details = {key: value for key, value in details.items() if key != "left_out"} | {"answers": answers}
        if not can_open(method) or "own" not in self.details:
            return
        assert isinstance(method, OneShot)
        own = self.details["own"].argmax(axis=1)
        for _, row in rows_in_turn({site.name: (self.details["answers"], own)}):
            explained = method.explain(probe, site.val.X[row : row + 1])
            if explained is not None:
                names = site.classes[own[row]], site.classes[site.val.y[row]]
                self.opened = opened_case(
                    explained, *names, seed=0, method=method.called, site=site.name, row=row, part="validation"
                )
                return


def save_record(peer: PeerFolder, method: Method, site: Site, seen: Seen, report: Mapping[str, Any]) -> None:
    """Before the bundle, which is what counts: a report of another fit than the bundle's is noticed."""
    run = site.state[RUN]
    curves = {name: [[int(at), float(value) if np.isfinite(value) else None] for at, value in points]
              for name, points in run["curves"].items()}  # fmt: skip
    tree: dict[str, Any] = {
        "format": FORMAT,
        "report": dict(report),
        "site": site.name,
        "method": peer.settings.method,
        "settings": peer.settings.method_settings,
        "models": list(site.recipes),
        "classes": list(site.classes),
        "features": [feature.name for feature in site.features],
        "kind": site.kind,
        "positive": peer.task.positive,
        "y": site.val.y,
        "ours": seen.ours,
        "own": seen.own,
        "details": seen.details,
        "opened": seen.opened,
        "label_counts": np.bincount(site.train.y, minlength=len(site.classes)),
        "rounds": method.rounds,
        "took_part": run["took_part"],
        "best_round": run.get("best_round"),
        "curves": curves,
        "seconds": {"train": run["seconds"].get("share", 0.0), "fit": run["seconds"].get("absorb", 0.0)},
        "received": run["received"] or None,
        "privacy": privacy_of(method, site),
        "provenance": {
            "data": {"name": bare(str(peer.data_path.name)), "rows": sum(map(len, (site.train, site.val, site.test)))},
            "task": peer.federation.task,
            "peers": dict(report["peers"]),
            "made": peer.now(),
            **environment(),
        },
    }
    peer.bundle.save(RECORD, tree)


def site_run(folder: str | Path, *, case: bool = True) -> tuple[Run, dict[str, Any]]:
    """A site's last fit as a run with one site and one seed, whose test rows are the site's validation rows; and what
    `fit` reported, with the ``positive`` class of the task. ``folder``: the site's, or its bundle alone. ``case``: the
    one that is opened is shown with its values, which are read from the site's rows, where they are at hand."""
    path = Path(folder)
    bundle = path / BUNDLE if (path / BUNDLE).is_dir() else path
    tree = _read(bundle)
    method = tree["method"]
    named = {method: tree["settings"]} if tree["settings"] else {}
    experiment = Experiment(
        dataset="", partition="natural", models=tuple(tree["models"]), methods=tuple(dict.fromkeys((LOCAL, method))),
        method=named, seeds=1,
    )  # fmt: skip
    label = experiment.label(method)
    predictions = {(0, LOCAL, tree["site"]): _tree(tree, tree["own"], {})}
    if base_name(method) != LOCAL:
        details = tree["details"] or {"own": tree["own"]}
        taken = ("rounds", "took_part", "best_round", "curves", "seconds", "received", "privacy")
        more = {key: tree[key] for key in taken} | {"sent": None, "details": details}
        more |= {"fell_back": tree["report"]["fell_back"], "peers_left_out": tree["report"]["left_out"]}
        predictions[0, label, tree["site"]] = _tree(tree, tree["ours"], more)
    run = Run(
        experiment,
        results_of(predictions),
        path,
        predictions,
        classes=tuple(tree["classes"]),
        features=tuple(tree["features"]),
        kind=tree["kind"],
        opened=_opened(tree, bundle.parent, label) if case else None,
        provenance=tree["provenance"],
    )
    return run, {**tree["report"], "positive": tree["positive"]}


def is_site(folder: Path) -> bool:
    """Whether it is a site's folder, or a bundle that was fitted there."""
    return (folder / "peerwise.toml").is_file() or (folder / f"{RECORD}.json").is_file()


def _read(bundle: Path) -> dict[str, Any]:
    store = Store(bundle)
    if not store.has(RECORD):
        raise ConfigError(f"{bundle} has no {RECORD}.json: expected what 'peerwise fit' notes for the report. {AGAIN}")
    try:
        tree = store.load(RECORD)
        about = store.load_item(BUNDLE, "about")
    except (ParcelError, OSError) as error:
        raise BrokenFile(f"{bundle} is damaged ({error}): expected what 'peerwise fit' wrote. {AGAIN}") from error
    if tree.get("format") != FORMAT or tree["report"] != about["report"]:
        raise ConfigError(
            f"{bundle} was fitted otherwise than its {RECORD}.json says: expected both of one fit. {AGAIN}"
        )
    if tree["ours"] is None or tree["own"] is None:
        raise ConfigError(f"{bundle} was fitted without validation rows: expected some, as a report is of them.")
    return tree


def _tree(tree: Mapping[str, Any], said: NDArray[np.float64], more: Mapping[str, Any]) -> dict[str, Any]:
    return {**BLANK, "y": tree["y"], "probabilities": said, "label_counts": tree["label_counts"], **more}


def _opened(tree: Mapping[str, Any], site: Path, label: str) -> dict[str, Any] | None:
    """With the case's values, if the rows still are what they were."""
    opened: dict[str, Any] | None = tree["opened"]
    if opened is None:
        return None
    shown: dict[str, Any] = {"values": {}, "image": None}
    if (site / "peerwise.toml").is_file():
        rows = PeerFolder(site).site()
        if np.array_equal(rows.val.y, tree["y"]):
            shown = shown_case(rows.val.X[opened["row"] : opened["row"] + 1], rows.features)
    return in_order({**opened, **shown, "method": label}, tree["classes"], tree["features"])
