"""Keys and envelopes: what was not signed, or was changed by one bit, is not read."""

from __future__ import annotations

import base64
import json
import os
import stat

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given, settings
from hypothesis import strategies as st
from signed_things import STRANGER, A, B

from peerwise.errors import ConfigError, NotTrusted, ParcelError, StorageError
from peerwise.parcels.signed import (
    Identity,
    Member,
    canonical,
    fingerprint,
    key_id,
    opened,
    opened_by_itself,
    peer_name,
)
from peerwise.parcels.signed.envelope import envelope
from peerwise.parcels.strict import strict_json

NOTE = {"text": "hello", "n": 3, "list": [1.5, None, True]}


def test_a_key_is_kept_for_its_owner_alone_and_comes_back(tmp_path):
    me = Identity.new()
    me.save(tmp_path / "deep" / "key.pem")
    assert stat.S_IMODE((tmp_path / "deep" / "key.pem").stat().st_mode) == 0o600
    again = Identity.load(tmp_path / "deep" / "key.pem")
    assert again.public == me.public
    assert opened(again.sign("note", NOTE), "note", [me.public]) == NOTE


def test_two_keys_are_never_the_same():
    assert Identity.new().public != Identity.new().public


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
def test_a_key_that_others_can_use_is_refused(tmp_path, mode):
    Identity.new().save(tmp_path / "key.pem")
    os.chmod(tmp_path / "key.pem", mode)
    with pytest.raises(ConfigError, match=rf"can be used by others \(mode {mode:04o}\).*chmod 600"):
        Identity.load(tmp_path / "key.pem")


def test_a_key_is_never_written_over(tmp_path):
    me = Identity.new()
    me.save(tmp_path / "key.pem")
    with pytest.raises(StorageError, match="is there already"):
        Identity.new().save(tmp_path / "key.pem")
    assert Identity.load(tmp_path / "key.pem").public == me.public


def test_what_holds_no_key_of_ours_is_refused(tmp_path):
    path = tmp_path / "key.pem"
    with pytest.raises(ConfigError, match=r"cannot be read.*peerwise init"):
        Identity.load(path)
    other = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    Identity.new().save(tmp_path / "good.pem")
    good = (tmp_path / "good.pem").read_bytes()
    for data, message in ((b"", "holds no key"), (good[:60], "holds no key"), (other, "expected an Ed25519 key")):
        path.write_bytes(data)
        path.chmod(0o600)
        with pytest.raises(ConfigError, match=message):
            Identity.load(path)


def test_the_private_key_is_not_shown():
    me = Identity.new()
    assert repr(me) == f"Identity({me.fingerprint})"
    assert me.fingerprint == fingerprint(me.public)
    assert len(me.fingerprint) == 24
    assert me.key_id == key_id(me.public)


def test_each_kind_is_its_own():
    data = A.sign("note", NOTE)
    assert opened(data, "note", [B.public, A.public]) == NOTE
    for kind in ("manifest", "not", "notes", "note 1"):
        with pytest.raises(NotTrusted, match="does not match its signature"):
            opened(data, kind, [A.public])


def test_only_a_known_key_counts():
    data = STRANGER.sign("note", NOTE)
    with pytest.raises(NotTrusted, match=f"signed by key {STRANGER.key_id[:16]}: expected {A.key_id[:16]} or"):
        opened(data, "note", [A.public, B.public])
    with pytest.raises(NotTrusted, match="a known key, and there is none"):
        opened(data, "note", [])
    forged = json.loads(data) | {"key_id": A.key_id}
    with pytest.raises(NotTrusted, match="does not match its signature"):
        opened(canonical(forged), "note", [A.public, STRANGER.public])
    with pytest.raises(ParcelError, match="the key to verify with"):
        opened(data, "note", ["not hexadecimal"])


