"""Sites that are online at the same time and ask each other directly, over Eclipse Zenoh."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from peerwise.errors import ConfigError, ExchangeError, StorageError, reason
from peerwise.parcels import sha256 as sha256_of
from peerwise.transport.base import Blob, Transport, checked_blob
from peerwise.transport.folder import FolderTransport
from peerwise.transport.zenoh_access import CHUNK, key_root, own_keys

Session: TypeAlias = Any  # zenoh.Session, where Zenoh is installed

MOST_PARTS = 8  # interrupted transfers of one site that are kept to be resumed
MOST_REPLIES = 4  # to one question; more are dropped
MOST_MEMBERS = 4096
LATER = 1.0  # seconds after our own deadline when the library drops a question, should we have failed to
THREADS = 4  # queries answered at the same time, so that a slow reader does not stop all
WAITING = 256
NOT_HERE = b"peerwise: not here"
LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class TransferLimits:
    """Seconds that a peer may take: to answer a question, to send a chunk of 1 MiB, to send a whole blob; how often it
    is asked again within that time, and after which pause."""

    answer: float = 5.0
    chunk: float = 20.0
    blob: float = 300.0
    tries: int = 3
    pause: float = 0.5


class ZenohTransport(Transport):
    """``publish`` writes to ``outbox``, from which any process of this site that was opened with ``serve`` answers the
    others. Interrupted transfers are kept in ``cache``, by site, and resumed by the next fetch of the same blob."""

    def __init__(
        self,
        session: Session,
        *,
        name: str,
        federation: str,
        outbox: str | Path,
        cache: str | Path,
        serve: bool = False,
        limits: TransferLimits | None = None,
    ) -> None:
        super().__init__(name)
        self.session = session
        self._root = key_root(federation)
        self._outbox = FolderTransport(Path(outbox), name)
        self._cache = Path(cache)
        self._limits = limits or TransferLimits()
        # Also when the process ends without a close: the library aborts when its threads outlive the interpreter.
        self._stop = weakref.finalize(self, _stop, *(_served(session, federation, self._outbox) if serve else ([], [])))

    def _publish(self, topic: str, manifest: bytes, blobs: Mapping[str, bytes]) -> None:
        self._outbox.publish(topic, manifest, blobs)

    def _list(self, topic: str) -> Iterable[str]:
        """The sites that are online now; whether they have published on the topic, they must be asked."""
        return [*self.members(), *([self.name] if self._outbox.fetch(self.name, topic) else [])]

    def _fetch(self, site: str, topic: str) -> tuple[bytes, Blob] | None:
        if site == self.name:
            return self._outbox.fetch(site, topic)
        found = self._get(site, f"{self._root}/{site}/manifest/{topic}", time.monotonic() + self._limits.answer)
        return None if found is None else (found, partial(self._blob, site))

    def members(self) -> list[str]:
        """The sites that are being served now."""
        keys = alive(self.session, f"{self._root}/members/*", self._limits.answer)
        return [key.rpartition("/")[2] for key in keys]

    def close(self) -> None:
        """Others notice at once."""
        self._stop()
        self.session.close()

    def _blob(self, site: str, sha256: str, size: int) -> bytes:
        until = time.monotonic() + self._limits.blob
        path = self._part(site, sha256)
        try:
            with open(path, "r+b", opener=lambda name, flags: os.open(name, flags | os.O_CREAT, 0o600)) as file:
                data, resumed = self._filled(file, site, sha256, size, until)
                right = sha256_of(data) == sha256
                if not right and resumed:  # what was kept may be what is wrong
                    file.truncate(0)
                    data, _ = self._filled(file, site, sha256, size, until)
                    right = sha256_of(data) == sha256
        except OSError as error:
            raise StorageError(
                f"{path} cannot be written ({error.strerror or error}): expected room for {size} bytes."
            ) from error
        path.unlink(missing_ok=True)
        if not right:
            raise ExchangeError(
                f"blob {sha256[:12]} of {site} does not match its sha256: {site} sent other bytes than its manifest "
                f"names. Ask {site} to publish again."
            )
        return data

    def _filled(self, file: BinaryIO, site: str, sha256: str, size: int, until: float) -> tuple[bytes, bool]:
        """The file, filled up with the chunks that it lacks; and whether it had some. If another process unlinks
        the file, our handle stays valid."""
        have = min(file.seek(0, os.SEEK_END), size) // CHUNK * CHUNK
        for offset in range(have, size, CHUNK):
            length = min(CHUNK, size - offset)
            key = f"{self._root}/{site}/blob/{sha256}/{offset // CHUNK}"
            data = self._get(site, key, min(until, time.monotonic() + self._limits.chunk), length)
            file.seek(offset)
            file.write(checked_blob(data, length, site, sha256))
            file.flush()
        file.seek(0)
        return file.read(size), have > 0

    def _get(self, site: str, key: str, until: float, length: int | None = None) -> bytes | None:
        """The first answer, of this length where one is given; None if the site answers that it has none. What fails
        at once is tried again."""
        why = f"nobody answers for {site}"
        for again in range(self._limits.tries):
            time.sleep(max(0.0, min(self._limits.pause, until - time.monotonic())) if again else 0.0)
            left = until - time.monotonic()
            if left <= 0:
                break
            try:
                for data in replies(self.session, key, left):
                    if data is None or length in (None, len(data)):
                        return data
                    why = f"{site} sent {len(data)} bytes instead of {length}"
            except TimeoutError:
                why = f"{site} did not answer in time"
        what = key.partition(f"/{site}/")[2]
        raise ExchangeError(f"{why} (asked for {what}): expected an answer. Is {site} up? Try again later.")

    def _part(self, site: str, sha256: str) -> Path:
        """Partial downloads are kept per site, so one site cannot corrupt another's; the oldest are deleted."""
        folder = self._cache / site
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{sha256}.part"
        others = sorted((other for other in folder.glob("*.part") if other != path), key=_age)
        for other in others[: max(0, len(others) - MOST_PARTS + 1)]:
            other.unlink(missing_ok=True)
        return path


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


