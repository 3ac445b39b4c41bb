"""Parcels in and out of signed manifests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from peerwise.errors import ParcelError
from peerwise.parcels.parcel import Parcel
from peerwise.parcels.signed.identity import Identity
from peerwise.parcels.signed.manifest import Manifest
from peerwise.parcels.tree import MOST_SENT, blob_names, sha256


def seal(
    parcel: Parcel,
    identity: Identity,
    *,
    federation: str,
    site: str,
    topic: str,
    version: int,
    created: int,
    expires: int,
    card: Mapping[str, Any] | None = None,
) -> tuple[bytes, dict[str, bytes]]:
    """The signed manifest of a parcel, and its blobs; the packed tree's own manifest is one of them."""
    tree, blobs = parcel.encode()
    blob_names(tree, MOST_SENT)  # what nobody would read is not sent
    name = sha256(tree)
    blobs = {name: tree, **blobs}
    sizes = {key: len(data) for key, data in blobs.items()}
    manifest = Manifest(federation, site, topic, version, created, expires, name, sizes, card)
    return manifest.signed(identity), blobs


def withdrawal(
    identity: Identity,
    *,
    federation: str,
    site: str,
    topic: str,
    version: int,
    created: int,
    expires: int,
    why: str,
) -> bytes:
    """A signed manifest that takes back what was said before on this topic."""
    return Manifest(federation, site, topic, version, created, expires, "", withdrawn=why).signed(identity)


def unseal(manifest: Manifest, blobs: Mapping[str, bytes]) -> Parcel:
    """The parcel again, from blobs that nobody vouches for but the manifest."""
    if manifest.withdrawn is not None:
        raise ParcelError(f"{manifest.site} took {manifest.topic} back ({manifest.withdrawn}): there is no parcel.")
    for name, size in manifest.blobs.items():
        if name not in blobs:
            raise ParcelError(f"blob {name[:12]} of {manifest.site} is missing: expected {size} bytes. Fetch it again.")
        if len(blobs[name]) != size:
            raise ParcelError(
                f"blob {name[:12]} of {manifest.site} has {len(blobs[name])} bytes: expected {size}. Fetch it again."
            )
    tree = blobs[manifest.parcel]
    if sha256(tree) != manifest.parcel:
        raise ParcelError(
            f"blob {manifest.parcel[:12]} of {manifest.site} does not match its sha256: it was changed. Fetch it again."
        )
    needed = set(blob_names(tree, MOST_SENT))
    if needed | {manifest.parcel} != set(manifest.blobs):
        raise ParcelError(
            f"the parcel of {manifest.site} needs {len(needed)} blobs, and its manifest signs others: "
            f"expected the same. Ask {manifest.site} to publish again."
        )
    return Parcel.decode(tree, {name: blobs[name] for name in needed})
