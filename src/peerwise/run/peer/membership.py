"""The founder's work on the list of members: admit, revoke, renew, and new keys; and a member's answer to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from peerwise.errors import ConfigError, NotTrusted, ParcelError
from peerwise.parcels import write_atomic
from peerwise.parcels.signed import Identity, Member, Roster, opened_by_itself, rotation
from peerwise.run.peer.folder import PeerFolder
from peerwise.run.peer.founding import (
    checked_letter,
    read_letter,
    same_fingerprint,
    take_welcome,
    welcome,
    write_invite,
)
from peerwise.transport import Transport, sign_request

ROTATION = "rotation.json"


def admit(peer: PeerFolder, letter: Path, print_of: str, transport: Transport) -> dict[str, Any]:
    """Whatever file the other side has sent: a request (at the founder), a welcome or a new key."""
    data = read_letter(letter)
    with peer.held():
        if not peer.is_founder:
            return _welcomed(peer, letter, data)
        if (request := _opened(data, "request")) is not None:
            return _admit(peer, request, print_of, transport)
        try:
            roster = peer.known_roster().rotated(data, issued=peer.now())
        except ParcelError as error:
            raise NotTrusted(
                f"{letter} is neither the request.json of a site that wants to join nor the rotation.json of a member: "
                f"{error}"
            ) from error
        return _new_list(peer, roster, transport, "rotated")


def _welcomed(peer: PeerFolder, letter: Path, data: bytes) -> dict[str, Any]:
    founder = peer.federation.founder
    if _opened(data, "request") is not None:
        raise ConfigError(
            f"{letter} asks to join: expected the founder's welcome, as {peer.name!r} is not the founder. Send it to "
            f"{founder!r}, who admits it."
        )
    try:
        return take_welcome(peer, data)
    except ParcelError as error:
        raise NotTrusted(f"{letter} is not a welcome by the founder {founder!r}: {error}") from error


def _admit(peer: PeerFolder, request: dict[str, Any], print_of: str, transport: Transport) -> dict[str, Any]:
    """A member by name and key, once a person has compared the fingerprint."""
    checked_letter(request, "request")
    if request["federation"] != peer.federation.task:
        raise NotTrusted(
            f"the request is for task {request['federation'][:12]!r}: expected {peer.federation.task[:12]}."
        )
    same_fingerprint(request["key"], print_of, repr(request["name"]))
    member = Member(name=request["name"], key=request["key"], address=request["address"])
    certificate = b""
    if peer.settings.meeting.is_live:
        authority = peer.keys / "ca.key", peer.keys / "ca.crt"
        certificate = sign_request(request["certificate"].encode(), member.name, *authority)
    roster = peer.known_roster()
    if member not in roster.members:
        roster = roster.with_member(member, issued=peer.now())
        _new_list(peer, roster, transport, "admitted", member=member.name, key=member.key)
    letter = welcome(peer, peer.roster_path.read_bytes(), member, certificate)
    return {"member": member.name, "list": roster.version, "members": roster.names, "welcome": str(letter)}


def revoke(peer: PeerFolder, name: str, why: str, transport: Transport) -> dict[str, Any]:
    """From the next pull on nobody takes anything of that site."""
    _founder_only(peer)
    if not why.strip():
        raise ConfigError("the reason is empty: expected --why TEXT, which the list and the ledger keep.")
    if name == peer.name:
        raise ConfigError(f"{name!r} is the founder: expected another member. Nobody could sign the next list.")
    with peer.held():
        roster = peer.known_roster().revoked(name, why, issued=peer.now())
        return _new_list(peer, roster, transport, "revoked", member=name, why=why)


def renew(peer: PeerFolder, transport: Transport) -> dict[str, Any]:
    """The same members for another period."""
    _founder_only(peer)
    with peer.held():
        return _new_list(peer, peer.known_roster().renewed(peer.now()), transport, "renewed")


def rotate(peer: PeerFolder, transport: Transport) -> dict[str, Any]:
    """A new key for this site. A member sends the statement to the founder and goes on with the old key until the list
    has the new one; the founder's list has it at once."""
    with peer.held():
        fresh = peer.keys / "identity.next"
        if not fresh.is_file():
            Identity.new().save(fresh)
        statement = rotation(peer.identity, Identity.load(fresh), peer.name, peer.now())
        write_atomic(peer.path / ROTATION, statement)
        if not peer.is_founder:
            peer.ledger.add("rotation", key=Identity.load(fresh).public)
            return {"site": peer.name, "rotation": str(peer.path / ROTATION)}
        roster = peer.known_roster().rotated(statement, issued=peer.now())
        _show(peer, roster.signed(Identity.load(fresh)), transport)
        peer.take_next_key()
        write_invite(peer, peer.settings)
        peer.ledger.add("rotated", version=roster.version, key=peer.identity.public)
        return {"site": peer.name, "list": roster.version, "fingerprint": peer.identity.fingerprint}


def show_list(peer: PeerFolder, transport: Transport) -> None:
    """At the founder: publish the list, unless it is published already."""
    if not peer.is_founder:
        return
    data, published = peer.roster_path.read_bytes(), transport.fetch(peer.name, "roster")
    if published is None or published.manifest != data:
        transport.publish("roster", data, {})


def _new_list(peer: PeerFolder, roster: Roster, transport: Transport, what: str, **facts: Any) -> dict[str, Any]:
    _show(peer, roster.signed(peer.identity), transport)
    peer.ledger.add(what, version=roster.version, **facts)
    return {"list": roster.version, "expires": roster.expires, "members": roster.names}


def _show(peer: PeerFolder, data: bytes, transport: Transport) -> None:
    write_atomic(peer.roster_path, data)
    show_list(peer, transport)


def _founder_only(peer: PeerFolder) -> None:
    if not peer.is_founder:
        raise ConfigError(
            f"{peer.name!r} is not the founder: expected {peer.federation.founder!r}, who signs the list. Ask there."
        )


def _opened(data: bytes, kind: str) -> dict[str, Any] | None:
    try:
        return opened_by_itself(data, kind)
    except ParcelError:
        return None