# ---- sessions and questions ------------------------------------------------------------------------------------------


def zenoh_module() -> Any:
    try:
        import zenoh
    except ImportError as error:
        raise ConfigError('live peers need Eclipse Zenoh: run `pip install "peerwise[p2p]"`.') from error
    return zenoh


def open_session(config: Mapping[str, Any]) -> Session:
    """Peers that cannot be reached now are tried again in the background. Close it, or use ``with``."""
    library = zenoh_module()
    try:
        return library.open(library.Config.from_json5(json.dumps(config)))
    except library.ZError as error:
        places = ", ".join(config["listen"]["endpoints"]) or "no address"
        raise ExchangeError(
            f"live peers cannot be started at {places} ({_message(error)}): expected a free port and certificates "
            f"that fit their key. Is the site running already? `peerwise doctor` says more."
        ) from error


def replies(session: Session, key: str, seconds: float) -> Iterator[bytes | None]:
    """What comes back for one key, as it comes, for so many seconds at most; None where the other side answers that it
    has no such thing. No reply at all means that nobody answers for this key. ``TimeoutError`` if time ran out."""
    library = zenoh_module()
    options = {"target": library.QueryTarget.ALL, "consolidation": library.ConsolidationMode.NONE}
    for reply in _ask(session.get, key, seconds, MOST_REPLIES, **options):
        if reply.ok is not None:
            yield reply.ok.payload.to_bytes()
        elif reply.err.payload.to_bytes() == NOT_HERE:
            yield None


def alive(session: Session, keys: str, seconds: float) -> list[str]:
    """The liveliness tokens that are there."""

    def get(*given: Any, **options: Any) -> None:
        session.liveliness().get(*given, **options)

    try:
        found = _ask(get, keys, seconds, MOST_MEMBERS)
        return sorted({str(reply.ok.key_expr) for reply in found if reply.ok is not None})
    except TimeoutError as error:
        raise ExchangeError(f"nobody answered within {seconds:g} seconds who is online. Try again.") from error


