"""The roster: who belongs, who no longer does, and who has a new key."""

from __future__ import annotations

import dataclasses

import pytest
from signed_things import DAY, NEW, NOW, ROSTER, STRANGER, A, B, C, identity

from peerwise.errors import NotTrusted, ParcelError
from peerwise.parcels.signed import SKEW, Member, Roster, Rotation, canonical, rotation


def read(data, *, founder=A, federation="fed", now=NOW):
    return Roster.read(data, founder.public, federation, now)


def signed_payload(**changes):
    """A roster that the founder signed with a program of its own."""
    payload = {"format": 1, **dataclasses.asdict(ROSTER), "members": [dataclasses.asdict(m) for m in ROSTER.members]}
    return A.sign("roster", {**payload, "rotations": [], **changes})


def test_a_roster_comes_back_as_it_was():
    assert read(ROSTER.signed(A)) == ROSTER
    assert read(signed_payload()) == ROSTER
    assert ROSTER.signed(A) == signed_payload()


def test_members_are_known_by_name_and_those_revoked_are_refused_with_the_reason():
    assert ROSTER.key_of("b") == B.public
    assert ROSTER.names == ["a", "b"]
    assert ROSTER.member("c").revoked == "left"
    with pytest.raises(NotTrusted, match=r"'c' was revoked in the roster \(left\)"):
        ROSTER.key_of("c")
    for name in ("d", "A", "", "b\n"):
        with pytest.raises(NotTrusted, match="is not in version 3 of the roster"):
            ROSTER.key_of(name)


def changed_at(data, place):
    changed = bytearray(data)
    changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


def test_every_changed_bit_of_a_roster_is_refused():
    data = ROSTER.signed(A)
    for place in range(8 * len(data)):
        with pytest.raises(NotTrusted):
            read(changed_at(data, place))


def test_every_changed_bit_of_a_rotation_is_refused_alone_and_in_a_roster():
    statement = rotation(A, NEW, "a", NOW)
    for place in range(8 * len(statement)):
        with pytest.raises(NotTrusted):
            Rotation.read(changed_at(statement, place), A.public)
    data = ROSTER.rotated(statement).signed(NEW)
    assert read(data).founder == NEW.public
    for byte in range(len(data)):
        for known in (A, NEW):
            with pytest.raises(NotTrusted):
                read(changed_at(data, 8 * byte + byte % 8), founder=known)


def test_only_the_founder_signs():
    with pytest.raises(NotTrusted, match="is not the founder's"):
        ROSTER.signed(B)
    own = dataclasses.replace(ROSTER, founder=B.public)
    with pytest.raises(NotTrusted, match="signed by key"):
        read(own.signed(B))
    with pytest.raises(NotTrusted, match="names another founder"):
        read(signed_payload(founder=B.public))


def test_a_roster_of_another_federation_or_time_is_refused():
    data = ROSTER.signed(A)
    with pytest.raises(NotTrusted, match="of the federation 'fed': expected 'other'"):
        read(data, federation="other")
    assert read(data, now=ROSTER.expires - 1)
    with pytest.raises(NotTrusted, match="expired 0 seconds ago"):
        read(data, now=ROSTER.expires)
    assert read(data, now=ROSTER.issued - SKEW)
    with pytest.raises(NotTrusted, match=f"issued {SKEW + 1} seconds from now"):
        read(data, now=ROSTER.issued - SKEW - 1)


def test_a_list_that_has_ended_can_be_looked_at_but_not_one_that_was_changed():
    data = ROSTER.signed(A)
    assert Roster.read(data, A.public, "fed", NOW + 10 * DAY, ended_too=True) == ROSTER
    with pytest.raises(NotTrusted):
        Roster.read(data, B.public, "fed", NOW + 10 * DAY, ended_too=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "format 2, and this version reads format 1: update Peerwise"),
        ({"format": 2, "novel": []}, "update Peerwise"),
        ({"format": "1"}, "says no format"),
        ({"format": True}, "says no format"),
        ({"more": 1}, r"other fields than it should \(\['more'\]\)"),
        ({"version": 0}, "version is 0"),
        ({"version": 2**53 + 1}, "version is"),
        ({"version": True}, "version is True"),
        ({"version": 3.0}, "version is 3.0"),
        ({"issued": "today"}, "time of the roster is 'today'"),
        ({"issued": NOW, "expires": NOW}, "to live for 0 seconds"),
        ({"expires": NOW + 740 * DAY}, "to live for"),
        ({"federation": 5}, "federation is 5"),
        ({"founder": "xyz"}, "the founder's key is 'xyz'"),
        ({"rotations": ["0" * 64]}, "other rotations than its founder signed"),
        ({"rotations": None}, "other rotations"),
        ({"members": None}, "no list of objects"),
        ({"members": ["a"]}, "no list of objects"),
        ({"members": [{"name": "a", "key": A.public}]}, "other fields"),
    ],
)
def test_fields_out_of_order_are_refused(changes, message):
    with pytest.raises(ParcelError, match=message):
        read(signed_payload(**changes))


