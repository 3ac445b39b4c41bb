"""Between sites: publish, list, fetch, close; in memory, in a folder or over the network, and signed on top of any.

What real federations need (signatures, certificates, Zenoh) is imported when it is first used: a simulation does
without.
"""

from typing import TYPE_CHECKING

from peerwise.lazy import lazy

if TYPE_CHECKING:
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

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "CertificateFacts": "certificates",
            "CertificateFiles": "certificates",
            "FolderTransport": "folder",
            "GatherLimits": "signed",
            "MemoryTransport": "memory",
            "Published": "base",
            "SignedParcel": "signed",
            "SignedTransport": "signed",
            "TransferLimits": "zenoh",
            "Transport": "base",
            "ZenohTransport": "zenoh",
            "certificate_facts": "certificates",
            "make_authority": "certificates",
            "make_request": "certificates",
            "open_session": "zenoh",
            "sign_request": "certificates",
            "zenoh_config": "zenoh_access",
        },
    )

TRANSPORTS = {  # where each is, imported when it is first asked for
    "memory": "peerwise.transport.memory:MemoryTransport",
    "folder": "peerwise.transport.folder:FolderTransport",
    "zenoh": "peerwise.transport.zenoh:ZenohTransport",
}
