"""What crosses a border or survives a round: parcels, their encoding, and the folder that keeps them."""

from peerwise.parcels.container import read_packed, read_tree, write_tree
from peerwise.parcels.parcel import Parcel
from peerwise.parcels.store import Keep, Store, write_atomic
from peerwise.parcels.tree import pack, sha256, unpack

__all__ = [
    "Keep",
    "Parcel",
    "Store",
    "pack",
    "read_packed",
    "read_tree",
    "sha256",
    "unpack",
    "write_atomic",
    "write_tree",
]
