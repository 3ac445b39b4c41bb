"""Who belongs to a federation: an allow-list of keys that its founder signs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from peerwise.errors import NotTrusted, ParcelError
from peerwise.parcels.signed.envelope import opened
from peerwise.parcels.signed.fields import (
    FEDERATION,
    FORMAT,
    MOST_VERSION,
    NAME,
    SKEW,
    exact_fields,
    known_format,
    lifetime,
    plain_text,
    public_key,
    text_like,
    whole,
)
from peerwise.parcels.signed.identity import Identity
from peerwise.parcels.signed.rotation import Rotation
from peerwise.parcels.tree import sha256

MOST_MEMBERS = 1000
MOST_ROTATIONS = 100
MOST_BYTES = 4 << 20


@dataclass(frozen=True)
class Member:
    """One site: its key, where it can be reached, and the name in its TLS certificate if that is not its own."""

    name: str
    key: str
    address: str = ""
    certificate: str = ""
    revoked: str | None = None

    def __post_init__(self) -> None:
        text_like(self.name, NAME, "a member's name")
        public_key(self.key, f"the key of {self.name}")
        plain_text(self.address, 200, f"the address of {self.name}")
        plain_text(self.certificate, 100, f"the certificate's name of {self.name}")
        if self.revoked is not None:
            plain_text(self.revoked, 300, f"why {self.name} was revoked", least=1)


@dataclass(frozen=True)
class Roster:
    """Version ``version`` of the list. ``rotations`` are the statements that led to the founder's present key."""

    federation: str
    version: int
    founder: str
    issued: int
    expires: int
    members: tuple[Member, ...] = ()
    rotations: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", tuple(self.members))
        text_like(self.federation, FEDERATION, "the roster's federation")
        whole(self.version, 1, MOST_VERSION, "the roster's version")
        public_key(self.founder, "the founder's key")
        lifetime(self.issued, self.expires, "the roster")
        if len(self.members) > MOST_MEMBERS or len(self.rotations) > MOST_ROTATIONS:
            raise ParcelError(
                f"the roster has {len(self.members)} members and {len(self.rotations)} rotations: expected at most "
                f"{MOST_MEMBERS} and {MOST_ROTATIONS}."
            )
        for what, found in (
            ("name", [member.name.lower() for member in self.members]),  # names are also files
            ("key", [member.key for member in self.members]),
        ):
            if len(set(found)) != len(found):
                twice = next(value for value in found if found.count(value) > 1)
                raise ParcelError(f"the roster has the {what} {twice!r} twice: expected each once. Remove one of them.")

    def signed(self, identity: Identity) -> bytes:
        """The bytes for the members: the founder's rotations, if any, and the list itself, an envelope a line."""
        if identity.public != self.founder:
            raise NotTrusted(f"key {identity.key_id[:16]} is not the founder's: let the founder sign.")
        payload = {
            "format": FORMAT,
            "federation": self.federation,
            "version": self.version,
            "founder": self.founder,
            "issued": self.issued,
            "expires": self.expires,
            "members": [dataclasses.asdict(member) for member in self.members],
            "rotations": [sha256(statement) for statement in self.rotations],
        }
        return b"\n".join([*self.rotations, identity.sign("roster", payload)])

    @classmethod
    def read(cls, data: bytes, founder_key: str, federation: str, now: int, *, ended_too: bool = False) -> Roster:
        """The list, if the founder signed it with the key known here, or with one that rotations lead to from it; one
        that has ended only if ``ended_too``, to be looked at."""
        if len(data) > MOST_BYTES:
            raise NotTrusted(f"the roster has {len(data)} bytes: expected at most {MOST_BYTES}. Ask the founder.")
        *statements, envelope = data.split(b"\n", MOST_ROTATIONS)
        signer = present_key(founder_key, statements)
        payload = opened(envelope, "roster", [signer])
        known_format(payload, "the roster")
        exact_fields(payload, {"format", *(field.name for field in dataclasses.fields(cls))}, "the roster")
        text_like(payload["federation"], FEDERATION, "the roster's federation")
        if payload["federation"] != federation:
            raise NotTrusted(
                f"the roster is of the federation {payload['federation']!r}: expected {federation!r}. Ask the founder."
            )
        if payload["rotations"] != [sha256(statement) for statement in statements]:
            raise NotTrusted("the roster came with other rotations than its founder signed. Fetch it again.")
        roster = cls(
            **{name: payload[name] for name in ("federation", "version", "founder", "issued", "expires")},
            members=_members(payload["members"]),
            rotations=tuple(statements),
        )
        roster._check(signer, now, ended_too)
        return roster

    def _check(self, signer: str, now: int, ended_too: bool) -> None:
        if self.founder != signer:
            raise NotTrusted("the roster names another founder than the one who signed it. Ask the founder.")
        if self.issued > now + SKEW:
            raise NotTrusted(
                f"the roster was issued {self.issued - now} seconds from now: expected at most {SKEW}. "
                f"Check the clocks of this site and of the founder's."
            )
        if now >= self.expires and not ended_too:
            raise NotTrusted(f"the roster expired {now - self.expires} seconds ago: ask the founder for a newer one.")

    def member(self, name: str) -> Member:
        """The member of this name, also if it was revoked."""
        for member in self.members:
            if member.name == name:
                return member
        raise NotTrusted(
            f"{name[:80]!r} is not in version {self.version} of the roster: expected one of its {len(self.members)} "
            f"members. Ask the founder to add it, and fetch the roster again."
        )

    def key_of(self, name: str) -> str:
        member = self.member(name)
        if member.revoked is not None:
            raise NotTrusted(
                f"{name!r} was revoked in the roster ({member.revoked}): nothing of it is taken. Ask the founder."
            )
        return member.key

    @property
    def names(self) -> list[str]:
        """The members that are not revoked."""
        return [member.name for member in self.members if member.revoked is None]

    def with_member(self, member: Member, *, issued: int | None = None) -> Roster:
        """One more member; one that was revoked comes back under its name with another key."""
        others = tuple(
            known for known in self.members if known.name != member.name or not known.revoked or known.key == member.key
        )
        return self._next(issued, members=(*others, member))

    def revoked(self, name: str, why: str, *, issued: int | None = None) -> Roster:
        out = dataclasses.replace(self.member(name), revoked=why)
        return self._next(issued, members=tuple(out if known.name == name else known for known in self.members))

    def rotated(self, statement: bytes, *, issued: int | None = None) -> Roster:
        """With the new key of a member, of the founder, or of a member who is the founder."""
        said = self._statement(statement)
        members = tuple(
            dataclasses.replace(known, key=said.new) if known.key == said.old and known.revoked is None else known
            for known in self.members
        )
        if said.old != self.founder:
            return self._next(issued, members=members)
        rotations = (*self.rotations, statement)
        return self._next(issued, members=members, founder=said.new, rotations=rotations)

    def renewed(self, issued: int) -> Roster:
        """The same list with a new date, for as long a time as before."""
        return self._next(issued)

    def _statement(self, statement: bytes) -> Rotation:
        keys = {member.key: member.name for member in self.members if member.revoked is None}
        keys.setdefault(self.founder, "")
        claimed = opened(statement, "rotation", keys).get("old")
        if claimed not in keys:
            raise NotTrusted("the rotation is of a key that no member has: expected the key of one. Make it again.")
        said = Rotation.read(statement, claimed)
        if keys[said.old] not in ("", said.name):
            raise NotTrusted(f"the rotation is for {said.name!r}, and the key is of {keys[said.old]!r}. Make it again.")
        return said

    def _next(self, issued: int | None, **changes: Any) -> Roster:
        begin = self.issued if issued is None else issued
        end = begin + self.expires - self.issued
        return dataclasses.replace(self, version=self.version + 1, issued=begin, expires=end, **changes)


def _members(listed: Any) -> tuple[Member, ...]:
    if not isinstance(listed, list) or not all(isinstance(one, Mapping) for one in listed):
        raise ParcelError("the roster's members are no list of objects. Ask the founder for another.")
    for one in listed:
        exact_fields(one, [field.name for field in dataclasses.fields(Member)], "a member of the roster")
    return tuple(Member(**one) for one in listed)


def present_key(known: str, statements: list[bytes]) -> str:
    """The founder's key after those rotations that start at the known one; what came before it is not read."""
    key = known
    for statement in statements:
        try:
            key = Rotation.read(statement, key).new
        except ParcelError:
            if key != known:
                raise
    return key
