"""What crosses a border or survives a round: parcels, their encoding, and the folder that keeps them."""

from peerwise.parcels.container import read_tree, write_tree
from peerwise.parcels.lazy import LazyParcels, sizes_of
from peerwise.parcels.parcel import Parcel
from peerwise.parcels.store import Keep, Store, write_atomic
from peerwise.parcels.tree import frozen, pack, sha256, unpack

__all__ = [
    "Keep",
    "LazyParcels",
    "Parcel",
    "Store",
    "frozen",
    "pack",
    "read_tree",
    "sha256",
    "sizes_of",
    "unpack",
    "write_atomic",
    "write_tree",
]