def _ask(get: Any, key: str, seconds: float, most: int, **options: Any) -> Iterator[Any]:
    """Replies to one question, in bounded time and number whatever the other side does: those beyond ``most`` are
    dropped where they come in, so that a peer that never ends does not hold up the line."""
    library = zenoh_module()
    found: queue.Queue[Any] = queue.Queue(most + 1)
    token = library.CancellationToken()

    def take(reply: Any) -> None:
        with contextlib.suppress(queue.Full):
            found.put_nowait(reply)

    handler = library.handlers.Callback(take, lambda: take(None), indirect=False)
    until = time.monotonic() + seconds
    try:
        get(key, handler, timeout=seconds + LATER, cancellation_token=token, **options)
        for _ in range(most):
            reply = found.get(timeout=max(0.0, until - time.monotonic()))
            if reply is None:
                return
            yield reply
    except library.ZError as error:
        raise ExchangeError(
            f"no peer can be asked ({_message(error)}): expected an open session. Open it again."
        ) from error
    except queue.Empty:
        raise TimeoutError from None
    finally:
        token.cancel()


def _message(error: BaseException) -> str:
    """Without the places in the library's own source."""
    return str(error).partition(" at /")[0].splitlines()[0][:200]


# ---- answers ---------------------------------------------------------------------------------------------------------


def _served(session: Session, federation: str, outbox: FolderTransport) -> tuple[list[Any], list[threading.Thread]]:
    """What was declared to answer the others, and the threads that do."""
    channel = zenoh_module().handlers.FifoChannel
    manifests, blobs, life = own_keys(federation, outbox.name)
    declared = [session.declare_queryable(keys, channel(WAITING)) for keys in (manifests, blobs)]
    threads = [
        threading.Thread(target=_serve, args=(queries.handler, outbox), name="peerwise serving", daemon=True)
        for queries in declared
        for _ in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    # Last: who sees the liveliness token may ask at once.
    return [session.liveliness().declare_token(life), *declared], threads


def _stop(declared: list[Any], threads: list[threading.Thread]) -> None:
    for one in declared:
        with contextlib.suppress(zenoh_module().ZError):  # the session may be closed already
            one.undeclare()
    for thread in threads:
        thread.join(5)


def _serve(queries: Any, outbox: FolderTransport) -> None:
    with contextlib.suppress(zenoh_module().ZError):  # which is how a channel that was undeclared ends
        while True:
            with queries.recv() as query:  # a query that is not dropped keeps its asker waiting
                _answer(query, outbox)


def _answer(query: Any, outbox: FolderTransport) -> None:
    """What cannot be read is logged here, and absent for the one who asks; whatever is asked for, the thread lives."""
    key = str(query.key_expr)
    try:
        found = _found(key, outbox)
    except Exception as error:
        LOG.warning("%s was asked for and cannot be read: %s", key, reason(error))
        found = None
    try:
        if found is None:
            query.reply_err(NOT_HERE)
        else:
            query.reply(key, found)
    except zenoh_module().ZError as error:
        LOG.warning("%s was asked for and could not be sent: %s", key, reason(error))


def _found(key: str, outbox: FolderTransport) -> bytes | None:
    """peerwise/<federation>/<site>/manifest/<topic>, or .../blob/<sha256>/<number of the chunk>; nothing with a '*'."""
    parts = key.split("/")
    if len(parts) not in (5, 6) or parts[3] not in ("manifest", "blob"):  # as a member may ask for all keys at once
        return None
    _, _, _, kind, name, *rest = parts
    if kind == "manifest":
        published = outbox.fetch(outbox.name, name)
        return None if published is None else published.manifest
    number = rest[0] if rest else ""
    if not number.isascii() or not number.isdigit() or len(number) > 9:
        return None
    return outbox.piece(name, int(number) * CHUNK, CHUNK)
