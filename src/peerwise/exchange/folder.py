"""Parcels in a folder that all sites see: a directory or a network share."""

from __future__ import annotations

import time
from pathlib import Path

from peerwise.exchange.lazy import LazyParcels
from peerwise.exchange.names import file_name, site_name
from peerwise.parcels import Parcel, Store

PAUSE = 0.05


class FolderExchange:
    """One manifest a site and round, at ``pattern`` below ``folder``; blobs by content beside them."""

    def __init__(self, folder: str | Path, pattern: str = "round-{round}/{site}") -> None:
        self._store = Store(folder)
        self._pattern = pattern

    def post(self, round: int, site: str, parcel: Parcel) -> None:
        self._store.save_packed(self._name(round, site), *parcel.encode())

    def collect(self, round: int, quorum: int = 0, deadline: float = 0.0) -> LazyParcels:
        until = time.monotonic() + deadline
        while len(names := self._there(round)) < quorum and time.monotonic() < until:
            time.sleep(PAUSE)
        sizes = {site: self._store.size(self._name(round, site)) for site in names}
        return LazyParcels(sizes, lambda site: Parcel.decode(*self._store.load_packed(self._name(round, site))))

    def _there(self, round: int) -> list[str]:
        before, after = (part.format(round=round) for part in self._pattern.split("{site}"))
        found = self._store.folder.glob(f"{before}*{after}.json")
        paths = [path.relative_to(self._store.folder).as_posix() for path in found if not path.name.startswith(".")]
        return sorted(site_name(path[len(before) : len(path) - len(f"{after}.json")]) for path in paths)

    def _name(self, round: int, site: str) -> str:
        return self._pattern.format(round=round, site=file_name(site))
