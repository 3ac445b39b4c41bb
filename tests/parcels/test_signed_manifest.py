"""Signed manifests: what a member said, in whole, in time, once."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from signed_things import DAY, NEW, NOW, PARCEL, ROSTER, STRANGER, A, B, C, payload_of, read, sealed

from peerwise.errors import NotTrusted, ParcelError
from peerwise.parcels import Parcel, sha256
from peerwise.parcels.signed import SKEW, Manifest, ManifestLimits, rotation, seal, unseal, withdrawal
from peerwise.parcels.tree import pack

DATA, BLOBS = sealed()


def resigned(signer=B, **changes):
    """A manifest that a member signed with a program of its own."""
    return signer.sign("manifest", payload_of(read(DATA)) | changes)


def test_a_sealed_parcel_comes_back_as_it_was():
    manifest = read(DATA)
    assert unseal(manifest, BLOBS) == PARCEL
    assert unseal(manifest, {**BLOBS, "more": b"of other parcels"}).nbytes == PARCEL.nbytes
    assert (manifest.site, manifest.topic, manifest.version) == ("b", "models", 5)
    assert manifest.card == {"rows": "100-1000"}
    assert manifest.blobs == {name: len(data) for name, data in BLOBS.items()}
    assert manifest.nbytes == sum(map(len, BLOBS.values()))
    assert all(sha256(data) == name for name, data in BLOBS.items())
    assert sha256(PARCEL.encode()[0]) == manifest.parcel


def test_a_parcel_without_arrays_or_models_travels_too():
    data, blobs = sealed(parcel=Parcel(note="only words"))
    assert len(blobs) == 1
    assert unseal(read(data), blobs) == Parcel(note="only words")


def test_every_changed_bit_of_a_manifest_is_refused():
    data, _ = sealed(parcel=Parcel(n=1), card=None)
    assert read(data)
    for place in range(8 * len(data)):
        changed = bytearray(data)
        changed[place // 8] ^= 1 << place % 8
        with pytest.raises(NotTrusted):
            read(bytes(changed))


def test_only_the_key_of_that_member_counts():
    for signer in (A, C, NEW, STRANGER):
        with pytest.raises(NotTrusted, match="signed by key"):
            read(sealed(signer)[0])
    with pytest.raises(NotTrusted, match="revoked"):
        read(sealed(C, site="c")[0], site="c")
    with pytest.raises(NotTrusted, match="not in version 3"):
        read(sealed(STRANGER, site="d")[0], site="d")


def test_after_a_rotation_the_old_key_counts_no_more():
    after = ROSTER.rotated(rotation(B, NEW, "b", NOW))
    assert read(sealed(NEW)[0], roster=after).site == "b"
    with pytest.raises(NotTrusted, match="signed by key"):
        read(DATA, roster=after)


def test_what_belongs_elsewhere_is_refused():
    for changes, message in (
        ({"federation": "other"}, "of the federation 'other': expected 'fed'"),
        ({"site": "a"}, "of the site 'a': expected 'b'"),
        ({"topic": "round-1"}, "of the topic 'round-1': expected 'models'"),
    ):
        with pytest.raises(NotTrusted, match=message):
            read(sealed(**changes)[0])
    with pytest.raises(NotTrusted, match="does not match its signature"):
        read(B.sign("roster", payload_of(read(DATA))))


def test_expiry_and_the_skew_of_clocks():
    assert read(DATA, now=NOW + DAY - 1)
    with pytest.raises(NotTrusted, match="expired 0 seconds ago: ask it to publish again"):
        read(DATA, now=NOW + DAY)
    assert read(sealed(created=NOW + SKEW)[0])
    with pytest.raises(NotTrusted, match=r"made 301 seconds from now.*clocks of both"):
        read(sealed(created=NOW + SKEW + 1)[0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "manifest of b is of format 2, and this version reads format 1: update Peerwise"),
        ({"format": 2, "novel": {}}, "update Peerwise"),
        ({"format": 0}, "says no format"),
        ({"format": None}, "says no format"),
        ({"format": 1.0}, "says no format"),
        ({"more": 1}, r"\['more'\]"),
        ({"more\x1b[2J": 1}, r"more\\x1b"),
        ({"version": 0}, "version is 0"),
        ({"version": -1}, "version is -1"),
        ({"version": 2**53 + 1}, "version is 9007199254740993"),
        ({"version": True}, "version is True"),
        ({"version": "5"}, "version is '5'"),
        ({"created": 1.5}, "time of the manifest is 1.5"),
        ({"created": 0}, "time of the manifest is 0"),
        ({"expires": None}, "expiry of the manifest is None"),
        ({"expires": NOW - 61}, "to live for -1 seconds"),
        ({"expires": NOW - 60 + 732 * DAY}, "to live for"),
        ({"site": "../b"}, "site is '../b'"),
        ({"topic": "Models"}, "topic is 'Models'"),
        ({"federation": ""}, "federation is ''"),
        ({"parcel": "0" * 64}, "none of its blobs"),
        ({"parcel": ["x"]}, "none of its blobs"),
        ({"parcel": ""}, "none of its blobs"),
        ({"blobs": None}, "blobs are a NoneType"),
        ({"blobs": {}}, "none of its blobs"),
        ({"blobs": {"../../etc/passwd": 3}}, "a blob of the manifest is"),
        ({"blobs": {"A" * 64: 3}}, "a blob of the manifest is"),
        ({"card": "text"}, "card is no object"),
        ({"card": {"x": "y" * 70_000}}, "card is no object of at most"),
        ({"withdrawn": "why"}, "withdrawal carries a parcel"),
        ({"withdrawn": ""}, "reason of the withdrawal"),
        ({"withdrawn": "two\nlines"}, "reason of the withdrawal"),
        ({"withdrawn": False}, "reason of the withdrawal"),
    ],
)
def test_fields_out_of_range_are_refused_though_their_signature_is_good(changes, message):
    with pytest.raises(ParcelError, match=message):
        read(resigned(**changes))


@pytest.mark.parametrize("size", [-1, 512 * 2**20 + 1, 1.0, True, "9", None])
def test_a_size_that_cannot_be_is_refused(size):
    blobs = dict(read(DATA).blobs) | {"0" * 64: size}
    with pytest.raises(ParcelError, match="size of blob 000000000000 of b is"):
        read(resigned(blobs=blobs))


def test_a_field_left_out_is_refused():
    whole = payload_of(read(DATA))
    for name in whole:
        with pytest.raises(ParcelError):
            read(B.sign("manifest", {field: value for field, value in whole.items() if field != name}))


def test_how_many_and_how_large_blobs_may_be_is_the_readers_choice():
    blobs = {f"{n:064x}": 10 for n in range(999)}
    many = resigned(blobs=blobs | {read(DATA).parcel: 10})
    assert read(many).nbytes == 10_000
    with pytest.raises(ParcelError, match="1001 blobs: expected <= 1000"):
        read(resigned(blobs=blobs | {read(DATA).parcel: 10, "f" * 64: 1}))
    with pytest.raises(ParcelError, match="1000 blobs: expected <= 10"):
        read(many, limits=ManifestLimits(blobs=10))
    with pytest.raises(ParcelError, match="expected a whole number from 0 to 9"):
        read(many, limits=ManifestLimits(blob_bytes=9))
    assert read(many, limits=ManifestLimits(total_bytes=10_000))
    with pytest.raises(ParcelError, match="have 10000 bytes: expected at most 9999"):
        read(many, limits=ManifestLimits(total_bytes=9_999))


def test_a_withdrawal_says_why_and_carries_nothing():
    about = {"federation": "fed", "site": "b", "topic": "models", "version": 6, "created": NOW, "expires": NOW + DAY}
    data = withdrawal(B, **about, why="trained on the wrong rows")
    manifest = read(data)
    assert manifest.withdrawn == "trained on the wrong rows"
    assert (manifest.blobs, manifest.parcel, manifest.version) == ({}, "", 6)
    with pytest.raises(ParcelError, match=r"took models back \(trained on the wrong rows\)"):
        unseal(manifest, {})
    for odd in ({"card": {}}, {"blobs": {"0" * 64: 1}}, {"parcel": "0" * 64}):
        with pytest.raises(ParcelError, match="expected the reason alone"):
            read(B.sign("manifest", payload_of(manifest) | odd))
    with pytest.raises(ParcelError, match="reason"):
        withdrawal(B, **about, why="")


def test_blobs_that_are_missing_changed_or_of_another_size_are_refused():
    manifest = read(DATA)
    for name, data in BLOBS.items():
        with pytest.raises(ParcelError, match=f"blob {name[:12]} of b is missing"):
            unseal(manifest, {key: value for key, value in BLOBS.items() if key != name})
        with pytest.raises(ParcelError, match=f"has {len(data) + 1} bytes: expected {len(data)}"):
            unseal(manifest, BLOBS | {name: data + b"0"})
        with pytest.raises(ParcelError, match="does not match its sha256"):
            unseal(manifest, BLOBS | {name: bytes([data[0] ^ 1]) + data[1:]})


def test_the_tree_and_its_manifest_name_the_same_blobs():
    manifest = read(DATA)
    extra = sha256(b"extra")
    more = dataclasses.replace(manifest, blobs={**manifest.blobs, extra: 5})
    with pytest.raises(ParcelError, match="its manifest signs others"):
        unseal(more, {**BLOBS, extra: b"extra"})
    tree, blobs = pack({"model": b"not signed"})
    less = dataclasses.replace(manifest, parcel=sha256(tree), blobs={sha256(tree): len(tree)})
    with pytest.raises(ParcelError, match="its manifest signs others"):
        unseal(less, {sha256(tree): tree, **blobs})


@pytest.mark.parametrize("tree", [b"", b"[]", b"\xff", b'{"format":2,"body":{},"arrays":null}', b"[" * 100_000])
def test_a_signed_tree_that_is_none_is_refused(tree):
    manifest = dataclasses.replace(read(DATA), parcel=sha256(tree), blobs={sha256(tree): len(tree)})
    with pytest.raises(ParcelError):
        unseal(manifest, {sha256(tree): tree})


def test_the_digest_tells_contents_apart_and_not_signatures():
    assert read(DATA).digest == read(sealed()[0]).digest
    assert read(DATA).digest != read(sealed(created=NOW)[0]).digest


def test_what_could_not_be_read_is_not_sealed():
    about = {"federation": "fed", "site": "b", "topic": "models", "version": 1, "created": NOW, "expires": NOW + DAY}
    for odd in ({"version": 0}, {"site": "a b"}, {"topic": "../x"}, {"expires": NOW}, {"card": {"x": float("nan")}}):
        with pytest.raises(ParcelError):
            seal(PARCEL, B, **{**about, **odd})
    many = Parcel(models=[b"%d" % n for n in range(1000)])
    with pytest.raises(ParcelError, match="1001 blobs"):
        seal(many, B, **about)


def test_arrays_come_back_bit_for_bit():
    parcel = Parcel(x=np.array([[np.nan, -0.0, np.inf]]), y=np.arange(3, dtype=np.uint8))
    data, blobs = sealed(parcel=parcel)
    back = unseal(read(data), blobs)
    assert back["x"].tobytes() == parcel["x"].tobytes()
    assert isinstance(read(data), Manifest)
