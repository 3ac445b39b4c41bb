"""The in-memory twin of the other transports, for tests and for sites within one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from peerwise.parcels.signed import peer_name
from peerwise.transport.base import Published, checked_blob, checked_manifest, checked_sha256, checked_topic

Shared = dict[str, dict[str, tuple[bytes, dict[str, bytes]]]]  # manifest and blobs by site and topic


class MemoryTransport:
    """Sites that are given the same ``shared`` dictionary see each other."""

    def __init__(self, name: str, shared: Shared) -> None:
        self.name = peer_name(name)
        self._shared = shared

    def publish(self, topic: str, manifest: bytes, blobs: Mapping[str, bytes]) -> None:
        checked_manifest(manifest, self.name, checked_topic(topic))
        kept = {checked_sha256(key): bytes(data) for key, data in blobs.items()}
        self._shared.setdefault(self.name, {})[topic] = bytes(manifest), kept

    def fetch(self, site: str, topic: str) -> Published | None:
        found = self._shared.get(peer_name(site), {}).get(checked_topic(topic))
        if found is None:
            return None
        manifest, blobs = found
        return Published(
            checked_manifest(manifest, site, topic),
            lambda sha256, size: checked_blob(blobs.get(checked_sha256(sha256)), size, site, sha256),
        )

    def close(self) -> None:
        """There is nothing to release."""

    def list(self, topic: str) -> Sequence[str]:
        return sorted(site for site, topics in list(self._shared.items()) if checked_topic(topic) in topics)
