"""How a federation begins: the founder settles the task and invites; a member asks, is admitted, and is welcomed.

invite.json   the founder's: task, name and key, where to meet      signed by the founder
request.json  a member's: name, key, address, certificate request   signed by the member
welcome.json  the founder's answer: list of members, certificate    signed by the founder

Fingerprints are compared by people, over another line than the one that carries the files.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from peerwise.data.loaders.table import load_table
from peerwise.data.task import Task, public_rows, task_from
from peerwise.errors import ConfigError, NotTrusted, ParcelError
from peerwise.parcels import write_atomic
from peerwise.parcels.signed import Identity, Member, Roster, fingerprint, opened, opened_by_itself, peer_name
from peerwise.parcels.signed.fields import exact_fields, known_format
from peerwise.parcels.signed.roster import MOST_ROTATIONS, present_key
from peerwise.run.peer.folder import Federation, PeerFolder
from peerwise.run.peer.settings import DAY, FILE, Meeting, Settings, check_models, settings_from
from peerwise.transport import make_authority, make_request, sign_request

INVITE, REQUEST = "invite.json", "request.json"
LIST_DAYS = 90
MOST_BYTES = 8 * 2**20
LETTERS = {
    "invite": ("task", "founder", "key", "folder", "address"),
    "request": ("federation", "name", "key", "address", "certificate"),
    "welcome": ("federation", "name", "key", "list", "certificate", "authority"),
}


def found(path: Path, settings: dict[str, Any], task: Task, *, public: str = "") -> dict[str, Any]:
    """Begin a federation: this site's folder with a list of members that names it alone."""
    chosen = _settings(path, settings)
    if public:
        task = replace(task, public=public_rows(task, Path(public), Path(public).stem))
        chosen = replace(chosen, public=str(Path(public).resolve()))
    check_models(chosen.models, task.kind)
    peer, identity = _begin(path, task)
    federation = Federation(task.digest, chosen.name, identity.public)
    peer.write_federation(federation)
    if chosen.meeting.is_live:
        if not (peer.keys / "ca.crt").is_file():
            (peer.keys / "ca.key").unlink(missing_ok=True)  # of a beginning that was broken off
            make_authority(peer.keys, task.digest)
        request = _certificate_request(peer, chosen)
        _take_certificate(peer, sign_request(request, chosen.name, peer.keys / "ca.key", peer.keys / "ca.crt"))
    first = Member(name=chosen.name, key=identity.public, address=chosen.meeting.listen)
    now = peer.now()
    roster = Roster(federation.task, 1, identity.public, now, now + LIST_DAYS * DAY, (first,))
    write_atomic(peer.roster_path, roster.signed(identity))
    write_invite(peer, chosen)
    _finish(peer, chosen)
    peer.ledger.add("founded", task=task.digest, key=identity.public)
    return {"site": chosen.name, "task": task.digest, "fingerprint": identity.fingerprint, "invite": str(path / INVITE)}


def write_invite(peer: PeerFolder, settings: Settings) -> None:
    invite = {
        "format": 1,
        "task": peer.task.text(),
        "founder": settings.name,
        "key": peer.identity.public,
        "folder": settings.meeting.folder,
        "address": settings.meeting.listen,
    }
    write_atomic(peer.path / INVITE, peer.identity.sign("invite", invite))


def join(path: Path, settings: dict[str, Any], invite: Path, founders: str) -> dict[str, Any]:
    """Ask to be a member: keys of this site, and a request for the founder. ``founders``: the fingerprint that the
    founder has read out."""
    told = _invitation(invite)
    same_fingerprint(told["key"], founders, f"the founder {told['founder']!r}")
    task = Task.read(told["task"])
    federation = Federation(task.digest, peer_name(told["founder"]), told["key"])
    chosen = _settings(path, {**settings, "meeting": _meeting(told, settings.get("meeting", {}))})
    if chosen.name == federation.founder:
        raise ConfigError(f"the name {chosen.name!r} is the founder's: expected another one, with --name.")
    check_models(chosen.models, task.kind)
    peer, identity = _begin(path, task)
    peer.write_federation(federation)
    request = {
        "format": 1,
        "federation": task.digest,
        "name": chosen.name,
        "key": identity.public,
        "address": chosen.meeting.listen,
        "certificate": _certificate_request(peer, chosen).decode() if chosen.meeting.is_live else "",
    }
    write_atomic(path / REQUEST, identity.sign("request", request))
    _finish(peer, chosen)
    peer.ledger.add("asked", founder=told["founder"], task=task.digest)
    return {"site": chosen.name, "fingerprint": identity.fingerprint, "request": str(path / REQUEST)}


def _invitation(path: Path) -> dict[str, str]:
    data = read_letter(path)
    try:
        return checked_letter(opened_by_itself(data, "invite"), "invite")
    except ParcelError as error:
        raise NotTrusted(f"{path} is not the invite.json of a founder: {error}") from error


def _meeting(told: dict[str, str], given: dict[str, Any]) -> dict[str, Any]:
    """Where a member meets the others: as the founder does."""
    if told["folder"] and given.get("listen"):
        raise ConfigError(
            f"the members meet in a folder, {told['folder']}: expected no address to listen at. Leave --listen out."
        )
    if told["folder"]:
        return {**given, "folder": given.get("folder") or told["folder"]}
    if given.get("folder"):
        raise ConfigError("the members meet on the network: expected --listen HOST:PORT in the place of a folder.")
    if not given.get("listen"):
        raise ConfigError("the members meet on the network: expected --listen HOST:PORT, where this site is reached.")
    return {**given, "connect": [told["address"], *given.get("connect", [])]}


