"""Ten thousand manifests that were changed, made up, or signed by a member with a program of its own: none of them does
anything but be refused, unless it is one that may be read."""

from __future__ import annotations

import json
import random
import re

from hypothesis import given, settings
from hypothesis import strategies as st
from signed_things import DAY, NOW, STRANGER, A, B, payload_of, read, sealed

from peerwise.errors import ParcelError
from peerwise.parcels import Parcel
from peerwise.parcels.signed import canonical

DATA, _ = sealed(parcel=Parcel(n=1))
OTHER, _ = sealed(parcel=Parcel(n=2), version=6)
ODD = [
    None, True, False, 0, 1, 2, -1, 5.0, 2**53, 2**53 + 1, 2**64 - 1, NOW, NOW + 301, NOW + DAY, NOW + 800 * DAY,
    "", "b", "models", "fed", "A" * 64, "0" * 64, "withdrawn", "x\n", "\0", [], {}, [[]], {"0" * 64: 1}, {"a": 1},
    {"0" * 64: -1}, {1.5: 2},
]  # fmt: skip
PAYLOAD = payload_of(read(DATA))
BATCH, BATCHES = 50, 200


def changed_bytes(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(changed))
        match rng.randrange(6):
            case 0:
                changed[place] ^= 1 << rng.randrange(8)
            case 1:
                changed[place] = rng.randrange(256)
            case 2:
                del changed[place : place + rng.randint(1, 40)]
            case 3:
                changed[place:place] = rng.randbytes(rng.randint(1, 20))
            case 4:
                changed[place:place] = changed[place : place + rng.randint(1, 40)]
            case 5:
                changed = changed[:place] + bytearray(OTHER[place:])
        changed = changed or bytearray(b"{")
    return bytes(changed)


def changed_payload(rng: random.Random) -> dict:
    payload = dict(PAYLOAD)
    for _ in range(rng.randint(1, 2)):
        name = rng.choice([*payload, "novel"])
        match rng.randrange(5):
            case 0:
                payload.pop(name, None)
            case 1:
                payload["blobs"] = {**PAYLOAD["blobs"], f"{rng.randrange(9):064x}": rng.choice(ODD)}
            case 2:
                payload |= {"withdrawn": rng.choice(["gone", "", 3]), "parcel": "", "blobs": {}, "card": None}
            case _:
                payload[name] = rng.choice(ODD)
    return payload


def may_be_read(payload: dict) -> bool:
    """The rules again, in other words than the program's."""

    def whole(value, most):
        return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most

    fixed = {"format": 1, "federation": "fed", "site": "b", "topic": "models"}
    if set(payload) != set(PAYLOAD) or any(payload[name] != value for name, value in fixed.items()):
        return False
    if payload["format"] is True or not whole(payload["version"], 2**53) or type(payload["format"]) is float:
        return False
    created, expires, blobs = payload["created"], payload["expires"], payload["blobs"]
    if not (whole(created, NOW + 300) and whole(expires, 2**40)) or not NOW < expires <= created + 731 * DAY:
        return False
    if payload["withdrawn"] is not None:
        said = isinstance(payload["withdrawn"], str) and payload["withdrawn"].isprintable() and payload["withdrawn"]
        return bool(said) and payload["parcel"] == "" and blobs == {} and payload["card"] is None
    sizes = isinstance(blobs, dict) and all(
        re.fullmatch("[0-9a-f]{64}", name) and (whole(size, 2**29) or (size == 0 and type(size) is int))
        for name, size in blobs.items()
    )
    named = sizes and isinstance(payload["parcel"], str) and payload["parcel"] in blobs
    return named and (payload["card"] is None or isinstance(payload["card"], dict))


def test_ten_thousand_manifests_are_refused_or_may_be_read():
    tally = {"read": 0, "refused": 0}

    @settings(max_examples=BATCHES, deadline=None, database=None)
    @given(st.randoms(use_true_random=False))
    def batch(source):
        rng = random.Random(source.getrandbits(64))
        for _ in range(BATCH):
            expected = False
            match rng.randrange(4):
                case 0 | 1:
                    data = changed_bytes(rng, DATA)
                    expected = data in (DATA, OTHER)
                case 2:
                    payload = changed_payload(rng)
                    signer = rng.choice([B, B, B, A, STRANGER])
                    try:
                        data = signer.sign("manifest", payload)
                    except ParcelError:
                        tally["refused"] += 1
                        continue
                    expected = signer is B and may_be_read(payload)
                case 3:
                    parts = json.loads(DATA)
                    parts[rng.choice([*parts, "more"])] = rng.choice([*ODD[:-1], parts["payload"], parts["signature"]])
                    data = canonical(parts)
                    expected = data in (DATA, OTHER)
            try:
                found = read(data)
            except ParcelError:
                assert not expected, data
                tally["refused"] += 1
            else:
                assert expected, data
                assert B.sign("manifest", found.payload) == data
                tally["read"] += 1

    batch()
    # The generator reaches both sides: manifests within the rules are read, however unusual.
    assert tally["refused"] > 8 * BATCH * BATCHES / 10
    assert tally["read"] > BATCH * BATCHES / 200


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_refused(data):
    for kind in (
        data,
        b'{"key_id":"' + data + b'"}',
        canonical({"key_id": B.key_id, "payload": data.hex(), "signature": ""}),
    ):
        try:
            read(kind)
        except ParcelError:
            continue
        raise AssertionError(kind)
