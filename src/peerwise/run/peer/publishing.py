"""Show own models to the others: checked first for what they hold of the rows, exactly as previewed, and signed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from peerwise.data import Site, digest
from peerwise.errors import ConfigError, ExchangeError, MayNotLeave, ParcelError
from peerwise.federation import Session, check_sites, privacy_of
from peerwise.methods import Method
from peerwise.models import ZOO, OnnxModel, Recipe, one_thread, own_recipe
from peerwise.parcels import Parcel, sha256
from peerwise.parcels.card import about, model_card
from peerwise.parcels.egress import Privacy, cleaned, contents, inspect, membership, recipe_fit, rows_bucket
from peerwise.parcels.promise import named_classes
from peerwise.parcels.signed import canonical, opened
from peerwise.run.peer.folder import PeerFolder
from peerwise.run.peer.methods import is_published, method_of
from peerwise.transport import SignedTransport, Transport

TOPIC = "models"
PUBLISHED = "published.json"


@dataclass(frozen=True)
class Outgoing:
    """All that would leave: the parcel, its card, and what was found in each model. ``held``: models held back, with
    the reason."""

    parcel: Parcel
    card: dict[str, Any]
    findings: dict[str, dict[str, Any]]
    held: dict[str, str]


def outgoing(peer: PeerFolder, *, allow: str = "") -> Outgoing:
    """What `publish` would send now. ``allow``: a person's reason to let models leave that would be held back."""
    method, site = method_of(peer), peer.site()
    if not is_published(method):
        raise ConfigError(
            f"{method.called} has {method.rounds} rounds and publishes nothing beforehand: run 'peerwise fit' at all "
            f"sites at the same time."
        )
    check_sites(method, [site])
    with one_thread():
        said = Session(method, site).step(None, 0)
        # Counts with noise that is accounted for may leave from leaves of any size.
        min_leaf = 0 if privacy_of(method, site) is not None else peer.settings.min_leaf
        models = {name: cleaned(data) for name, data in said.get("models", {}).items()}
        findings: dict[str, dict[str, Any]] = {}
        held: dict[str, str] = {}
        for name, data in models.items():
            try:
                findings[name] = _checked(peer, site, name, data, min_leaf)
            except MayNotLeave as error:
                held[name] = str(error)
                findings[name] = {"held": str(error), "attack": None}
    left = {name: data for name, data in models.items() if allow or name not in held}
    parcel = Parcel(**{**said, "models": left}) if models else said
    leaving = {name: found for name, found in findings.items() if name in left}
    return Outgoing(parcel, _card(peer, method, site, leaving, allow), findings, held)


def _checked(peer: PeerFolder, site: Site, name: str, data: bytes, min_leaf: int) -> dict[str, Any]:
    """Kept, so that what was previewed is published without being attacked again."""
    rows = [digest(part.X, part.y) for part in (site.train, site.val)]
    limits = [min_leaf, peer.settings.attack_seconds]
    parts = {"what": "egress", "model": sha256(data), "rows": rows, "limits": limits}
    return site.keep(parts, lambda: _looked(peer, site, name, data, min_leaf))


def _looked(peer: PeerFolder, site: Site, name: str, data: bytes, min_leaf: int) -> dict[str, Any]:
    inspected = inspect(data, site.train, min_leaf=min_leaf)
    attack = None
    if len(site.train) > 1 and len(site.val) > 1:
        recipe = _recipe(peer, name)
        fit = None
        if recipe is not None and not recipe.by_epochs:
            fit = recipe_fit(recipe, classes=len(site.classes), features=site.features)
        attack = membership(
            OnnxModel(data, name=name),
            site.train,
            site.val,
            fit=fit,
            budget=peer.settings.attack_seconds,
            seed=site.seed_for("attack"),
        )
    return {"holds": asdict(inspected), "attack": None if attack is None else attack.facts()}


def _recipe(peer: PeerFolder, name: str) -> Recipe | None:
    """How this site trained the model of this name; None for one that a method made."""
    own = [own_recipe(model) for model in peer.models if model not in ZOO]
    return next((recipe for recipe in own if recipe.name == name), ZOO.get(name))


