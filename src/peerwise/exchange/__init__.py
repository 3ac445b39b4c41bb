"""Between sites: post a parcel for a round, collect a round's parcels; signed, over whatever carries bytes.

What real federations need (signatures, certificates, Zenoh) is imported when first used: a simulation does without.
"""

from typing import TYPE_CHECKING

from peerwise.exchange.base import Exchange
from peerwise.exchange.folder import FolderExchange
from peerwise.exchange.lazy import LazyParcels, sizes_of
from peerwise.exchange.memory import MemoryExchange
from peerwise.exchange.names import file_name
from peerwise.lazy import lazy

if TYPE_CHECKING:
    from peerwise.exchange.blob_cache import BlobCache
    from peerwise.exchange.certificates import (
        CertificateFacts,
        CertificateFiles,
        certificate_facts,
        make_authority,
        make_request,
        sign_request,
    )
    from peerwise.exchange.folder_shelf import FolderShelf
    from peerwise.exchange.shelf import MemoryShelf, Shelf
    from peerwise.exchange.signed import CollectLimits, SignedExchange
    from peerwise.exchange.zenoh_server import ZenohServer
    from peerwise.exchange.zenoh_session import open_session
    from peerwise.exchange.zenoh_settings import zenoh_config
    from peerwise.exchange.zenoh_shelf import TransferLimits, ZenohShelf

__all__ = [
    "BlobCache",
    "CertificateFacts",
    "CertificateFiles",
    "CollectLimits",
    "Exchange",
    "FolderExchange",
    "FolderShelf",
    "LazyParcels",
    "MemoryExchange",
    "MemoryShelf",
    "Shelf",
    "SignedExchange",
    "TransferLimits",
    "ZenohServer",
    "ZenohShelf",
    "certificate_facts",
    "file_name",
    "make_authority",
    "make_request",
    "open_session",
    "sign_request",
    "sizes_of",
    "zenoh_config",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "BlobCache": "blob_cache",
            "CertificateFacts": "certificates",
            "CertificateFiles": "certificates",
            "CollectLimits": "signed",
            "FolderShelf": "folder_shelf",
            "MemoryShelf": "shelf",
            "Shelf": "shelf",
            "SignedExchange": "signed",
            "TransferLimits": "zenoh_shelf",
            "ZenohServer": "zenoh_server",
            "ZenohShelf": "zenoh_shelf",
            "certificate_facts": "certificates",
            "make_authority": "certificates",
            "make_request": "certificates",
            "open_session": "zenoh_session",
            "sign_request": "certificates",
            "zenoh_config": "zenoh_settings",
        },
    )
