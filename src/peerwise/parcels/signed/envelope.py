"""The envelope around all that is signed: a payload, a signature over its very bytes, and the id of the key."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from peerwise.errors import NotTrusted, ParcelError
from peerwise.parcels.signed.fields import KEY, public_key
from peerwise.parcels.strict import canonical, strict_json

MOST_BYTES = 2 << 20
AGAIN = "It was changed on the way or is no envelope of Peerwise: fetch it again, or ask its sender."
_FIELDS = {"key_id", "payload", "signature"}


def key_id(public: str) -> str:
    return hashlib.sha256(bytes.fromhex(public)).hexdigest()


def fingerprint(public: str) -> str:
    """Twenty letters in groups, to compare over the telephone.

    >>> fingerprint("00" * 32)
    'MZUH-VLPY-MK6X-O3EP-YGFY'
    """
    letters = base64.b32encode(bytes.fromhex(key_id(public))).decode()[:20]
    return "-".join(letters[place : place + 4] for place in range(0, 20, 4))


def signed_bytes(kind: str, payload: bytes) -> bytes:
    """What is signed: the kind and the payload with their lengths, so that neither can pass for a part of the other."""
    return b"peerwise-1 %d %s %d %s" % (len(kind), kind.encode("ascii"), len(payload), payload)


def envelope(public: str, payload: bytes, signature: bytes) -> bytes:
    parts = {
        "key_id": key_id(public),
        "payload": base64.b64encode(payload).decode(),
        "signature": base64.b64encode(signature).decode(),
    }
    return canonical(parts)


def verify(public: str, kind: str, payload: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(signature, signed_bytes(kind, payload))
    except (InvalidSignature, ValueError):
        return False
    return True


def opened(data: bytes, kind: str, keys: Iterable[str]) -> dict[str, Any]:
    """The payload of an envelope that one of these keys signed as this kind, else NotTrusted.

    The payload's bytes are verified before they are read, and there is only one way to write an envelope: whatever is
    changed in its bytes, be it without changing its meaning, is refused.
    """
    known = {}
    for key in keys:
        public_key(key, "the key to verify with")
        known[key_id(key)] = key
    signer, payload, signature = _parts(data, kind)
    if signer not in known:
        raise NotTrusted(
            f"the {kind} is signed by key {signer[:16]}: expected {_listed(known)}. "
            f"Ask its sender which key is right, and the founder for a newer roster."
        )
    if not verify(known[signer], kind, payload, signature):
        raise NotTrusted(f"the {kind} does not match its signature by key {signer[:16]}. {AGAIN}")
    try:
        value = strict_json(payload, most_bytes=MOST_BYTES, what=f"the {kind}")
        if not isinstance(value, dict) or canonical(value) != payload:
            raise ParcelError(f"the {kind} is not written as Peerwise writes it: expected canonical JSON of an object.")
    except ParcelError as error:
        raise NotTrusted(str(error)) from error
    return value


def opened_by_itself(data: bytes, kind: str) -> dict[str, Any]:
    """The payload of an envelope that is signed by the ``key`` it names itself: whoever holds that key wrote it, and
    who that is remains to be shown."""
    _, payload, _ = _parts(data, kind)
    try:
        claimed = strict_json(payload, most_bytes=MOST_BYTES, what=f"the {kind}")
    except ParcelError as error:
        raise NotTrusted(str(error)) from error
    key = claimed.get("key") if isinstance(claimed, dict) else None
    if not isinstance(key, str):
        raise NotTrusted(f"the {kind} names no key of its own. {AGAIN}")
    public_key(key, f"the key of the {kind}")
    return opened(data, kind, [key])


def _listed(known: Iterable[str]) -> str:
    names = [name[:16] for name in known]
    if len(names) > 3:
        return f"one of {len(names)} keys"
    return " or ".join(names) or "a known key, and there is none"


def _parts(data: bytes, kind: str) -> tuple[str, bytes, bytes]:
    try:
        parts = strict_json(data, most_bytes=MOST_BYTES, most_depth=1, most_values=8, what=f"the {kind}'s envelope")
    except ParcelError as error:
        raise NotTrusted(str(error)) from error
    if isinstance(parts, dict) and type(parts.get("format")) is int:
        raise NotTrusted(f"the {kind} is in an envelope of format {parts['format']}, unknown here: update Peerwise.")
    if not isinstance(parts, dict) or set(parts) != _FIELDS or not all(type(part) is str for part in parts.values()):
        raise NotTrusted(f"the {kind} has no envelope of the texts {', '.join(sorted(_FIELDS))}. {AGAIN}")
    payload, signature = _decoded(parts["payload"], kind), _decoded(parts["signature"], kind)
    if len(signature) != 64 or not KEY.fullmatch(parts["key_id"]) or canonical(parts) != data:
        raise NotTrusted(f"the envelope of the {kind} is not written as Peerwise writes it. {AGAIN}")
    return parts["key_id"], payload, signature


def _decoded(text: str, kind: str) -> bytes:
    try:
        found = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise NotTrusted(f"the envelope of the {kind} is not base64 ({error}). {AGAIN}") from error
    if base64.b64encode(found).decode() != text:  # spare bits at the end, which decoders ignore
        raise NotTrusted(f"the envelope of the {kind} is base64 with spare bits set. {AGAIN}")
    return found
