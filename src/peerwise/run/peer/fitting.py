"""Learn whom to trust from the peers' accepted models, and write the bundle that answers."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Inputs, Rows, Sequences, Site
from peerwise.data.task import Task
from peerwise.errors import ConfigError, ExchangeError, ParcelError, reason
from peerwise.federation import (
    PEERS_LEFT_OUT,
    Broadcast,
    Session,
    answer_codes,
    answer_with_details,
    check_sites,
    combine,
    combines,
    usable,
)
from peerwise.federation.method import FELL_BACK
from peerwise.methods import Local, Method, OneShot
from peerwise.methods.instability import instability
from peerwise.methods.own_models import mean_probabilities
from peerwise.metrics import LOWER_IS_BETTER, accuracy, scores
from peerwise.models import one_thread
from peerwise.models.worker import Worker
from peerwise.parcels import Parcel
from peerwise.run.peer.arrivals import in_use, note_once, parcel_of
from peerwise.run.peer.assurance import assured
from peerwise.run.peer.folder import PeerFolder
from peerwise.run.peer.methods import is_published, made_method, method_of
from peerwise.run.peer.record import Seen, save_record
from peerwise.run.peer.training import trained
from peerwise.transport import Transport

BUNDLE = "bundle"
AFTERWARDS = "afterwards"
FORMAT = 3


def fit(
    peer: PeerFolder, worker: Worker, transport: Transport | None = None, *, use_peers: bool = False
) -> dict[str, Any]:
    """For methods that exchange models once. Without peers, the site's own models answer. With a ``transport``, what a
    method shares after that (who has contributed how much) is published and fetched as well.

    Where the method is worse than the own models on the validation rows, by the task's metric, the bundle answers with
    the own models, unless ``use_peers``.
    """
    with peer.held():
        return fit_held(peer, worker, transport, use_peers=use_peers)


def fit_held(
    peer: PeerFolder, worker: Worker, transport: Transport | None = None, *, use_peers: bool
) -> dict[str, Any]:
    """`fit` in a folder that the caller holds."""
    method = method_of(peer)
    if not is_published(method):
        raise ConfigError(f"{method.called} has {method.rounds} rounds: expected a method that publishes models.")
    site = peer.site().replace(opener=worker.open)
    used = in_use(peer)
    check_sites(method, [site])
    with one_thread():
        session = Session(method, site)
        later = isinstance(method, OneShot)  # it asks one model after the other
        parcels = {name: parcel_of(peer, used[name], later=later) for name in used}
        parcels[peer.name] = session.step(None, 0)
        broadcast = combine(method, 0, dict(sorted(parcels.items())), {}, site.seed)[0]
        content = broadcast.content if combines(method) else usable(method, broadcast.content, {})[0]
        before = copy.deepcopy(site.state)
        session.step(broadcast, 1, shares=False)
        if method.rounds > 1 and transport is not None:
            _afterwards(peer, session, transport, list(used))
        seen = Seen()
        report = {
            **measured(peer, method, site.replace(state=before), content, seen),
            "peers": {name: arrival.version for name, arrival in used.items()},
            "left_out": dict(site.state.get(PEERS_LEFT_OUT, {})),
            "fell_back": site.state.get(FELL_BACK),
            "instability": _instability(method, site),
            "chosen_on_validation": False,
        }
    return saved(peer, method, site, seen, report, use_peers=use_peers)


def _afterwards(peer: PeerFolder, session: Session, transport: Transport, peers: list[str]) -> None:
    """Share once more what only this round can tell, and absorb what peers have shared of it by now."""
    parcels = {peer.name: session.step(None, 1)}
    signed = peer.signed(transport)
    for name in (peer.name, *peers):
        try:
            if name != peer.name:
                found = signed.fetch(name, AFTERWARDS)
                parcels[name] = Parcel() if found is None else found.read()
            elif parcels[name]:
                signed.publish(AFTERWARDS, parcels[name])
        except (ParcelError, ExchangeError) as error:
            note_once(peer, name, AFTERWARDS, reason(error))
    session.step(Broadcast(1, {name: parcel for name, parcel in parcels.items() if parcel}), 2, shares=False)


def _instability(method: Method, site: Site) -> dict[str, Any] | None:
    """How much hangs on each peer; None where too few rows can tell."""
    if not isinstance(method, OneShot):
        return None
    found = instability(method, site)
    return asdict(found) if found.rows else None


def measured(peer: PeerFolder, method: Method, site: Site, content: Any, seen: Seen) -> dict[str, Any]:
    """Both on the validation rows: the method and the own model of the same pool."""
    if not len(site.val):
        return {"validation": None}
    seen.ours, answers = unlearned_answers(method, site, content, seen)
    seen.own = own_answers(site)
    return {"validation": compared(peer, site, seen.ours, answers, seen.own)}


def unlearned_answers(
    method: Method, site: Site, content: Any, seen: Seen | None = None
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Class probabilities and answers for the validation rows of a site that is about to absorb, each half of them from
    what has not learned from that half: no figure is of rows that were learned from. A trust learner does without them
    all."""
    every = np.arange(len(site.val))
    order = site.rng("validation halves").permutation(every)
    halves = [every] if isinstance(method, OneShot) else np.array_split(order, 2)
    found, answers = np.empty((len(site.val), len(site.classes))), np.empty(len(site.val), np.int64)
    for half in (half for half in halves if len(half)):
        rest = site.val.take(np.setdiff1d(order, half))
        probe = site.replace(val=rest, state=copy.deepcopy(site.state))
        method.absorb(probe, 0, content)
        found[half], details = answer_with_details(method, probe, site.val.X[half])
        answers[half] = answer_codes(method, probe, found[half])
        if seen is not None and len(halves) == 1:
            seen.look(method, probe, site, answers, details)
    return found, answers