def _card(peer: PeerFolder, method: Method, site: Site, findings: dict[str, Any], allowed: str) -> dict[str, Any]:
    spent = privacy_of(method, site)
    privacy = None if spent is None else Privacy(spent["epsilon"], spent.get("delta") or 0.0, *_unit(spent))
    present = sorted(set(site.train.y.tolist()))
    training = {"classes_trained_on": named_classes([site.classes[code] for code in present])}
    permission = {"allowed_because": allowed[:200]} if allowed else {}
    return model_card(
        {"name": peer.task.name, "digest": peer.task.digest, "kind": peer.task.kind},
        classes=site.classes,
        features=[feature.name for feature in site.features],
        rows=rows_bucket(len(site.train)),
        models={
            name: about(
                {"recipe": name, **training, **(permission if "held" in found else {})},
                privacy=privacy,
                attack=found["attack"],
            )
            for name, found in findings.items()
        },
        licence=peer.settings.licence,
    )


def _unit(spent: dict[str, Any]) -> tuple[str, str]:
    return ("client" if spent["unit"] == "site" else "record"), str(spent.get("accountant") or "exact")


def preview(peer: PeerFolder, transport: Transport, *, allow: str = "") -> dict[str, Any]:
    """Exactly what would leave, to the byte; nothing is sent."""
    with peer.held():
        going = outgoing(peer, allow=allow)
        signed = peer.signed(transport)
        sealed, blobs = signed.sealed(TOPIC, going.parcel, going.card)
        payload = opened(sealed, "manifest", [peer.identity.public])
        return {
            "to": [name for name in peer.known_roster().names if name != peer.name],
            "items": [asdict(item) for item in contents(payload, blobs)],
            "bytes": len(sealed) + sum(map(len, blobs.values())),
            "card": going.card,
            "findings": going.findings,
            "held": going.held,
        }


def publish(peer: PeerFolder, transport: Transport, *, allow: str = "") -> dict[str, Any]:
    """Sign and lay out. Models that have not changed since, and have half their time ahead, are not shown again. Those
    that may not leave stay here, where they answer beside the others; if none may leave, that is an error."""
    with peer.held():
        signed = peer.signed(transport)
        going = outgoing(peer, allow=allow)
        if going.held and not going.parcel["models"]:
            name, why = next(iter(going.held.items()))
            raise MayNotLeave(f"model {name!r} may not leave: {why}")
        models = sorted(going.parcel.get("models", {}))
        left = {"models": models, "held": going.held}
        content = sha256(going.parcel.encode()[0] + canonical(going.card))
        last = peer.read_json(PUBLISHED)
        half = peer.now() + peer.settings.lifetime // 2
        if last.get("content") == content and last["expires"] > half and _is_shown(signed, last["version"]):
            return {"version": last["version"], "again": False, "expires": last["expires"], **left}
        manifest = signed.publish(TOPIC, going.parcel, going.card)
        stay = sorted(set(going.held) - set(models))
        peer.ledger.add("published", version=manifest.version, models=models, held=stay, why=allow)
        shown = {"version": manifest.version, "expires": manifest.expires}
        peer.write_json(PUBLISHED, {**shown, "content": content, "key": peer.identity.public})
        return {**shown, "again": True, "bytes": manifest.nbytes, **left}


def _is_there(signed: SignedTransport) -> bool:
    """Whether this site has published something, be it expired or under a former key."""
    try:
        found = signed.fetch(signed.name, TOPIC)
    except ParcelError:
        return True
    return found is not None and found.manifest.withdrawn is None


def _is_shown(signed: SignedTransport, version: int) -> bool:
    """Whether all of it can still be read by the members: a place can be emptied, and a key replaced."""
    try:
        found = signed.fetch(signed.name, TOPIC)
        return found is not None and found.manifest.version == version and bool(found.read())
    except (ParcelError, ExchangeError):
        return False


def withdraw(peer: PeerFolder, transport: Transport, why: str) -> dict[str, Any]:
    """Take back what was published: peers remove it at their next pull."""
    if not why.strip():
        raise ConfigError("the reason is empty: expected --why TEXT, which the peers and the ledger keep.")
    with peer.held():
        signed = peer.signed(transport, ended_too=True)  # to take back, nobody waits for the founder
        if not _is_there(signed) and not peer.read_json(PUBLISHED):  # the latter after a kill in the midst of this
            raise ConfigError(f"{peer.name} has published nothing: there is nothing to withdraw.")
        manifest = signed.withdraw(TOPIC, why)
        peer.ledger.add("withdrew", version=manifest.version, why=why)
        peer.write_json(PUBLISHED, {})
        return {"version": manifest.version, "why": why}