def task_for(data: Path, target: str, *, drop: list[str], name: str, positive: str | None, metric: str) -> Task:
    """A task from the founder's own table, to be looked through before anybody is invited."""
    if data.suffix == ".npz":
        raise ConfigError(
            f"{data.name} holds arrays: expected --task FILE.toml that says what they are, as docs/federation.md shows."
        )
    return task_from(load_table(data, target, drop=drop), name=name, positive=positive, metric=metric, target=target)


def welcome(peer: PeerFolder, roster: bytes, member: Member, certificate: bytes) -> Path:
    """The founder's answer to a request, as a file to be sent."""
    live = peer.settings.meeting.is_live
    letter = {
        "format": 1,
        "federation": peer.federation.task,
        "name": member.name,
        "key": member.key,
        "list": roster.decode(),
        "certificate": certificate.decode(),
        "authority": (peer.keys / "ca.crt").read_text() if live else "",
    }
    path = peer.path / "welcome" / f"{member.name}.json"
    *rotations, _ = roster.split(b"\n")  # they lead a site that knows an older key of the founder to the present one
    write_atomic(path, b"\n".join([*rotations, peer.identity.sign("welcome", letter)]))
    return path


def take_welcome(peer: PeerFolder, data: bytes) -> dict[str, Any]:
    """The founder has admitted this site."""
    *rotations, envelope = data.split(b"\n", MOST_ROTATIONS)
    founder = present_key(peer.founder_key, rotations)
    letter = checked_letter(opened(envelope, "welcome", [founder]), "welcome")
    if letter["federation"] != peer.federation.task or letter["key"] != peer.identity.public:
        raise NotTrusted(
            f"this welcome is for {letter['name']!r} with the key {fingerprint(letter['key'])}: expected {peer.name!r} "
            f"with {peer.identity.fingerprint}. Ask the founder for another one."
        )
    roster = peer.heard_roster(letter["list"].encode())
    roster.key_of(peer.name)
    if peer.settings.meeting.is_live:
        write_atomic(peer.keys / "ca.crt", letter["authority"].encode())
        _take_certificate(peer, letter["certificate"].encode())
    write_atomic(peer.roster_path, letter["list"].encode())
    peer.ledger.add("joined", version=roster.version, members=len(roster.members))
    return {"site": peer.name, "members": roster.names, "list": roster.version}


def read_letter(path: Path) -> bytes:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ConfigError(f"{path} has {path.stat().st_size:,} bytes: expected at most {MOST_BYTES:,}.")
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}): expected a file that Peerwise wrote.") from error


def checked_letter(letter: dict[str, Any], kind: str) -> dict[str, str]:
    """The letter, if it is of a format that is known here and has its fields, each a text."""
    known_format(letter, f"the {kind}")
    exact_fields(letter, {"format", *LETTERS[kind]}, f"the {kind}")
    for name in LETTERS[kind]:
        if not isinstance(letter[name], str):
            raise ParcelError(f"{name} of the {kind} is {repr(letter[name])[:80]}: expected text. Ask for another one.")
    return letter


def same_fingerprint(key: str, expected: str, whose: str) -> None:
    if _plain(fingerprint(key)) != _plain(expected):
        raise NotTrusted(
            f"the file has a key of {whose} with the fingerprint {fingerprint(key)}, --fingerprint says {expected!r}: "
            f"expected the same. Ask that site for its fingerprint over the telephone; if it is another one than in "
            f"the file, somebody has changed the file."
        )


def _plain(text: str) -> str:
    return "".join(text.split()).replace("-", "").lower()


def _settings(path: Path, given: dict[str, Any]) -> Settings:
    if (path / FILE).exists():
        raise ConfigError(f"{path} is a site's folder already: choose another one, or change {path / FILE}.")
    settings = settings_from({"name": path.resolve().name, **given})
    return replace(settings, meeting=Meeting(**vars(settings.meeting)))


def _begin(path: Path, task: Task) -> tuple[PeerFolder, Identity]:
    """Keys that are there from a beginning that was broken off are used again."""
    peer = PeerFolder(path)
    key = peer.keys / "identity.key"
    if not key.is_file():
        Identity.new().save(key)
    write_atomic(path / "task.toml", task.text().encode())
    return peer, peer.identity


def _finish(peer: PeerFolder, settings: Settings) -> None:
    """The settings come last: a folder that has them is whole."""
    _ = peer.secret
    write_atomic(peer.path / FILE, settings.text().encode())


def _certificate_request(peer: PeerFolder, settings: Settings) -> bytes:
    host = settings.meeting.listen.rpartition(":")[0].strip("[]")
    asked = peer.keys / f"{settings.name}.csr"
    if not asked.is_file():
        (peer.keys / f"{settings.name}.key").unlink(missing_ok=True)  # of a beginning that was broken off
        make_request(peer.keys, settings.name, [host])
    return asked.read_bytes()


def _take_certificate(peer: PeerFolder, certificate: bytes) -> None:
    write_atomic(peer.keys / "tls.crt", certificate)
