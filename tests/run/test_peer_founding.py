"""How a federation begins: whom a site trusts, and what it refuses before it writes anything."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from peer_sites import NAMES, QUICK, TASK, Sites, admitted, asked, founded, table

from peerwise.errors import ConfigError, NotTrusted, PeerwiseError
from peerwise.parcels.signed import Identity, opened_by_itself
from peerwise.run.peer import PeerFolder, admit, found, join, outbox

LIVE = {"meeting": {"listen": "127.0.0.1:7447"}}


def resigned(path: Path, kind: str, identity: Identity | None = None, **changes: Any) -> None:
    """The letter with other contents, rightly signed by its own key or by another."""
    said = {**opened_by_itself(path.read_bytes(), kind), **changes}
    said = {key: value for key, value in said.items() if value is not ...}
    signer = identity or Identity.load(path.parent / "keys" / "identity.key")
    path.write_bytes(signer.sign(kind, said))


@pytest.fixture
def beginning(tmp_path: Path) -> tuple[Sites, str]:
    return Sites(tmp_path), founded(tmp_path)["fingerprint"]


def test_members_know_each_other_once_both_fingerprints_were_compared(formed_sites: Sites) -> None:
    for name in NAMES:
        roster = formed_sites[name].roster()
        assert {"north"} < set(roster.names) <= set(NAMES)
        assert roster.key_of("north") == formed_sites["north"].identity.public
    assert formed_sites["east"].roster().names == list(NAMES)
    assert formed_sites["south"].roster().version == 2, "it learns of east when it pulls"


@pytest.mark.parametrize("spoken", [str.lower, lambda text: text.replace("-", " "), lambda text: f" {text} "])
def test_a_fingerprint_may_be_typed_as_it_was_heard(spoken: Any, beginning: tuple[Sites, str]) -> None:
    sites, fingerprint = beginning
    assert asked(sites.root, "south", spoken(fingerprint))["site"] == "south"


@pytest.mark.parametrize("wrong", ["", "ABCD-EFGH-IJKL-MNOP-QRST", "-", "ill"])
def test_a_founder_with_another_fingerprint_is_not_followed(wrong: str, beginning: tuple[Sites, str]) -> None:
    sites, fingerprint = beginning
    with pytest.raises(NotTrusted, match=fingerprint):
        asked(sites.root, "south", wrong)
    assert not (sites.root / "south").exists()


def test_a_fingerprint_that_is_cut_short_is_refused(beginning: tuple[Sites, str]) -> None:
    sites, fingerprint = beginning
    with pytest.raises(NotTrusted):
        asked(sites.root, "south", fingerprint[:-1])


def test_a_member_with_another_fingerprint_is_not_admitted(beginning: tuple[Sites, str]) -> None:
    sites, fingerprint = beginning
    told = asked(sites.root, "south", fingerprint)
    with pytest.raises(NotTrusted, match=told["fingerprint"]):
        admit(sites["north"], Path(told["request"]), fingerprint, sites.transport("north"))
    assert sites["north"].roster().names == ["north"]


@pytest.mark.parametrize("letter", ["invite", "request", "welcome"])
def test_a_letter_with_any_bit_flipped_is_refused(letter: str, beginning: tuple[Sites, str], tmp_path: Path) -> None:
    sites, fingerprint = beginning
    asks = asked(sites.root, "south", fingerprint)
    answer = admit(sites["north"], Path(asks["request"]), asks["fingerprint"], sites.transport("north"))
    path = {"invite": sites.root / "north/invite.json", "request": asks["request"], "welcome": answer["welcome"]}
    data = Path(path[letter]).read_bytes()
    for place in range(0, len(data), 37):
        changed = bytearray(data)
        changed[place] ^= 1 << (place % 8)
        (tmp_path / "changed.json").write_bytes(changed)
        if letter == "invite":
            with pytest.raises(PeerwiseError):
                join(tmp_path / "other", {**QUICK, "data": "x.csv"}, tmp_path / "changed.json", fingerprint)
            continue
        reader = "north" if letter == "request" else "south"
        with pytest.raises(PeerwiseError):
            admit(sites[reader], tmp_path / "changed.json", asks["fingerprint"], sites.transport(reader))
    assert not (tmp_path / "other").exists()
    assert not (sites.root / "south" / "roster.json").exists()


ODD = [..., 7, None, [], "", "x" * 300]


@pytest.mark.parametrize("field", ["format", "task", "founder", "folder", "address"])
def test_an_invitation_with_a_strange_field_is_refused_in_a_sentence(field: str, beginning: tuple[Sites, str]) -> None:
    sites, fingerprint = beginning
    letter = sites.root / "north" / "invite.json"
    whole = letter.read_bytes()
    for value in ODD:
        if (field, value) in (("address", ""), ("address", "x" * 300), ("folder", "x" * 300)):
            continue
        resigned(letter, "invite", **{field: value})
        with pytest.raises(PeerwiseError, match=r"expected|reads format"):
            asked(sites.root, "south", fingerprint)
        letter.write_bytes(whole)


@pytest.mark.parametrize("field", ["format", "federation", "name", "address", "certificate"])
def test_a_request_with_a_strange_field_is_refused_in_a_sentence(field: str, beginning: tuple[Sites, str]) -> None:
    sites, fingerprint = beginning
    told = asked(sites.root, "south", fingerprint)
    letter = Path(told["request"])
    whole = letter.read_bytes()
    for value in ODD:
        if (field, value) in (("address", ""), ("certificate", ""), ("certificate", "x" * 300)):
            continue
        resigned(letter, "request", **{field: value})
        with pytest.raises(PeerwiseError, match=r"expected|reads format"):
            admit(sites["north"], letter, told["fingerprint"], sites.transport("north"))
        letter.write_bytes(whole)
    assert sites["north"].roster().names == ["north"]


def test_letters_of_a_later_format_say_to_update(beginning: tuple[Sites, str]) -> None:
    sites, fingerprint = beginning
    told = asked(sites.root, "south", fingerprint)
    resigned(Path(told["request"]), "request", format=2)
    with pytest.raises(PeerwiseError, match=r"format 2.*update Peerwise"):
        admit(sites["north"], Path(told["request"]), told["fingerprint"], sites.transport("north"))
    resigned(sites.root / "north" / "invite.json", "invite", format=2)
    with pytest.raises(PeerwiseError, match=r"format 2.*update Peerwise"):
        asked(sites.root, "east", fingerprint)


def test_a_welcome_is_for_one_site_alone(beginning: tuple[Sites, str]) -> None:
    sites, fingerprint = beginning
    for name in ("south", "east"):
        told = asked(sites.root, name, fingerprint)
        answer = admit(sites["north"], Path(told["request"]), told["fingerprint"], sites.transport("north"))
    with pytest.raises(NotTrusted, match="'east'"):
        admit(sites["south"], Path(answer["welcome"]), "", sites.transport("south"))


def test_a_welcome_by_another_founder_is_refused(beginning: tuple[Sites, str], tmp_path: Path) -> None:
    sites, fingerprint = beginning
    asks = asked(sites.root, "south", fingerprint)
    founded(tmp_path, "rival")
    rival = Sites(tmp_path, ("rival", "south"))
    answer = admit(rival["rival"], Path(asks["request"]), asks["fingerprint"], rival.transport("rival"))
    with pytest.raises(NotTrusted, match="signed by key"):
        admit(sites["south"], Path(answer["welcome"]), "", sites.transport("south"))


def test_an_old_welcome_does_not_bring_back_an_old_list(formed_sites: Sites, worker: Any) -> None:
    formed_sites.pull("south", worker)
    assert formed_sites["south"].roster().version == 3
    with pytest.raises(NotTrusted, match="version 3 was seen"):
        admit(
            formed_sites["south"], formed_sites.root / "north/welcome/south.json", "", formed_sites.transport("south")
        )
    assert formed_sites["south"].roster().version == 3


@pytest.mark.parametrize("name", ["south", "South", "North"])
def test_a_second_site_of_a_name_is_not_admitted(name: str, formed_sites: Sites, tmp_path: Path) -> None:
    settings = {**QUICK, "data": "../south.csv", "name": name}
    fingerprint = formed_sites["north"].identity.fingerprint
    told = join(tmp_path / "another", settings, tmp_path / "north" / "invite.json", fingerprint)
    with pytest.raises(PeerwiseError, match="twice"):
        admit(formed_sites["north"], Path(told["request"]), told["fingerprint"], formed_sites.transport("north"))
    assert formed_sites["north"].roster().names == list(NAMES)
    with pytest.raises(ConfigError, match="the founder's"):
        join(tmp_path / "x", {**settings, "name": "north"}, tmp_path / "north" / "invite.json", fingerprint)


def test_a_folder_that_is_a_site_already_stays_as_it_is(formed_sites: Sites) -> None:
    before = formed_sites["south"].identity.public
    with pytest.raises(ConfigError, match="a site's folder already"):
        founded(formed_sites.root, "south")
    with pytest.raises(ConfigError, match="a site's folder already"):
        asked(formed_sites.root, "south", formed_sites["north"].identity.fingerprint)
    assert formed_sites["south"].identity.public == before


@pytest.mark.parametrize("meeting", ["folder", "live"])
@pytest.mark.parametrize("role", ["founder", "member"])
def test_an_init_that_was_broken_off_anywhere_is_simply_run_again(role: str, meeting: str, tmp_path: Path) -> None:
    more = LIVE if meeting == "live" else {}
    fingerprint = founded(tmp_path, **more)["fingerprint"]

    def begin() -> dict[str, Any]:
        given = {"meeting": {"listen": "127.0.0.1:7448"}} if meeting == "live" else {}
        return founded(tmp_path, "new", **more) if role == "founder" else asked(tmp_path, "new", fingerprint, **given)

    begin()
    whole = tmp_path / "whole"
    (tmp_path / "new").rename(whole)
    files = sorted((path for path in whole.rglob("*") if path.is_file()), key=lambda path: path.stat().st_mtime_ns)
    order = [path.relative_to(whole) for path in files if path.name not in ("peerwise.toml", "ledger.jsonl")]
    for stage in range(len(order)):
        for path in order[:stage]:
            (tmp_path / "new" / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(whole / path, tmp_path / "new" / path)
        told = begin()
        peer = PeerFolder(tmp_path / "new")
        assert told["fingerprint"] == peer.identity.fingerprint
        assert peer.task == TASK
        if role == "founder":
            assert peer.roster().names == ["new"]
        else:
            shutil.copytree(tmp_path / "north", tmp_path / "copy")
            founder = PeerFolder(tmp_path / "copy")
            assert "new" in admit(founder, Path(told["request"]), told["fingerprint"], outbox(founder))["members"]
            shutil.rmtree(tmp_path / "copy")
        shutil.rmtree(tmp_path / "new")


def test_a_task_that_was_changed_afterwards_is_refused(formed_sites: Sites) -> None:
    path = formed_sites.root / "south" / "task.toml"
    path.write_text(path.read_text().replace("ward", "yard"))
    with pytest.raises(ConfigError, match=r"was changed: expected the task .* that the members agreed on"):
        formed_sites["south"].site()


def test_a_task_of_a_later_format_is_refused(formed_sites: Sites) -> None:
    path = formed_sites.root / "south" / "task.toml"
    path.write_text(path.read_text().replace("format = 1", "format = 2"))
    with pytest.raises(PeerwiseError, match=r"format 2.*Install the"):
        _ = formed_sites["south"].task


@pytest.mark.parametrize("text", ["{}", '{"task": 5}', "[1]", "no json", '{"founder":"a","founder_key":"b","task":5}'])
def test_a_damaged_anchor_of_trust_is_told_in_a_sentence(text: str, formed_sites: Sites) -> None:
    (formed_sites.root / "south" / "federation.json").write_text(text)
    with pytest.raises(PeerwiseError, match=r"federation.json"):
        formed_sites["south"].roster()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"colour": "red"}, "colour"),
        ({"seed": "many"}, "seed is 'many'"),
        ({"seed": -1}, "at least 0"),
        ({"models": ["telepathy"]}, "telepathy"),
        ({"models": "logistic"}, "models"),
        ({"method": "telepathy"}, "telepathy"),
        ({"method": "centralised"}, "moves rows"),
        ({"method_settings": {"colour": 1}}, "colour"),
        ({"ask": "sometimes"}, "ask"),
        ({"min_leaf": 0}, "min_leaf"),
        ({"attack_seconds": float("nan")}, "attack_seconds is nan"),
        ({"deadline": float("inf")}, "deadline is inf"),
        ({"valid_days": 0}, "valid_days"),
        ({"valid_days": 800}, "valid_days is 800: expected at most 731"),
        ({"name": "a b"}, "cannot name a site"),
        ({"name": "../a"}, "cannot name a site"),
        ({"data": ""}, "data is missing"),
        ({"meeting": {}}, "expected one of them"),
        ({"meeting": {"folder": "/a", "listen": "127.0.0.1:1"}}, "expected one of them"),
        ({"meeting": {"listen": "127.0.0.1"}}, "HOST:PORT"),
        ({"meeting": {"listen": "127.0.0.1:port"}}, "HOST:PORT"),
        ({"meeting": {"folder": "/a", "colour": "red"}}, "colour"),
        ({"format": 2}, "format 2|is of format 2"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused_before_anything_is_written(
    settings: dict[str, Any], says: str, tmp_path: Path
) -> None:
    meeting = {"folder": str(tmp_path / "meeting")}
    with pytest.raises(PeerwiseError, match=says):
        found(tmp_path / "north", {**QUICK, "data": "rows.csv", "meeting": meeting, **settings}, TASK)
    assert not (tmp_path / "north").exists()


def test_settings_of_a_later_format_are_refused(formed_sites: Sites) -> None:
    formed_sites.change("south", format=2)
    with pytest.raises(ConfigError, match=r"format 2: expected 1. Update Peerwise"):
        _ = formed_sites["south"].settings


def test_a_member_meets_the_others_where_the_founder_does(beginning: tuple[Sites, str], tmp_path: Path) -> None:
    sites, fingerprint = beginning
    with pytest.raises(ConfigError, match="meet in a folder"):
        asked(sites.root, "south", fingerprint, meeting={"listen": "127.0.0.1:7448"})
    (tmp_path / "network").mkdir()
    spoken = founded(tmp_path / "network", **LIVE)["fingerprint"]
    with pytest.raises(ConfigError, match="meet on the network"):
        asked(tmp_path / "network", "south", spoken, meeting={"folder": str(tmp_path / "meeting")})


def test_settings_that_were_given_are_not_changed_by_joining(beginning: tuple[Sites, str]) -> None:
    sites, fingerprint = beginning
    given = {**QUICK, "data": "../south.csv", "meeting": {"folder": str(sites.root / "elsewhere")}}
    before = json.dumps(given)
    join(sites.root / "south", given, sites.root / "north" / "invite.json", fingerprint)
    assert json.dumps(given) == before
    assert sites["south"].settings.meeting.folder == str(sites.root / "elsewhere")


def test_a_folder_that_is_no_site_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="peerwise init"):
        _ = PeerFolder(tmp_path).settings
    assert list(tmp_path.iterdir()) == []


def test_a_late_member_is_admitted_like_any_other(formed_sites: Sites) -> None:
    told = asked(formed_sites.root, "late", formed_sites["north"].identity.fingerprint)
    assert admitted(formed_sites, told)["members"] == [*NAMES, "late"]
    assert table("late").shape == (90, 5)


def test_founding_tells_what_to_send_and_what_to_read_out(tmp_path: Path) -> None:
    settings = {**QUICK, "data": "rows.csv", "meeting": {"folder": str(tmp_path / "meeting")}}
    told = found(tmp_path / "north", settings, TASK)
    invite = opened_by_itself(Path(told["invite"]).read_bytes(), "invite")
    assert (invite["founder"], invite["key"]) == ("north", PeerFolder(tmp_path / "north").identity.public)
    assert told["task"] == TASK.digest
