"""Parcels that are read when they are asked for, so that those of many sites are never in memory at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from peerwise.parcels.parcel import Parcel


class LazyParcels(Mapping[str, Parcel]):
    """Parcels by site name. ``sizes``: their bytes, which also settles the order of the names; ``digests``: the hashes
    of their signed manifests, where they are signed."""

    def __init__(
        self, sizes: Mapping[str, int], read: Callable[[str], Parcel], digests: Mapping[str, str] | None = None
    ) -> None:
        self.sizes, self.digests = sizes, digests or {}
        self._read = read

    def __getitem__(self, site: str) -> Parcel:
        if site not in self.sizes:  # before anything is read
            raise KeyError(site)
        return self._read(site)

    def __contains__(self, site: object) -> bool:
        return site in self.sizes

    def __iter__(self) -> Iterator[str]:
        return iter(self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    def __repr__(self) -> str:
        return f"LazyParcels({', '.join(self)}; {sum(self.sizes.values()):,} bytes)"


def sizes_of(parcels: Mapping[str, Parcel]) -> Mapping[str, int]:
    """Bytes by site name, without reading what need not be read."""
    if isinstance(parcels, LazyParcels):
        return parcels.sizes
    return {site: parcel.nbytes for site, parcel in parcels.items()}
