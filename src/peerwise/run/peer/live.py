"""A site that stays: it answers the members from its outbox, and looks at times for what is new."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing

from peerwise.errors import ConfigError, ExchangeError, PeerwiseError, reason
from peerwise.models.worker import Worker
from peerwise.run.peer.connection import connect_live, outbox
from peerwise.run.peer.folder import PeerFolder
from peerwise.run.peer.membership import show_list
from peerwise.run.peer.pulling import pull, take_list
from peerwise.transport import Transport

LIST_SECONDS = 30.0  # how often the list of members is asked for
AGAIN_SECONDS = 5.0
QUIET = ("known", "nothing", "unreachable", "not fetched")  # outcomes that are no news

Tell = Callable[[str], None]


def live(peer: PeerFolder, stop: threading.Event, tell: Tell, *, pull_seconds: float = 300.0) -> None:
    """Until ``stop``. A new list of members needs a new session, because access is settled when one is opened."""
    if not peer.settings.meeting.is_live:
        raise ConfigError(f"{peer.name} meets the others in a folder, where nobody has to stay: run 'peerwise pull'.")
    show_list(peer, outbox(peer))
    opened = False
    while not stop.is_set():
        known = peer.known_roster()
        try:
            transport = connect_live(peer, serve=True)
        except ExchangeError as error:
            if not opened:
                raise
            tell(reason(error))  # another command of this site may have taken the address meanwhile
            stop.wait(AGAIN_SECONDS)
            continue
        opened = True
        with closing(transport):
            names = ", ".join(name for name in known.names if name != peer.name)
            tell(f"{peer.name} is live at {peer.settings.meeting.listen}, list {known.version}: {names}")
            _stay(peer, transport, known.version, stop, tell, pull_seconds)
    tell("stopped")


def _stay(
    peer: PeerFolder, transport: Transport, version: int, stop: threading.Event, tell: Tell, every: float
) -> None:
    """Until the list of members has changed, or the end."""
    waited, before = every, dict[str, str]()
    while not stop.is_set():
        try:
            if every and waited >= every:
                waited = 0.0
                with Worker() as worker:
                    found = pull(peer, transport, worker)
                now = {name: str(one["outcome"]) for name, one in found["peers"].items()}
                for name, outcome in now.items():
                    if outcome not in (*QUIET, before.get(name)):
                        tell(f"{name}: {outcome}")
                before = now
            else:
                with peer.held():
                    take_list(peer, transport)
        except PeerwiseError as error:  # a site that stays outlives what one look has found
            tell(reason(error))
        if peer.known_roster().version != version:
            return
        stop.wait(min(LIST_SECONDS, every) if every else LIST_SECONDS)
        waited += min(LIST_SECONDS, every) if every else LIST_SECONDS
