"""The in-memory twin of the other transports, for tests and for sites within one process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from peerwise.transport.base import Blob, Transport

Shared = dict[str, dict[str, tuple[bytes, dict[str, bytes]]]]  # manifest and blobs by site and topic


class MemoryTransport(Transport):
    """Sites that are given the same ``shared`` dictionary see each other."""

    def __init__(self, name: str, shared: Shared) -> None:
        super().__init__(name)
        self._shared = shared

    def _publish(self, topic: str, manifest: bytes, blobs: Mapping[str, bytes]) -> None:
        self._shared.setdefault(self.name, {})[topic] = manifest, dict(blobs)

    def _list(self, topic: str) -> Iterable[str]:
        return [site for site, topics in list(self._shared.items()) if topic in topics]

    def _fetch(self, site: str, topic: str) -> tuple[bytes, Blob] | None:
        found = self._shared.get(site, {}).get(topic)
        return found and (found[0], lambda sha256, size: found[1].get(sha256))
