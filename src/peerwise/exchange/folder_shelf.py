"""A shelf in a folder that all sites see, the reference of all shelves: a directory, a share, any fsspec URL."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from peerwise.errors import ExchangeError, ParcelError
from peerwise.exchange.places import place_of
from peerwise.exchange.shelf import (
    MOST_MANIFEST,
    Result,
    is_site,
    known_blob,
    known_topic,
    missing,
    of_size,
    small_enough,
    within,
)
from peerwise.parcels.signed import peer_name, strict_json

SECONDS = 120.0


class FolderShelf:
    """``<site>/manifests/<topic>.json`` and ``<site>/blobs/<sha256>``: a site writes in its own folder alone, so who
    may write where can be left to the file system. Blobs come before the manifest that names them and go after it.

    ``<site>/lists/<topic>.json`` says which blobs a topic needs; it is read by the site itself alone.
    Nothing that is read takes longer than ``seconds``.
    """

    def __init__(self, url: str | Path, name: str, *, seconds: float = SECONDS) -> None:
        self.name = peer_name(name)
        self._place = place_of(url)
        self._seconds = seconds

    def put(self, topic: str, manifest: bytes, blobs: Mapping[str, bytes]) -> None:
        known_topic(topic)
        small_enough(manifest, self.name, topic)
        with self._place.alone(self.name):
            before = self._listed(topic)
            if not set(blobs) <= before:
                self._list(topic, before | set(blobs))
            for key, data in blobs.items():
                path = f"{self.name}/blobs/{known_blob(key)}"
                if self._place.read(path, len(data) + 1) != data:
                    self._place.write(path, data)
            self._place.write(self._manifest(self.name, topic), manifest)
            self._drop(topic, before - set(blobs))
            if before - set(blobs):
                self._list(topic, set(blobs))

    def sites(self, topic: str) -> list[str]:
        file = f"{known_topic(topic)}.json"

        def there() -> list[str]:
            names = [name for name in self._place.folders() if is_site(name)]
            return [name for name in names if file in self._place.files(f"{name}/manifests")]

        return self._within("listing the sites", there)

    def manifest(self, site: str, topic: str) -> bytes | None:
        path = self._manifest(site, topic)
        found = self._read(path, MOST_MANIFEST + 1)
        return None if found is None else small_enough(found, site, topic)

    def blob(self, site: str, sha256: str, size: int) -> bytes:
        found = self._read(f"{peer_name(site)}/blobs/{known_blob(sha256)}", size + 1)
        if found is None:
            raise missing(site, sha256)
        return of_size(found, size, site, sha256)

    def piece(self, sha256: str, offset: int, most: int) -> bytes | None:
        """A part of one of this site's own blobs; None if it is not there."""
        return self._place.read(f"{self.name}/blobs/{known_blob(sha256)}", most, offset)

    def close(self) -> None:
        """There is nothing to close."""

    def _read(self, path: str, most: int) -> bytes | None:
        until = time.monotonic() + self._seconds
        return self._within(f"reading {path}", lambda: self._place.read(path, most, until=until))

    def _within(self, what: str, call: Callable[[], Result]) -> Result:
        return within(self._seconds, what, call)

    def _drop(self, topic: str, blobs: set[str]) -> None:
        """Remove those that no other topic needs."""
        if not blobs:
            return
        topics = [name.removesuffix(".json") for name in self._place.files(f"{self.name}/lists")]
        needed = set[str]().union(*(self._listed(other) for other in topics if other != topic))
        for key in blobs - needed:
            self._place.remove(f"{self.name}/blobs/{key}")

    def _listed(self, topic: str) -> set[str]:
        data = self._place.read(f"{self.name}/lists/{topic}.json", MOST_MANIFEST)
        if data is None:
            return set()
        try:
            return set(map(known_blob, strict_json(data, what="the list")))
        except (ParcelError, ValueError, TypeError, AttributeError) as error:
            raise ExchangeError(
                f"{self.name}/lists/{topic}.json does not list blobs ({error}): expected what Peerwise wrote. Remove "
                f"it, and the blobs that {topic!r} no longer needs stay where they are."
            ) from error

    def _list(self, topic: str, blobs: set[str]) -> None:
        self._place.write(f"{self.name}/lists/{topic}.json", json.dumps(sorted(blobs)).encode())

    def _manifest(self, site: str, topic: str) -> str:
        return f"{peer_name(site)}/manifests/{known_topic(topic)}.json"
