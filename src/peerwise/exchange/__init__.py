"""Two verbs between sites: post a parcel for a round, collect a round's parcels."""

from peerwise.exchange.base import Exchange
from peerwise.exchange.folder import FolderExchange
from peerwise.exchange.lazy import LazyParcels, sizes_of
from peerwise.exchange.memory import MemoryExchange
from peerwise.exchange.names import file_name

__all__ = ["Exchange", "FolderExchange", "LazyParcels", "MemoryExchange", "file_name", "sizes_of"]