def own_answers(site: Site) -> NDArray[np.float64]:
    with one_thread():
        return mean_probabilities(site, trained(site).files, site.val.X)


def compared(
    peer: PeerFolder, site: Site, ours: NDArray[np.float64], answers: NDArray[np.int64], own: NDArray[np.float64]
) -> dict[str, Any]:
    """Both by the task's metric and by accuracy, and the verdict in words."""
    metric, code = peer.task.metric, peer.task.positive_code
    y = site.val.y
    given = ((ours, answers), (own, own.argmax(axis=1)))
    figures = [_known(scores(y, *each, positive=code)[metric]) for each in given]
    right, own_right = answers == y, own.argmax(axis=1) == y
    return {
        "rows": len(y),
        "metric": metric,
        "ours": figures[0],
        "own": figures[1],
        **_verdict(figures[0], figures[1], lower=metric in LOWER_IS_BETTER),
        "accuracy": accuracy(y, answers),
        "own_accuracy": accuracy(y, own.argmax(axis=1)),
        "gained": int((right & ~own_right).sum()),
        "lost": int((~right & own_right).sum()),
    }


def _known(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _verdict(ours: float | None, own: float | None, *, lower: bool) -> dict[str, Any]:
    if ours is None or own is None:
        return {"verdict": "not comparable: the metric is not defined on these rows", "worse": False}
    if ours == own:
        return {"verdict": "as good as the own models", "worse": False}
    worse = (ours > own) == lower
    return {"verdict": "WORSE than the own models" if worse else "better than the own models", "worse": worse}


def saved(
    peer: PeerFolder,
    method: Method,
    site: Site,
    seen: Seen,
    report: Mapping[str, Any],
    *,
    use_peers: bool,
    by_rounds: bool = False,
) -> dict[str, Any]:
    """Write the record for the report, then the bundle; the report, and whether the own models answer alone."""
    worse = report["validation"] is not None and report["validation"]["worse"]
    found = {**report, "own_models_answer": worse and not use_peers}
    save_record(peer, method, site, seen, found)
    if found["own_models_answer"]:
        method, site = Local(), site.replace(state={"models": trained(site).files})
    save_bundle(peer, method, site, found, use_peers=use_peers, by_rounds=by_rounds)
    return found


def save_bundle(
    peer: PeerFolder, method: Method, site: Site, report: Mapping[str, Any], *, use_peers: bool, by_rounds: bool
) -> None:
    """Models, what was learned, how sure it is, and what is needed to read rows; never the rows themselves."""
    with one_thread():
        made = assured(method, site, by_class=peer.settings.sets == "by-class")
    about = {
        "format": FORMAT,
        "task": peer.federation.task,
        "method": peer.settings.method,
        "settings": peer.settings.method_settings,
        "sites": len(peer.members),
        "made": peer.now(),
        "by_rounds": by_rounds,
        "use_peers": use_peers,
        "site": {"name": site.name, "seed": site.seed, "recipes": list(site.recipes)},
        "report": dict(report),
    }
    peer.bundle.save(BUNDLE, {"about": about, "state": site.state, "assurance": made.to_tree()})
    peer.bundle.remove_unused()
    peer.ledger.add("fitted", method=peer.settings.method, peers=dict(report["peers"]))


def fitted_with(peer: PeerFolder) -> dict[str, int] | None:
    """The peers' versions that the bundle holds; None without a bundle."""
    if not peer.bundle.has(BUNDLE):
        return None
    found: dict[str, int] = bundle_about(peer)["report"]["peers"]
    return found


def bundle_about(peer: PeerFolder) -> dict[str, Any]:
    about: dict[str, Any] = peer.bundle.load_item(BUNDLE, "about")
    if about.get("format") != FORMAT:
        raise ParcelError(
            f"{peer.bundle.folder} is of format {about.get('format')!r}: expected {FORMAT}. Run 'peerwise fit' again."
        )
    return about


def read_bundle(peer: PeerFolder, worker: Worker, *, later: bool = True) -> tuple[Method, Site]:
    """What answers, without this site's rows. ``later``: peers' models stay where they are until they are asked, if one
    is asked after the other."""
    if not peer.bundle.has(BUNDLE):
        raise ConfigError(f"{peer.path} has no bundle: expected one that answers. Run 'peerwise fit' first.")
    try:
        method, about, state = _parts_of_bundle(peer, later)
    except ParcelError:  # it may just have been replaced; what is damaged stays so
        method, about, state = _parts_of_bundle(peer, later)
    if about["task"] != peer.federation.task:
        raise ConfigError(f"{peer.bundle.folder} was made for another task: run 'peerwise fit' again.")
    blank = Rows(blank_row(peer.task), np.zeros(1, np.int64))
    site = Site(
        name=about["site"]["name"],
        kind=peer.task.kind,
        classes=peer.task.classes,
        train=blank,
        val=blank.take(slice(0, 0)),
        test=blank.take(slice(0, 0)),
        features=peer.task.columns,
        recipes=tuple(about["site"]["recipes"]),
        seed=about["site"]["seed"],
        state=state,
        opener=worker.open,
    )
    return method, site


def _parts_of_bundle(peer: PeerFolder, later: bool) -> tuple[Method, dict[str, Any], dict[str, Any]]:
    about = bundle_about(peer)
    own_models_answer = about["report"]["own_models_answer"]
    method = Local() if own_models_answer else made_method(about["method"], about["settings"], about["sites"])
    return method, about, peer.bundle.load_item(BUNDLE, "state", later=later and isinstance(method, OneShot))


def blank_row(task: Task) -> Inputs:
    """One row of the task's shape."""
    parts = [np.zeros((1, *shape), np.uint8 if task.kind == "image" else np.float32) for shape in task.inputs.values()]
    return Sequences(*parts) if task.kind == "sequence" else parts[0]
