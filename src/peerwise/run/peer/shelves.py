"""Where a site meets the others: a folder that all see, or the network."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from peerwise.errors import ExchangeError
from peerwise.exchange.certificates import CertificateFiles
from peerwise.exchange.folder_shelf import FolderShelf
from peerwise.exchange.shelf import Shelf
from peerwise.exchange.zenoh_server import ZenohServer
from peerwise.exchange.zenoh_session import open_session
from peerwise.exchange.zenoh_settings import zenoh_config
from peerwise.exchange.zenoh_shelf import ZenohShelf
from peerwise.run.peer.folder import PeerFolder

OWN_SECONDS = 10.0  # to find this site's own live process


def outbox(peer: PeerFolder) -> FolderShelf:
    """Where this site lays out what it says; nobody need be there."""
    meeting = peer.settings.meeting
    return FolderShelf(peer.path / "outbox" if meeting.is_live else meeting.folder, peer.name)


def open_shelf(peer: PeerFolder) -> Shelf:
    """To ask the others; the caller closes it."""
    if not peer.settings.meeting.is_live:
        return outbox(peer)
    return _asking(peer)


@contextmanager
def opened_shelf(peer: PeerFolder, *, serving: bool = False) -> Iterator[Shelf]:
    """``serving``: this process answers the others meanwhile, unless another process of this site does so already."""
    if not peer.settings.meeting.is_live:
        yield outbox(peer)
        return
    with ExitStack() as stack:
        shelf = _serving(peer, stack) if serving else _asking(peer)
        stack.callback(shelf.close)
        yield shelf


def _asking(peer: PeerFolder) -> ZenohShelf:
    return zenoh_shelf(peer, open_session(session_config(peer, listening=False)))


def _serving(peer: PeerFolder, stack: ExitStack) -> ZenohShelf:
    try:
        session = open_session(session_config(peer, listening=True))
    except ExchangeError:  # `peerwise live` has the address, and serves the same outbox; or somebody else has it
        shelf = _asking(peer)
        if not _is_served(peer, shelf):
            shelf.close()
            raise
        return shelf
    stack.enter_context(server(peer, session))
    return zenoh_shelf(peer, session)


def _is_served(peer: PeerFolder, shelf: ZenohShelf) -> bool:
    """Whether another process of this site answers for it."""
    until = time.monotonic() + OWN_SECONDS
    while peer.name not in shelf.members():
        if time.monotonic() > until:
            return False
        time.sleep(0.2)
    return True


def session_config(peer: PeerFolder, *, listening: bool) -> dict[str, Any]:
    """Members call each other at the addresses of the list; those of the settings come first. A list that has ended
    will do to ask for the next one: what is signed is held against a list that counts."""
    roster, meeting = peer.known_roster(), peer.settings.meeting
    listed = [roster.member(name).address for name in roster.names if name != peer.name]
    known = [address for address in (*meeting.connect, *listed) if address]
    if not listening:
        known.append(meeting.listen)  # our own live process may know more of the others
    return zenoh_config(
        roster,
        peer.name,
        listen=meeting.listen if listening else None,
        connect=list(dict.fromkeys(known)),
        certificates=certificates(peer),
    )


def certificates(peer: PeerFolder) -> CertificateFiles:
    keys = peer.keys
    return CertificateFiles(keys / "ca.crt", keys / "tls.crt", keys / f"{peer.name}.key")


def server(peer: PeerFolder, session: Any) -> ZenohServer:
    return ZenohServer(session, name=peer.name, federation=peer.federation.task, outbox=_outbox(peer))


def zenoh_shelf(peer: PeerFolder, session: Any) -> ZenohShelf:
    return ZenohShelf(
        session,
        name=peer.name,
        federation=peer.federation.task,
        outbox=_outbox(peer),
        cache=peer.path / "parts",
    )


def _outbox(peer: PeerFolder) -> Path:
    return peer.path / "outbox"
