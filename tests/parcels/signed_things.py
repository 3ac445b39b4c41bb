"""A small federation for the tests of what is signed: keys, a roster, and a parcel of site b."""

from __future__ import annotations

import dataclasses

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from peerwise.parcels import Parcel
from peerwise.parcels.signed import Identity, Manifest, Member, Roster, seal

NOW = 1_800_000_000
DAY = 24 * 3600


def identity(number: int) -> Identity:
    return Identity(Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32))


A, B, C, NEW, STRANGER = map(identity, range(1, 6))
ROSTER = Roster(
    "fed",
    3,
    A.public,
    NOW - DAY,
    NOW + DAY,
    (
        Member("a", A.public, "tls/127.0.0.1:7447"),
        Member("b", B.public, certificate="b.example"),
        Member("c", C.public, revoked="left"),
    ),
)
PARCEL = Parcel(model=b"onnx", counts=np.arange(4), note="two classes")


def sealed(signer=B, parcel=PARCEL, **changes):
    about = {
        "federation": "fed",
        "site": "b",
        "topic": "models",
        "version": 5,
        "created": NOW - 60,
        "expires": NOW + DAY,
    }
    return seal(parcel, signer, **{**about, "card": {"rows": "100-1000"}, **changes})


def read(data, *, roster=ROSTER, site="b", topic="models", now=NOW, **more):
    return Manifest.read(data, roster, site=site, topic=topic, now=now, **more)


def payload_of(manifest: Manifest) -> dict:
    return {"format": 1, **dataclasses.asdict(manifest)}
