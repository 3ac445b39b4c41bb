"""The desk of a site's folder after `peerwise fit`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from peerwise.data import Site
from peerwise.errors import ParcelError
from peerwise.federation import full_name
from peerwise.methods import Local, Method, OneShot
from peerwise.models.worker import Limits, Worker
from peerwise.parcels import sha256
from peerwise.parcels.signed.editions import edition
from peerwise.run.peer.answering import bundle_digest
from peerwise.run.peer.assurance import Assurance, rows_digest
from peerwise.run.peer.fitting import BUNDLE, bundle_about, read_bundle
from peerwise.run.peer.folder import PeerFolder
from peerwise.serve.desk import About, Desk, ServedModel
from peerwise.serve.known_rows import KnownRows
from peerwise.serve.method_desk import MethodDesk
from peerwise.serve.panel import Panel
from peerwise.serve.peer_lines import peer_lines
from peerwise.serve.pool_desk import PoolDesk
from peerwise.trust.bundle import learner_from_tree

Files = Mapping[str, bytes]


def open_site(folder: Path) -> Desk:
    try:
        return _opened(PeerFolder(folder))
    except ParcelError:  # it may just have been replaced; what is damaged stays so
        return _opened(PeerFolder(folder))


def _opened(peer: PeerFolder) -> Desk:
    worker = Worker()
    digest = bundle_digest(peer)
    try:
        method, site = read_bundle(peer, worker, later=False)
        bundle = bundle_about(peer)
        made = Assurance.from_tree(peer.bundle.load_item(BUNDLE, "assurance"), len(site.classes))
        files = _files(method, site)
        worker.limits = limits_for(files)
        about = _about(peer, site, bundle, made, files, digest)
        lines = peer_lines(peer, about, bundle["report"])
        known = KnownRows(peer.task, peer.site, partial(_is_same, made.rows))
        if bundle_digest(peer) != digest:  # parts of two bundles do not belong together
            raise ParcelError(f"{peer.bundle.folder} was replaced while it was opened: open it again.")
        if not isinstance(method, OneShot):
            return MethodDesk(about, method, site, worker, lines, known=known, sets=made.sets)
        learner = learner_from_tree(type(method.learner), site.state["learner"])
        places = [np.arange(len(site.classes))] * len(files)
        own = [model.name for model in about.models if model.own]
        panel = Panel(files, own, places, len(site.classes), worker, logits=True)
        return PoolDesk(
            about,
            learner,
            panel,
            worker,
            lines,
            known=known,
            sets=made.sets,
            cascade=made.cascade(type(method.learner)),
            frugal_sets=made.frugal_sets,
        )
    except BaseException:
        worker.close()
        raise


def limits_for(files: Files) -> Limits:
    """As usual, and room for all of these models to stay open together: no answer waits for one to be read again."""
    usual, size = Limits(), sum(map(len, files.values()))
    return Limits(
        memory_bytes=max(usual.memory_bytes, 2**29 + 4 * size), most_open_bytes=max(usual.most_open_bytes, 2 * size)
    )


def _files(method: Method, site: Site) -> dict[str, bytes]:
    """The pool in the order of the learner's columns, or the own models; none where the method has no such pool."""
    if isinstance(method, Local):
        return {full_name(name, site.name): data for name, data in site.state["models"].items()}
    if "learner" not in site.state or "pool" not in site.state:
        return {}
    return {name: site.state["pool"][name] for name in site.state["learner"]["names"]}


def _about(peer: PeerFolder, site: Site, bundle: dict[str, Any], made: Assurance, files: Files, digest: str) -> About:
    versions: dict[str, int] = bundle["report"]["peers"]
    task = peer.task
    models = []
    for name, data in files.items():
        home = name.rpartition("@")[2]
        version = edition(versions[home]) if home in versions else ""
        models.append(ServedModel(name, home, home == site.name, version, sha256(data)))
    return About(
        digest=digest,
        site=site.name,
        method=bundle["method"],
        task=task.name,
        kind=task.kind,
        classes=site.classes,
        positive=task.positive,
        target=task.target,
        inputs=task.inputs,
        features=task.features,
        models=tuple(models),
        made=bundle["made"],
        calibration_rows=made.sets.rows,
        frugal=made.has_cascade,
        sets=made.sets.kind,
        validation=bundle["report"]["validation"],
        own_models_answer=bundle["report"]["own_models_answer"],
    )


def _is_same(rows: str, site: Site) -> bool:
    return rows_digest(site) == rows