def test_every_changed_bit_of_an_envelope_is_refused():
    data = A.sign("note", NOTE)
    assert opened(data, "note", [A.public]) == NOTE
    for place in range(8 * len(data)):
        changed = bytearray(data)
        changed[place // 8] ^= 1 << place % 8
        with pytest.raises(NotTrusted):
            opened(bytes(changed), "note", [A.public])


def test_an_envelope_cut_short_or_continued_anywhere_is_refused():
    data = A.sign("note", NOTE)
    for end in range(len(data)):
        with pytest.raises(NotTrusted):
            opened(data[:end], "note", [A.public])
    for more in (b"\n", b" ", b"\0", b"{}", data):
        with pytest.raises(NotTrusted):
            opened(data + more, "note", [A.public])
        with pytest.raises(NotTrusted):
            opened(more + data, "note", [A.public])


def ways_to_write(parts):
    """The same envelope as other readers would take it too."""
    yield json.dumps(parts).encode()
    yield json.dumps(dict(reversed(parts.items())), separators=(",", ":")).encode()
    yield canonical(parts).replace(b"key_id", b"\\u006bey_id")
    for name in ("payload", "signature"):
        text = parts[name]
        yield canonical(parts | {name: text.rstrip("=")})
        yield canonical(parts | {name: text + "="})
        yield canonical(parts | {name: text[:8] + "\n" + text[8:]})
        yield canonical(parts | {name: text.replace("+", "-").replace("/", "_") + " "})
    yield canonical(parts | {"key_id": parts["key_id"].upper()})
    yield canonical(parts | {"more": ""})
    yield canonical([parts])


def test_there_is_one_way_to_write_an_envelope():
    parts = json.loads(A.sign("note", NOTE))
    ways = set(ways_to_write(parts)) - {canonical(parts)}
    assert len(ways) >= 12
    for data in ways:
        with pytest.raises(NotTrusted):
            opened(data, "note", [A.public])


def test_spare_bits_of_base64_are_refused():
    parts = json.loads(A.sign("note", NOTE))
    text = parts["signature"]
    assert text.endswith("==")
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    other = text[:-3] + letters[letters.index(text[-3]) + 1] + "=="
    assert base64.b64decode(other) == base64.b64decode(text)
    with pytest.raises(NotTrusted, match="spare bits"):
        opened(canonical(parts | {"signature": other}), "note", [A.public])


def test_a_signature_of_another_size_of_number_is_refused():
    """S and S plus the order of the group are the same to a careless reader."""
    parts = json.loads(A.sign("note", NOTE))
    raw = base64.b64decode(parts["signature"])
    order = 2**252 + 27742317777372353535851937790883648493
    larger = (int.from_bytes(raw[32:], "little") + order).to_bytes(32, "little")
    data = canonical(parts | {"signature": base64.b64encode(raw[:32] + larger).decode()})
    with pytest.raises(NotTrusted, match="does not match its signature"):
        opened(data, "note", [A.public])


@pytest.mark.parametrize(
    "payload", [b'{"a": 1}', b'{"a":1,"a":1}', b"[1]", b"{}x", b'{"b":1,"a":2}', b"\xff", b'{"a":1.50}']
)
def test_a_signed_payload_that_is_not_canonical_is_refused(payload):
    data = envelope(A.public, payload, A.signature("note", payload))
    with pytest.raises(NotTrusted):
        opened(data, "note", [A.public])


def test_an_envelope_of_a_later_format_says_to_update():
    data = canonical({"format": 2, "body": "x"})
    with pytest.raises(NotTrusted, match=r"format 2.*update Peerwise"):
        opened(data, "note", [A.public])


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text(max_size=5), st.integers(-(2**63), 2**63) | st.text(max_size=5) | st.floats(-1, 1)))
def test_whatever_is_signed_is_read_the_same(payload):
    assert opened(A.sign("any", payload), "any", [A.public]) == payload


def test_what_nobody_could_read_is_not_signed():
    for payload in ({"n": 2**64}, {"t": "\ud800"}, {1: 2}, {"x": float("nan")}, {"long": "x" * (1 << 20)}):
        with pytest.raises(ParcelError):
            A.sign("any", payload)


def times(point, number):
    """A multiple of a point of the curve of Ed25519, by its textbook addition."""
    prime = 2**255 - 19
    d = -121665 * pow(121666, -1, prime) % prime
    total = (0, 1)
    for _ in range(number):
        (x1, y1), (x2, y2) = total, point
        both = d * x1 * x2 * y1 * y2 % prime
        x = (x1 * y2 + x2 * y1) * pow(1 + both, -1, prime) % prime
        total = (x, (y1 * y2 + x1 * x2) * pow(1 - both, -1, prime) % prime)
    return total


def test_keys_with_which_anybody_could_sign_are_refused():
    prime, root = 2**255 - 19, pow(2, (2**255 - 20) // 4, 2**255 - 19)
    d = -121665 * pow(121666, -1, prime) % prime
    from peerwise.parcels.signed.fields import _WEAK

    for y in _WEAK:
        square = (y * y - 1) * pow(d * y * y + 1, -1, prime) % prime
        x = pow(square, (prime + 3) // 8, prime)
        x = x if x * x % prime == square else x * root % prime
        assert x * x % prime == square
        assert times((x, y), 8) == (0, 1)
        for number in (y, y + 2**255, *([y + prime, y + prime + 2**255] if y < 19 else [])):
            with pytest.raises(ParcelError, match="anybody could sign"):
                Member("m", number.to_bytes(32, "little").hex())


def test_a_forged_signature_of_a_weak_key_is_refused():
    weak = "01" + "00" * 31
    payload = canonical({"text": "signed by nobody"})
    data = envelope(weak, payload, bytes.fromhex(weak) + bytes(32))
    with pytest.raises(ParcelError, match="anybody could sign"):
        opened(data, "note", [weak])


@pytest.mark.parametrize("name", ["a", "hospital-a", "A.b_c-9", "0", "x" * 40])
def test_names_of_sites(name):
    assert peer_name(name) == name


@pytest.mark.parametrize("name", ["", "-a", ".a", "_a", "a b", "a/b", "..", "x" * 41, "é", "a\n", "a\0", None, 3])
def test_what_cannot_name_a_site(name):
    with pytest.raises(ConfigError, match="cannot name a site: expected 1 to 40 letters"):
        peer_name(name)


def test_the_envelope_says_no_more_than_payload_signature_and_key():
    assert set(strict_json(A.sign("note", NOTE))) == {"payload", "signature", "key_id"}


def test_a_letter_of_a_stranger_is_signed_by_the_key_that_it_names():
    letter = STRANGER.sign("request", {"name": "new", "key": STRANGER.public})
    assert opened_by_itself(letter, "request")["name"] == "new"
    for data in (
        A.sign("request", {"name": "new", "key": STRANGER.public}),
        A.sign("request", {"name": "new"}),
        A.sign("request", {"key": 3}),
        A.sign("invite", {"key": A.public}),
        A.sign("request", {"key": "01" + "00" * 31}),
        letter + b" ",
    ):
        with pytest.raises(ParcelError):
            opened_by_itself(data, "request")
