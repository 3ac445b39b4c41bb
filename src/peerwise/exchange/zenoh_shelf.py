"""A shelf of live peers: each keeps what it says, and is asked for it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from peerwise.errors import ExchangeError, StorageError
from peerwise.exchange.folder_shelf import FolderShelf
from peerwise.exchange.shelf import known_blob, known_topic, missing, small_enough
from peerwise.exchange.zenoh_session import Session, alive, replies
from peerwise.exchange.zenoh_settings import CHUNK, key_root
from peerwise.parcels import sha256 as sha256_of
from peerwise.parcels.signed import peer_name

MOST_PARTS = 8  # transfers of one site that were broken off and are kept to go on with


@dataclass(frozen=True)
class TransferLimits:
    """Seconds that a peer may take: to answer a question, to send a chunk of 1 MiB, to send a whole blob; how often it
    is asked again within that time, and after which pause."""

    answer: float = 5.0
    chunk: float = 20.0
    blob: float = 300.0
    tries: int = 3
    pause: float = 0.5


class ZenohShelf:
    """``put`` writes to ``outbox`` and is done: a `ZenohServer` of any process of this site serves it from there.
    Transfers that were broken off wait in ``cache``, by site, and are gone on with at the next try."""

    def __init__(
        self,
        session: Session,
        *,
        name: str,
        federation: str,
        outbox: str | Path,
        cache: str | Path,
        limits: TransferLimits | None = None,
    ) -> None:
        self.name = peer_name(name)
        self._session = session
        self._root = key_root(federation)
        self._own = FolderShelf(Path(outbox), name)
        self._cache = Path(cache)
        self._limits = limits or TransferLimits()

    def put(self, topic: str, manifest: bytes, blobs: Mapping[str, bytes]) -> None:
        self._own.put(topic, manifest, blobs)

    def sites(self, topic: str) -> list[str]:
        """Who is there now; whether they say anything on the topic, they must be asked."""
        return sorted({*self.members(), *(site for site in self._own.sites(topic) if site == self.name)})

    def members(self) -> list[str]:
        """The sites that are being served now."""
        keys = alive(self._session, f"{self._root}/members/*", self._limits.answer)
        return [key.rpartition("/")[2] for key in keys]

    def manifest(self, site: str, topic: str) -> bytes | None:
        if site == self.name:
            return self._own.manifest(site, topic)
        key = f"{self._root}/{peer_name(site)}/manifest/{known_topic(topic)}"
        found = self._asked(site, key, time.monotonic() + self._limits.answer)
        return None if found is None else small_enough(found, site, topic)

    def blob(self, site: str, sha256: str, size: int) -> bytes:
        if site == self.name:
            return self._own.blob(site, sha256, size)
        until = time.monotonic() + self._limits.blob
        path = self._part(peer_name(site), known_blob(sha256))
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

    def close(self) -> None:
        self._session.close()

    def _filled(self, file: BinaryIO, site: str, sha256: str, size: int, until: float) -> tuple[bytes, bool]:
        """The file, filled up with the chunks that it lacks; and whether it had some. A file that another process
        removes meanwhile stays ours to the end."""
        have = min(file.seek(0, os.SEEK_END), size) // CHUNK * CHUNK
        for offset in range(have, size, CHUNK):
            length = min(CHUNK, size - offset)
            key = f"{self._root}/{site}/blob/{sha256}/{offset // CHUNK}"
            data = self._asked(site, key, min(until, time.monotonic() + self._limits.chunk), length)
            if data is None:
                raise missing(site, sha256)
            file.seek(offset)
            file.write(data)
            file.flush()
        file.seek(0)
        return file.read(size), have > 0

    def _asked(self, site: str, key: str, until: float, length: int | None = None) -> bytes | None:
        """The first answer, of this length where one is told; None if the site says that it has none. What fails at
        once is tried again."""
        said = f"nobody answers for {site}"
        for again in range(self._limits.tries):
            time.sleep(max(0.0, min(self._limits.pause, until - time.monotonic())) if again else 0.0)
            left = until - time.monotonic()
            if left <= 0:
                break
            try:
                for data in replies(self._session, key, left):
                    if data is None or length in (None, len(data)):
                        return data
                    said = f"{site} sent {len(data)} bytes instead of {length}"
            except TimeoutError:
                said = f"{site} did not answer in time"
        what = key.partition(f"/{site}/")[2]
        raise ExchangeError(f"{said} (asked for {what}): expected an answer. Is {site} up? Try again later.")

    def _part(self, site: str, sha256: str) -> Path:
        """Of one site alone: another could spoil it by claiming the same blob. The oldest give way."""
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
