"""How a site reaches the others: through a folder that all see, or over the network."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from peerwise.errors import ConfigError, ExchangeError
from peerwise.registry import find_registered
from peerwise.run.peer.folder import PeerFolder
from peerwise.transport import (
    CertificateFiles,
    FolderTransport,
    Transport,
    ZenohTransport,
    open_session,
    zenoh_config,
)
from peerwise.transport.base import exchange_errors

OWN_SECONDS = 10.0  # to find this site's own live process


def outbox(peer: PeerFolder) -> Transport:
    """Where this site publishes; nobody need be there."""
    meeting = peer.settings.meeting
    if meeting.is_live:
        return FolderTransport(_outbox(peer), peer.name)
    make = find_registered(meeting.transport, "transports")
    with exchange_errors(f"opening transport {meeting.transport!r}"):
        transport = make(meeting.folder, peer.name)
    if not isinstance(transport, Transport):
        raise ConfigError(
            f"transport {meeting.transport!r} made {repr(transport)[:80]}: expected a peerwise.transport.Transport."
        )
    return transport


def connect(peer: PeerFolder, *, serve: bool = False) -> Transport:
    """To ask the others; the caller closes it. ``serve``: this process answers them meanwhile, unless another process
    of this site does so already."""
    if not peer.settings.meeting.is_live:
        return outbox(peer)
    if not serve:
        return connect_live(peer)
    try:
        return connect_live(peer, serve=True)
    except ExchangeError:  # `peerwise live` has the address, and serves the same outbox; or somebody else has it
        transport = connect_live(peer)
        if not _is_served(transport):
            transport.close()
            raise
        return transport


def connect_live(peer: PeerFolder, *, serve: bool = False) -> ZenohTransport:
    return ZenohTransport(
        open_session(session_config(peer, listening=serve)),
        name=peer.name,
        federation=peer.federation.task,
        outbox=_outbox(peer),
        cache=peer.path / "parts",
        serve=serve,
    )


def session_config(peer: PeerFolder, *, listening: bool) -> dict[str, Any]:
    """Members call each other at the addresses of the list; those of the settings come first. An expired
    member list is enough to request the next; what is fetched is verified against a valid list."""
    roster, meeting, keys = peer.known_roster(), peer.settings.meeting, peer.keys
    listed = [roster.member(name).address for name in roster.names if name != peer.name]
    known = [address for address in (*meeting.connect, *listed) if address]
    if not listening:
        known.append(meeting.listen)  # our own live process may know more of the others
    return zenoh_config(
        roster,
        peer.name,
        listen=meeting.listen if listening else None,
        connect=list(dict.fromkeys(known)),
        certificates=CertificateFiles(keys / "ca.crt", keys / "tls.crt", keys / f"{peer.name}.key"),
    )


def _is_served(transport: ZenohTransport) -> bool:
    """Whether another process of this site answers for it."""
    until = time.monotonic() + OWN_SECONDS
    while transport.name not in transport.members():
        if time.monotonic() > until:
            return False
        time.sleep(0.2)
    return True


def _outbox(peer: PeerFolder) -> Path:
    return peer.path / "outbox"