def test_a_missing_field_is_refused():
    payload = {"format": 1, "federation": "fed", "version": 1}
    with pytest.raises(ParcelError, match="other fields"):
        read(A.sign("roster", payload))


@pytest.mark.parametrize(
    "odd",
    [
        {"name": "a b"},
        {"name": "../x"},
        {"name": 3},
        {"key": B.public.upper()},
        {"key": B.public[:-2]},
        {"key": "00" * 32},
        {"address": "x" * 201},
        {"address": "line\nbreak"},
        {"address": None},
        {"certificate": "\x1b[2J"},
        {"revoked": ""},
        {"revoked": 1},
    ],
)
def test_a_member_that_cannot_be_is_refused(odd):
    member = dataclasses.asdict(ROSTER.members[1]) | odd
    with pytest.raises(ParcelError):
        read(signed_payload(members=[member]))


def test_names_and_keys_are_there_once_whatever_their_case():
    for other, message in (
        (Member("b", NEW.public), "the name 'b' twice"),
        (Member("B", NEW.public), "the name 'b' twice"),
        (Member("d", B.public), f"the key '{B.public}' twice"),
        (Member("d", C.public), f"the key '{C.public}' twice"),
    ):
        with pytest.raises(ParcelError, match=message):
            ROSTER.with_member(other)
        listed = [dataclasses.asdict(member) for member in (*ROSTER.members, other)]
        with pytest.raises(ParcelError, match=message):
            read(signed_payload(members=listed))


def test_a_thousand_members_fit_and_no_more():
    def full(count):
        some = [
            Member(f"site-{n}", identity(n % 200).public[:-4] + f"{n:04x}", "tls/" + "h" * 196) for n in range(count)
        ]
        return dataclasses.replace(ROSTER, members=some)

    assert len(read(full(1000).signed(A)).members) == 1000
    with pytest.raises(ParcelError, match="1001 members"):
        full(1001)


def test_changes_make_the_next_version():
    more = ROSTER.with_member(Member("d", NEW.public), issued=NOW)
    assert (more.version, more.issued, more.expires) == (4, NOW, NOW + 2 * DAY)
    assert more.key_of("d") == NEW.public
    less = more.revoked("b", "key was lost")
    assert less.version == 5
    assert less.names == ["a", "d"]
    with pytest.raises(NotTrusted, match="key was lost"):
        less.key_of("b")
    with pytest.raises(NotTrusted, match="not in version"):
        less.revoked("nobody", "why")
    assert ROSTER.names == ["a", "b"]
    again = less.renewed(NOW + DAY)
    assert (again.version, again.issued, again.members) == (6, NOW + DAY, less.members)


def test_a_revoked_member_comes_back_with_another_key_only():
    with pytest.raises(ParcelError, match="twice"):
        ROSTER.with_member(Member("c", C.public))
    back = ROSTER.with_member(Member("c", NEW.public))
    assert back.key_of("c") == NEW.public


def test_a_member_rotates_its_key_with_both_signatures():
    statement = rotation(B, NEW, "b", NOW)
    assert Rotation.read(statement, B.public) == Rotation("b", B.public, NEW.public, NOW)
    after = ROSTER.rotated(statement)
    assert after.version == 4
    assert after.key_of("b") == NEW.public
    assert after.member("b").certificate == "b.example"
    assert after.founder == A.public
    assert read(after.signed(A)) == after
    with pytest.raises(NotTrusted):
        after.rotated(statement)


