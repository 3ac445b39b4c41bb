"""Between sites: publish, list, fetch, close; in memory, in a folder or over the network, and signed on top of any."""

from peerwise.transport.base import Published, Transport
from peerwise.transport.certificates import (
    CertificateFacts,
    CertificateFiles,
    certificate_facts,
    make_authority,
    make_request,
    sign_request,
)
from peerwise.transport.folder import FolderTransport
from peerwise.transport.memory import MemoryTransport
from peerwise.transport.signed import GatherLimits, SignedParcel, SignedTransport
from peerwise.transport.zenoh import TransferLimits, ZenohTransport, open_session
from peerwise.transport.zenoh_access import zenoh_config

__all__ = [
    "TRANSPORTS",
    "CertificateFacts",
    "CertificateFiles",
    "FolderTransport",
    "GatherLimits",
    "MemoryTransport",
    "Published",
    "SignedParcel",
    "SignedTransport",
    "TransferLimits",
    "Transport",
    "ZenohTransport",
    "certificate_facts",
    "make_authority",
    "make_request",
    "open_session",
    "sign_request",
    "zenoh_config",
]

TRANSPORTS = {"memory": MemoryTransport, "folder": FolderTransport, "zenoh": ZenohTransport}
