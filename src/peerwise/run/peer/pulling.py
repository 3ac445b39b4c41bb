"""Fetch what peers publish: verified, through the gate, tried on own rows in the worker, then left to a decision."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from peerwise.data import Site
from peerwise.errors import ClassMismatch, ExchangeError, ParcelError, PeerwiseError, StorageError, reason
from peerwise.models.worker import Worker
from peerwise.parcels import Parcel, write_atomic
from peerwise.parcels.card import check_card
from peerwise.parcels.gate import Gate, ModelFacts, admitted_models, checked_models
from peerwise.parcels.promise import promising
from peerwise.parcels.signed import Manifest
from peerwise.run.peer.arrivals import (
    Decided,
    arrivals,
    decisions,
    forget,
    forget_older,
    in_use,
    keep_arrival,
    note_once,
)
from peerwise.run.peer.fitting import bundle_about, fit_held, fitted_with
from peerwise.run.peer.folder import PeerFolder
from peerwise.run.peer.membership import show_list
from peerwise.transport import SignedParcel, SignedTransport, Transport

TOPIC = "models"
FETCHED = "fetched"
TRIED = 256  # own rows on which a peer's model must keep its contract before anybody looks at it

Outcome = dict[str, Any]


@dataclass(frozen=True)
class Here:
    """What one pull works with. What has arrived and what was decided are read once, not once a member: a pull looks at
    each member once, and changes nothing of the others."""

    peer: PeerFolder
    signed: SignedTransport
    site: Site
    gate: Gate
    worker: Worker
    versions: Mapping[tuple[str, int], Decided]
    decided: Mapping[tuple[str, int], tuple[Decided, str, str]]


def pull(peer: PeerFolder, transport: Transport, worker: Worker) -> dict[str, Any]:
    """What became of each member's models, and whether the fitted pool had to change at once."""
    with peer.held():
        members = take_list(peer, transport)
        peer.take_next_key()
        signed = peer.signed(transport, cache=peer.path / FETCHED)
        versions = {(arrival.site, arrival.version): arrival.decided for arrival in arrivals(peer)}
        here = Here(peer, signed, peer.site(), Gate(worker), worker, versions, decisions(peer.ledger))
        looked = {name: _tried(here, name, partial(_looked, here, name)) for name in others(peer)}
        peers = looked | _fetched(here, looked)
        for name in {site for site, _ in versions} - set(peers):
            _leave(peer, name, "no member any more")
            peers[name] = {"outcome": "removed", "why": "no member any more"}
        forget_older(peer)
        refitted = _honour(peer, worker)
        return {"members": members, "peers": peers, "refitted": refitted}


def others(peer: PeerFolder) -> list[str]:
    return [name for name in peer.roster().names if name != peer.name]


def take_list(peer: PeerFolder, transport: Transport) -> dict[str, Any]:
    """The newest list of members that the founder signed, if it can be had; an older one is never taken."""
    known = peer.known_roster()
    show_list(peer, transport)
    try:
        shown = transport.fetch(peer.federation.founder, "roster")
    except ExchangeError as error:
        return {"version": known.version, "expires": known.expires, "note": str(error)}
    if shown is None:
        return {"version": known.version, "expires": known.expires, "note": "the founder shows none"}
    try:
        found = peer.heard_roster(shown.manifest)
    except ParcelError as error:
        note_once(peer, peer.federation.founder, "roster", reason(error))
        return {"version": known.version, "expires": known.expires, "note": reason(error)}
    if found.version > known.version:
        peer.ledger.add("list", version=found.version, members=len(found.members))
        write_atomic(peer.roster_path, shown.manifest)
    return {"version": found.version, "expires": found.expires, "note": ""}


def _tried(here: Here, name: str, step: Callable[[], Any]) -> Any:
    """Record the error, exclude this peer, continue."""
    try:
        return step()
    except StorageError:  # our own disk: no peer is to blame
        raise
    except ExchangeError as error:
        note_once(here.peer, name, TOPIC, reason(error))
        return {"outcome": "unreachable", "why": str(error)}
    except PeerwiseError as error:
        note_once(here.peer, name, TOPIC, reason(error))
        return {"outcome": "refused", "why": reason(error)}


def _looked(here: Here, name: str) -> Outcome | SignedParcel:
    """The outcome for a member whose models are not fetched; its parcel, unread, if they are new."""
    found = here.signed.fetch(name, TOPIC)
    if found is None:
        return {"outcome": "nothing", "why": "it has published nothing"}
    manifest = found.manifest
    if manifest.withdrawn is not None:
        return _withdrawn(here.peer, manifest)
    if (name, manifest.version) in here.versions:
        _follow(here, manifest)  # a pull that was killed may have left that to this one
        return {"outcome": "known", "version": manifest.version}
    _check_claims(here.peer, check_card(manifest.card))
    return found


def _fetched(here: Here, looked: Mapping[str, Outcome | SignedParcel]) -> dict[str, Outcome]:
    """Newer versions of the peers that this site has, and of the others as many as the settings allow, the most
    promising first. One whose models do not pass takes no place."""
    new = {name: found for name, found in looked.items() if isinstance(found, SignedParcel)}
    most = here.peer.settings.most_peers
    taken_back = {name for name, found in looked.items() if isinstance(found, dict) and found["outcome"] == "withdrawn"}
    have = {site for (site, _), what in here.versions.items() if what != "refused" and site in looked} - taken_back
    room = max(0, most - len(have)) if most else len(new)
    order = _promising(here, new) if most else list(new)
    outcomes: dict[str, Outcome] = {}
    for name in sorted(order, key=lambda name: name not in have):
        if name not in have and room == 0:
            why = f"others promise more by their cards, and there is room for {most} (most_peers)"
            outcomes[name] = {"outcome": "not fetched", "why": why}
            continue
        outcomes[name] = _tried(here, name, partial(_take_in, here, new[name]))
        shutil.rmtree(here.peer.path / FETCHED, ignore_errors=True)  # what was taken in lies with the arrivals
        room -= name not in have and outcomes[name]["outcome"] == "new"
    return outcomes