def test_a_rotation_without_one_of_the_signatures_is_refused():
    said = {"format": 1, "name": "b", "old": B.public, "new": NEW.public, "at": NOW}
    by_new = NEW.signature("rotation-accepted", canonical(said)).hex()
    by_other = STRANGER.signature("rotation-accepted", canonical(said)).hex()
    assert Rotation.read(B.sign("rotation", {**said, "accepted": by_new}), B.public).new == NEW.public
    with pytest.raises(NotTrusted, match="not signed by the new key"):
        ROSTER.rotated(B.sign("rotation", {**said, "accepted": by_other}))
    for signer in (NEW, STRANGER, A):
        with pytest.raises(ParcelError):
            ROSTER.rotated(signer.sign("rotation", {**said, "accepted": by_new}))
    with pytest.raises(NotTrusted, match="not signed by the new key"):
        ROSTER.rotated(B.sign("rotation", {**said, "at": NOW + 1, "accepted": by_new}))
    with pytest.raises(ParcelError, match="update Peerwise"):
        ROSTER.rotated(B.sign("rotation", {**said, "format": 2}))


def test_a_rotation_under_another_name_or_of_a_revoked_key_is_refused():
    with pytest.raises(NotTrusted, match="for 'a', and the key is of 'b'"):
        ROSTER.rotated(rotation(B, NEW, "a", NOW))
    with pytest.raises(NotTrusted):
        ROSTER.rotated(rotation(C, NEW, "c", NOW))
    with pytest.raises(ParcelError, match="twice"):
        ROSTER.rotated(rotation(B, C, "b", NOW))
    with pytest.raises(ParcelError, match="other keys"):
        rotation(B, B, "b", NOW)
    with pytest.raises(ParcelError, match="name is 'no name'"):
        rotation(B, NEW, "no name", NOW)


def test_the_founder_rotates_and_whoever_knows_any_of_its_keys_follows():
    third = identity(9)
    once = ROSTER.rotated(rotation(A, NEW, "a", NOW))
    assert once.key_of("a") == NEW.public
    twice = once.rotated(rotation(NEW, third, "a", NOW + 5))
    data = twice.signed(third)
    for known in (A, NEW, third):
        assert read(data, founder=known) == twice
    for stranger in (B, STRANGER):
        with pytest.raises(NotTrusted):
            read(data, founder=stranger)
    with pytest.raises(NotTrusted, match="is not the founder's"):
        twice.signed(A)


def test_rotations_cannot_be_left_out_added_or_exchanged():
    third = identity(9)
    first, second = rotation(A, NEW, "a", NOW), rotation(NEW, third, "a", NOW)
    data = ROSTER.rotated(first).rotated(second).signed(third)
    envelope = data.split(b"\n")[-1]
    other = rotation(A, NEW, "a", NOW + 1)
    for lines in ([envelope], [second, envelope], [second, first, envelope], [first, second, first, envelope]):
        with pytest.raises(NotTrusted):
            read(b"\n".join(lines))
    for lines in ([other, second, envelope], [envelope], [b"", second, envelope], [*[b"{}"] * 5000, envelope]):
        for known in (A, third):
            with pytest.raises(NotTrusted):
                read(b"\n".join(lines), founder=known)
    with pytest.raises(NotTrusted):
        read(data + b"\n")
    with pytest.raises(NotTrusted, match="bytes: expected at most"):
        read(b"\n" * (5 << 20))


def test_a_stranger_cannot_rotate_the_founder_away():
    forged = rotation(STRANGER, NEW, "a", NOW)
    mine = dataclasses.replace(ROSTER, founder=NEW.public, rotations=(forged,))
    with pytest.raises(NotTrusted):
        read(mine.signed(NEW))
    with pytest.raises(NotTrusted):
        ROSTER.rotated(forged)


def test_a_founder_who_is_no_member_rotates_too_and_a_revoked_entry_keeps_its_key():
    alone = dataclasses.replace(ROSTER, members=ROSTER.members[1:])
    assert alone.rotated(rotation(A, NEW, "founder", NOW)).founder == NEW.public
    left = ROSTER.revoked("a", "no longer trains").rotated(rotation(A, NEW, "a", NOW))
    assert left.founder == NEW.public
    assert left.member("a").key == A.public
