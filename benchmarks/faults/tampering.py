"""Bits and bytes changed on the way, and manifests that nobody has ever meant."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from typing import Any

from faults.rows import Row
from faults.sites import HOME, WEST, Sites
from faults.west import MODELS, West
from peerwise.errors import ExchangeError, ParcelError, PeerwiseError
from peerwise.models.worker import Limits, Worker
from peerwise.parcels import Parcel
from peerwise.parcels.gate import Gate
from peerwise.parcels.signed import Identity, canonical, unseal
from peerwise.run.peer.pulling import admitted
from peerwise.transport import MemoryTransport

ODD: list[Any] = [
    None, True, False, 0, 1, -1, 5.0, 2**53, 2**53 + 1, 2**64 - 1, "", "b", "models", "A" * 64, "0" * 64, "x\n", "\0",
    [], {}, [[]], {"0" * 64: 1}, {"a": 1}, {"0" * 64: -1},
]  # fmt: skip


class Wire:
    """Home's signed transport in memory, where west's bytes can be changed."""

    def __init__(self, sites: Sites) -> None:
        sites.restore("alone")
        west = West(sites)
        self.west, self.data = west, west.path.read_bytes()
        manifest = west.manifest
        self.blobs = west.blobs
        self.manifest, self.shared = manifest, {WEST: {MODELS: (self.data, self.blobs)}}
        self.signed = sites.peer(HOME).signed(MemoryTransport(HOME, self.shared))

    def heard(self, data: bytes, blobs: dict[str, bytes] | None = None) -> bool:
        """Whether home takes it; whatever else happens than a refusal in words goes on."""
        self.shared[WEST][MODELS] = data, self.blobs if blobs is None else blobs
        try:
            found = self.signed.fetch(WEST, MODELS)
            if found is not None and blobs is not None:
                found.read()
        except (ParcelError, ExchangeError):
            return False
        return found is not None


def manifest_bits(sites: Sites, step: int = 1) -> Row:
    wire = Wire(sites)
    row = Row("every bit of a manifest flipped", note=f"{len(wire.data)} bytes")
    started = time.perf_counter()
    for bit in range(0, 8 * len(wire.data), step):
        changed = bytearray(wire.data)
        changed[bit // 8] ^= 1 << bit % 8
        row.trials += 1
        if wire.heard(bytes(changed)):
            row.problems.append(f"bit {bit}: it was taken")
        else:
            row.struck += 1
    row.note += f", {1e3 * (time.perf_counter() - started) / row.trials:.2f} ms each"
    if not wire.heard(wire.data):
        row.problems.append("the whole manifest is not taken afterwards")
    return row


def blob_bytes(sites: Sites, count: int) -> Row:
    """What the signature covers through its hash."""
    wire, chance = Wire(sites), random.Random(1)
    row = Row("random bytes of a model changed on the way")
    for _ in range(count):
        key = chance.choice(sorted(wire.blobs))
        changed = _changed(wire.blobs[key], chance)
        row.trials += 1
        if wire.heard(wire.data, {**wire.blobs, key: changed}):
            row.problems.append(f"blob {key[:8]}: it was taken")
        else:
            row.struck += 1
    return row


def signed_bytes(sites: Sites, count: int) -> Row:
    """The same, signed by the peer itself: what passes is a model that keeps its contract, the rest is left out."""
    wire, chance = Wire(sites), random.Random(2)
    site, models = sites.peer(HOME).site(), unseal(wire.manifest, wire.blobs)["models"]
    task = sites.peer(HOME).task
    row = Row("random bytes of a model changed and signed all the same")
    longest = 0.0
    with Worker(Limits(seconds=10.0)) as worker:
        gate = Gate(worker)
        for _ in range(count):
            name = chance.choice(sorted(models))
            parcel = Parcel(models={name: _changed(models[name], chance)}, classes=list(site.classes))
            started = time.perf_counter()
            passed, _, left_out = admitted(parcel, WEST, site, task.inputs, gate, worker)
            longest = max(longest, time.perf_counter() - started)
            row.trials += 1
            row.struck += len(left_out)
            if len(passed) + len(left_out) != 1:
                row.problems.append(f"{name}: neither in nor out")
        good = Parcel(models=dict(models), classes=list(site.classes))
        if admitted(good, WEST, site, task.inputs, gate, worker)[2]:
            row.problems.append("the whole models do not pass afterwards")
    row.note = f"{row.trials - row.struck} still answer within their contract; longest {longest:.1f} s"
    return row


def _changed(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8))):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def generated(sites: Sites, count: int) -> Row:
    """Made up, changed, or signed by west with a program of its own."""
    wire, chance, stranger = Wire(sites), random.Random(3), Identity.new()
    row = Row("generated manifests")
    taken = 0
    for _ in range(count):
        data = _generated(wire, chance, stranger)
        row.trials += 1
        if data is not None and wire.heard(data):
            taken += 1
            if json.loads(data)["key_id"] != wire.west.peer.identity.key_id:
                row.problems.append("one that west has not signed was taken")
        else:
            row.struck += 1
    row.note = f"{taken} were signed by the peer and within all rules, the rest was refused"
    return row


def _generated(wire: Wire, chance: random.Random, stranger: Identity) -> bytes | None:
    match chance.randrange(3):
        case 0:
            place = chance.randrange(len(wire.data))
            return wire.data[:place] + chance.randbytes(chance.randrange(9)) + wire.data[place + chance.randrange(9) :]
        case 1:
            parts = json.loads(wire.data)
            parts[chance.choice([*parts, "more"])] = chance.choice(ODD)
            return canonical(parts)
        case _:
            payload = {**wire.manifest.payload, chance.choice([*wire.manifest.payload, "more"]): chance.choice(ODD)}
            signer = chance.choice([wire.west.peer.identity, stranger])
            try:
                return signer.sign("manifest", payload)
            except PeerwiseError:
                return None


def tampering(sites: Sites, *, quick: bool) -> Iterator[Row]:
    yield sites_row(sites, manifest_bits, 97 if quick else 1)
    yield sites_row(sites, blob_bytes, 30 if quick else 600)
    yield sites_row(sites, signed_bytes, 12 if quick else 400)
    yield sites_row(sites, generated, 300 if quick else 10_000)


def sites_row(sites: Sites, work: Any, size: int) -> Row:
    """In a process of its own, as it opens models."""
    return Row(**sites.done(lambda: vars(work(sites, size))))
