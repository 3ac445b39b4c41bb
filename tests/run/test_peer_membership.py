"""The list of members over its life: revoked, renewed, ended, and new keys for members and for the founder."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from peer_sites import DAY, NAMES, QUICK, TASK, Sites, admitted, asked

from peerwise.errors import ConfigError, NotTrusted, PeerwiseError
from peerwise.models.worker import Worker
from peerwise.parcels.signed import Identity, Roster, rotation
from peerwise.run.peer import (
    admit,
    decided,
    fit,
    found,
    join,
    predict,
    preview,
    renew,
    revoke,
    rotate,
    status,
    withdraw,
)


def rotated(sites: Sites, name: str) -> dict[str, Any]:
    return rotate(sites[name], sites.transport(name))


def test_a_revoked_member_is_heard_no_more(fitted_sites: Sites, worker: Worker) -> None:
    revoke(fitted_sites["north"], "south", "key stolen", fitted_sites.transport("north"))
    told = fitted_sites.pull("north", worker)
    assert told["peers"]["south"]["outcome"] == "removed"
    assert told["refitted"]["without"] == ["south"]
    assert [line["why"] for line in fitted_sites.told("north", "removed")] == ["no member any more"]
    fitted_sites.pull("south", worker)
    with pytest.raises(NotTrusted, match="key stolen"):
        fitted_sites.publish("south")


def test_only_the_founder_changes_the_list(formed_sites: Sites) -> None:
    south, transport = formed_sites["south"], formed_sites.transport("south")
    with pytest.raises(ConfigError, match="'south' is not the founder: expected 'north'"):
        revoke(south, "east", "rival", transport)
    with pytest.raises(ConfigError, match="Ask there"):
        renew(south, transport)


@pytest.mark.parametrize(("name", "why", "says"), [("south", " ", "reason is empty"), ("north", "x", "is the founder")])
def test_a_revocation_needs_a_reason_and_another_site(name: str, why: str, says: str, formed_sites: Sites) -> None:
    with pytest.raises(ConfigError, match=says):
        revoke(formed_sites["north"], name, why, formed_sites.transport("north"))
    assert formed_sites["north"].roster().names == list(NAMES)


def test_an_unknown_member_cannot_be_revoked(formed_sites: Sites) -> None:
    with pytest.raises(NotTrusted, match="'west' is not in version 3"):
        revoke(formed_sites["north"], "west", "who is that", formed_sites.transport("north"))


def test_a_revoked_site_comes_back_with_another_key_and_is_decided_on_anew(fitted_sites: Sites, worker: Worker) -> None:
    sites = fitted_sites
    revoke(sites["north"], "south", "key stolen", sites.transport("north"))
    sites.pull("north", worker)
    shutil.rmtree(sites.root / "south")
    admitted(sites, asked(sites.root, "south", sites["north"].identity.fingerprint))
    sites.publish("south")
    assert sites.pull("north", worker)["peers"]["south"]["outcome"] == "new"
    waiting = [peer["site"] for peer in status(sites["north"])["peers"] if peer["decided"] == "waiting"]
    assert waiting == ["south"], "whoever holds the new key was never accepted"


def test_once_the_list_has_ended_nothing_new_is_let_in(fitted_sites: Sites, worker: Worker) -> None:
    sites = fitted_sites
    sites.clock.ahead = 91 * DAY
    for refused in (
        lambda: sites.publish("south"),
        lambda: preview(sites["south"], sites.transport("south")),
        lambda: sites.pull("north", worker),
        lambda: sites.accept("north", "south"),
    ):
        with pytest.raises(NotTrusted, match="ask the founder for a newer one"):
            refused()
    assert status(sites["north"])["due"][0].startswith("the list of members has ended")
    assert len(predict(sites["north"], sites.root / "south.csv", worker).probabilities) == 90
    assert decided(sites["north"], "south", None, "refused", "to be sure")["decided"] == "refused"
    fit(sites["north"], worker, use_peers=True)
    assert status(sites["north"])["bundle"]["peers"].keys() == {"east"}, "what was accepted before is used as before"


def test_a_renewed_list_is_taken_in_after_the_old_one_has_ended(published_sites: Sites, worker: Worker) -> None:
    sites = published_sites
    sites.clock.ahead = 91 * DAY
    told = renew(sites["north"], sites.transport("north"))
    assert told["expires"] == pytest.approx(sites["north"].now() + 90 * DAY, abs=600)
    assert sites.pull("south", worker)["members"]["version"] == told["list"]
    assert sites["south"].roster().names == list(NAMES)


def test_status_warns_before_the_list_ends(formed_sites: Sites) -> None:
    formed_sites.clock.ahead = 80 * DAY + 3600
    assert "ends in 9 days" in status(formed_sites["south"])["due"][0]


def test_a_members_new_key_is_used_once_the_list_has_it(published_sites: Sites, worker: Worker) -> None:
    sites = published_sites
    old = sites["south"].identity.public
    told = rotated(sites, "south")
    assert sites["south"].identity.public == old
    sites.change("south", licence="CC-BY-4.0")
    assert sites.publish("south")["again"], "with the old key, as nobody knows the new one yet"
    admit(sites["north"], Path(told["rotation"]), "", sites.transport("north"))
    assert sites["south"].identity.public == old
    assert "signed by a former key" not in " ".join(status(sites["south"])["due"])
    sites.pull("south", worker)
    assert sites["south"].identity.public == sites["north"].roster().key_of("south") != old
    assert not (sites.root / "south" / "keys" / "identity.next").exists()


def test_models_under_a_former_key_are_published_again(published_sites: Sites, worker: Worker) -> None:
    sites = published_sites
    told = rotated(sites, "south")
    admit(sites["north"], Path(told["rotation"]), "", sites.transport("north"))
    assert sites.pull("north", worker)["peers"]["south"]["outcome"] == "refused"
    sites.pull("south", worker)
    assert "former key" in " ".join(status(sites["south"])["due"])
    assert sites.publish("south")["again"]
    assert "former key" not in " ".join(status(sites["south"])["due"])
    assert sites.pull("north", worker)["peers"]["south"]["outcome"] == "new"


def test_a_rotation_is_taken_from_its_owner_alone(formed_sites: Sites) -> None:
    thief, north = Identity.new(), formed_sites["north"]
    letter = formed_sites.root / "rotation.json"
    letter.write_bytes(rotation(thief, Identity.new(), "south", north.now()))
    with pytest.raises(NotTrusted, match="neither the request"):
        admit(north, letter, "", formed_sites.transport("north"))
    letter.write_bytes(rotation(formed_sites["east"].identity, thief, "south", north.now()))
    with pytest.raises(NotTrusted, match="the key is of 'east'"):
        admit(north, letter, "", formed_sites.transport("north"))
    assert north.roster().version == 3


def test_others_follow_the_founders_new_key_and_never_go_back(published_sites: Sites, worker: Worker) -> None:
    sites = published_sites
    retired = sites["north"].identity
    told = rotated(sites, "north")
    assert told["fingerprint"] == sites["north"].identity.fingerprint != retired.fingerprint
    for name in ("south", "east"):
        assert sites.pull(name, worker)["members"] == {**sites.pull(name, worker)["members"], "note": ""}
        assert sites[name].roster().founder == sites["north"].identity.public
    now = sites["south"].roster()
    forged = Roster(now.federation, now.version + 1, retired.public, now.issued, now.expires, now.members)
    sites.shown("north", "roster").write_bytes(forged.signed(retired))
    note = sites.pull("south", worker)["members"]["note"]
    assert "signed by key" in note, "whoever finds the old key founds nothing"
    assert sites["south"].roster().founder == sites["north"].identity.public
    assert [line["about"] for line in sites.told("south", "left out")][-1] == "roster"


def test_a_member_joins_after_the_founder_has_changed_keys(formed_sites: Sites, worker: Worker) -> None:
    sites = formed_sites
    early = asked(sites.root, "early", sites["north"].identity.fingerprint)
    rotated(sites, "north")
    rotated(sites, "north")
    late = asked(sites.root, "late", sites["north"].identity.fingerprint)
    assert admitted(sites, early)["members"] == [*NAMES, "early"]
    assert admitted(sites, late)["members"] == [*NAMES, "early", "late"]
    assert sites.pull("early", worker)["members"]["note"] == ""


@pytest.mark.parametrize("before", ["list", "key"])
def test_a_founders_rotation_that_was_broken_off_is_taken_up_again(before: str, formed_sites: Sites) -> None:
    """The list has the new key already; the key itself still waits."""
    sites, keys = formed_sites, formed_sites.root / "north" / "keys"
    old = (keys / "identity.key").read_bytes()
    old_list = sites["north"].roster_path.read_bytes()
    rotated(sites, "north")
    (keys / "identity.key").rename(keys / "identity.next")
    (keys / "identity.key").write_bytes(old)
    (keys / "identity.key").chmod(0o600)
    if before == "list":
        sites["north"].roster_path.write_bytes(old_list)
        rotated(sites, "north")
    else:
        sites.publish("north")
    assert sites["north"].identity.public == sites["north"].roster().founder
    assert sites["north"].roster().key_of("north") == sites["north"].roster().founder


def test_the_founder_shows_a_list_again_that_was_lost_on_the_way(published_sites: Sites, worker: Worker) -> None:
    """A founder that is killed between its own copy and the one for all has revoked somebody for itself alone."""
    sites = published_sites
    shown = sites.shown("north", "roster")
    before = shown.read_bytes()
    revoke(sites["north"], "east", "left", sites.transport("north"))
    shown.write_bytes(before)
    sites.pull("north", worker)
    assert sites.pull("south", worker)["peers"].keys() == {"north"}


def test_an_older_list_and_a_second_one_of_a_version_are_refused_and_noted(
    published_sites: Sites, worker: Worker
) -> None:
    sites = published_sites
    sites.pull("south", worker)
    shown = sites.shown("north", "roster")
    newest = sites["south"].roster()
    older = Roster(newest.federation, 1, newest.founder, newest.issued, newest.expires, newest.members[:1])
    second = Roster(newest.federation, 3, newest.founder, newest.issued, newest.expires, newest.members[:2])
    for list_, says in ((older, "offers version 1"), (second, "two different versions 3")):
        shown.write_bytes(list_.signed(sites["north"].identity))
        for _ in range(2):
            assert says in sites.pull("south", worker)["members"]["note"]
        assert sites["south"].roster() == newest
    reasons = [line["why"] for line in sites.told("south", "left out")]
    assert len(reasons) == 2, "each once, however often it is seen"


def test_a_lost_list_is_not_made_good_by_an_older_welcome(published_sites: Sites, worker: Worker) -> None:
    sites = published_sites
    sites.pull("south", worker)
    (sites.root / "south" / "roster.json").unlink()
    shutil.rmtree(sites.root / "south" / "seen")
    with pytest.raises(NotTrusted, match="version 3 was seen before"):
        admit(sites["south"], sites.root / "north/welcome/south.json", "", sites.transport("south"))


def test_a_list_from_a_clock_far_ahead_is_refused(formed_sites: Sites, worker: Worker) -> None:
    formed_sites.clock.ahead = 3600
    renew(formed_sites["north"], formed_sites.transport("north"))
    formed_sites.clock.ahead = 0
    assert "Check the clocks" in formed_sites.pull("south", worker)["members"]["note"]


def test_a_site_that_is_not_welcomed_yet_answers_by_itself(formed_sites: Sites, worker: Worker) -> None:
    sites = formed_sites
    asked(sites.root, "late", sites["north"].identity.fingerprint)
    with pytest.raises(NotTrusted, match="expected the founder's welcome"):
        sites.publish("late")
    assert fit(sites["late"], worker)["peers"] == {}
    assert len(predict(sites["late"], sites.root / "late.csv", worker).probabilities) == 90


def test_every_change_of_the_list_is_in_the_founders_ledger(published_sites: Sites) -> None:
    sites = published_sites
    revoke(sites["north"], "east", "left the trial", sites.transport("north"))
    renew(sites["north"], sites.transport("north"))
    rotated(sites, "north")
    lines = [line for line in sites["north"].ledger.lines() if line["what"] in ("revoked", "renewed", "rotated")]
    assert [(line["what"], line["version"]) for line in lines] == [("revoked", 4), ("renewed", 5), ("rotated", 6)]
    assert lines[0]["why"] == "left the trial"
    assert sites.told("north", "admitted")[0]["member"] == "south"


def test_what_is_published_can_be_taken_back_after_the_list_has_ended(published_sites: Sites) -> None:
    published_sites.clock.ahead = 91 * DAY
    south = published_sites["south"]
    withdraw(south, published_sites.transport("south"), "a patient objected")
    assert not list((published_sites.root / "meeting" / "south" / "blobs").iterdir()), "its models are gone at once"
    assert status(south)["published"]["version"] is None


def test_a_request_of_another_task_is_refused(formed_sites: Sites, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    settings: dict[str, Any] = {**QUICK, "data": "x.csv", "meeting": {"folder": str(elsewhere / "meeting")}}
    told = found(elsewhere / "first", settings, replace(TASK, name="other"))
    asks = join(elsewhere / "second", settings, Path(told["invite"]), told["fingerprint"])
    with pytest.raises(PeerwiseError, match="the request is for task"):
        admit(formed_sites["north"], Path(asks["request"]), asks["fingerprint"], formed_sites.transport("north"))
