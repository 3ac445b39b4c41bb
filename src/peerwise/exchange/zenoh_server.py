"""What a live peer answers: its manifests and blobs, straight from its outbox on disk, and that it is there."""

from __future__ import annotations

import contextlib
import logging
import threading
import weakref
from pathlib import Path
from typing import Any

from peerwise.errors import PeerwiseError, reason
from peerwise.exchange.folder_shelf import FolderShelf
from peerwise.exchange.zenoh_session import NOT_HERE, Session, zenoh_module
from peerwise.exchange.zenoh_settings import CHUNK, own_keys

THREADS = 4  # readers served at the same time, so that a slow one does not stop all
WAITING = 256
LOG = logging.getLogger(__name__)


class ZenohServer:
    """Serves what any process of this site has put into ``outbox``, from its start to `close`."""

    def __init__(self, session: Session, *, name: str, federation: str, outbox: str | Path) -> None:
        shelf = FolderShelf(Path(outbox), name)
        channel = zenoh_module().handlers.FifoChannel
        manifests, blobs, life = own_keys(federation, name)
        said = [session.declare_queryable(keys, channel(WAITING)) for keys in (manifests, blobs)]
        threads = [
            threading.Thread(target=_serve, args=(queries.handler, shelf), name="peerwise serving", daemon=True)
            for queries in said
            for _ in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        # Last: who sees the sign of life may ask at once.
        self._token = session.liveliness().declare_token(life)
        # Also when the process ends without a close: the library aborts when its threads outlive the interpreter.
        self._end = weakref.finalize(self, _stop, [self._token, *said], threads)

    def close(self) -> None:
        """Others notice at once."""
        self._end()

    def __enter__(self) -> ZenohServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _stop(declared: list[Any], threads: list[threading.Thread]) -> None:
    for one in declared:
        with contextlib.suppress(zenoh_module().ZError):  # the session may be closed already
            one.undeclare()
    for thread in threads:
        thread.join(5)


def _serve(queries: Any, shelf: FolderShelf) -> None:
    with contextlib.suppress(zenoh_module().ZError):  # which is how a channel that was undeclared ends
        while True:
            with queries.recv() as query:  # a query that is not dropped keeps its asker waiting
                _answer(query, shelf)


def _answer(query: Any, shelf: FolderShelf) -> None:
    """One question costs one answer: what cannot be read is logged here, and said to be absent there."""
    key = str(query.key_expr)
    try:
        found = _found(key, shelf)
    except (PeerwiseError, OSError) as error:
        LOG.warning("%s was asked for and cannot be read: %s", key, reason(error))
        found = None
    try:
        if found is None:
            query.reply_err(NOT_HERE)
        else:
            query.reply(key, found)
    except zenoh_module().ZError as error:
        LOG.warning("%s was asked for and could not be sent: %s", key, reason(error))


def _found(key: str, shelf: FolderShelf) -> bytes | None:
    """peerwise/<federation>/<site>/manifest/<topic>, or .../blob/<sha256>/<number of the chunk>; nothing with a '*'."""
    _, _, _, kind, name, *rest = key.split("/")
    if kind == "manifest":
        return shelf.manifest(shelf.name, name)
    number = rest[0] if rest else ""
    if not number.isascii() or not number.isdigit() or len(number) > 9:
        return None
    return shelf.piece(name, int(number) * CHUNK, CHUNK)