def _promising(here: Here, new: Mapping[str, SignedParcel]) -> list[str]:
    labels, site = np.concatenate([here.site.train.y, here.site.val.y]), here.site
    shares = np.bincount(labels, minlength=len(site.classes)) / len(labels)
    cards = {name: found.manifest.card or {} for name, found in new.items()}
    return promising(cards, dict(zip(site.classes, shares.tolist(), strict=True)), here.peer.name)


def _take_in(here: Here, found: SignedParcel) -> Outcome:
    peer, manifest, parcel = here.peer, found.manifest, found.read()
    passed, facts, left_out = admitted(parcel, manifest.site, here.site, peer.task.inputs, here.gate, here.worker)
    for model, why in left_out.items():
        note_once(peer, manifest.site, model, why, version=manifest.version)
    if left_out and not passed:
        raise ParcelError(f"none of its models passed: {next(iter(left_out.values()))}")
    keep_arrival(peer, manifest, Parcel(**{**parcel, "models": passed}) if passed else parcel, facts, left_out)
    peer.ledger.add("arrived", site=manifest.site, version=manifest.version, models=sorted(passed))
    _follow(here, manifest)
    return {"outcome": "new", "version": manifest.version, "models": sorted(passed), "left_out": left_out}


def admitted(
    parcel: Parcel, sender: str, site: Site, inputs: Mapping[str, tuple[int, ...]], gate: Gate, worker: Worker
) -> tuple[dict[str, bytes], dict[str, Any], dict[str, str]]:
    """The models that pass the gate and keep their contract on this site's rows, facts of these, and why others do
    not."""
    # Without any it holds arrays, which are no program; its method checks them.
    models = checked_models(parcel.get("models", {}), sender)
    if models and parcel.get("classes") != list(site.classes):
        raise ClassMismatch(
            f"site {sender!r} answers over {repr(parcel.get('classes'))[:200]}: expected {list(site.classes)}, as the "
            f"task has them, in this order."
        )
    found = admitted_models(
        models,
        sender,
        worker,
        inputs=inputs,
        classes=len(site.classes),
        rows=(site.val if len(site.val) else site.train).X[:TRIED],
        gate=gate,
        check=lambda facts: _check_names(facts, site, sender),
    )
    return found.passed, {name: asdict(facts) for name, facts in found.facts.items()}, found.left_out


def _check_claims(peer: PeerFolder, card: Mapping[str, Any]) -> None:
    """Most of a card can only be believed; whether it is of this task can be seen."""
    if card["task"]["digest"] != peer.federation.task or card["classes"] != list(peer.task.classes):
        raise ParcelError(
            f"its card is of the task {card['task']['name']!r} ({card['task']['digest'][:12]}) with the classes "
            f"{repr(card['classes'])[:200]}: expected {peer.federation.task[:12]} with {list(peer.task.classes)}."
        )


def _check_names(found: ModelFacts, site: Site, sender: str) -> None:
    """A file that names its classes or features must have the task's, in the task's order; classes may be numbered."""
    classes, numbered = list(site.classes), [str(code) for code in range(len(site.classes))]
    if found.classes is not None and [str(name) for name in found.classes][: len(classes)] not in (classes, numbered):
        raise ClassMismatch(
            f"the file of {sender!r} answers over {str(found.classes)[:200]}: expected {classes}, in this order."
        )
    features = [feature.name for feature in site.features]
    if found.features is not None and list(found.features) != features:
        raise ParcelError(
            f"the file of {sender!r} takes {str(found.features)[:200]}: expected {str(features)[:200]}, in this order."
        )


def _follow(here: Here, manifest: Manifest) -> None:
    """Accept without asking where the settings say so; the ledger says that nobody was asked."""
    peer, ask, site = here.peer, here.peer.settings.ask, manifest.site
    decided = {version: what for (name, version), (what, _, _) in here.decided.items() if name == site}
    before = {version: what for version, what in decided.items() if version < manifest.version}
    if manifest.version in decided:
        return
    if ask == "never":
        peer.ledger.add("accepted", site=site, version=manifest.version, why="nobody is asked (ask = never)")
    elif ask == "first" and before and before[max(before)] == "accepted":
        peer.ledger.add("accepted", site=site, version=manifest.version, why=f"follows version {max(before)}")


def _withdrawn(peer: PeerFolder, manifest: Manifest) -> Outcome:
    _leave(peer, manifest.site, f"withdrawn: {manifest.withdrawn}", version=manifest.version)
    return {"outcome": "withdrawn", "version": manifest.version, "why": manifest.withdrawn}


def _leave(peer: PeerFolder, site: str, why: str, **facts: Any) -> None:
    if any(arrival.site == site for arrival in arrivals(peer)):
        peer.ledger.add("removed", site=site, why=why, **facts)
        forget(peer, site)


def _honour(peer: PeerFolder, worker: Worker) -> dict[str, Any] | None:
    """A fitted pool with models that may not be used any more is fitted again without them, now."""
    held = fitted_with(peer)
    if held is None:
        return None
    about = bundle_about(peer)
    if about["by_rounds"]:  # what was learned in rounds cannot be taken out again
        return None
    allowed = in_use(peer)
    gone = sorted(site for site in held if site not in allowed)
    if not gone:
        return None
    return {"without": gone, **fit_held(peer, worker, use_peers=about["use_peers"])}
