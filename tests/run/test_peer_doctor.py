"""The doctor looks at everything whatever else is wrong, and says what to do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

import pytest
from peer_sites import DAY, NAMES, Sites, asked, table

from peerwise.errors import ConfigError
from peerwise.run.peer import Check, PeerFolder, doctor, renew, revoke

CHECKS = {"keys", "clock", "policy", "disk", "task", "rows", "ledger", "members", "isolation", "peers"}


def looked(sites: Sites, name: str = "north") -> list[Check]:
    return doctor(sites[name], lambda: sites.transport(name))


def wrong(sites: Sites, name: str = "north", verdict: str = "problem") -> dict[str, str]:
    return {check.what: check.text for check in looked(sites, name) if check.verdict == verdict}


def test_a_healthy_site_has_no_problem(fitted_sites: Sites) -> None:
    found = looked(fitted_sites)
    assert {check.what for check in found} == CHECKS
    assert [check for check in found if check.verdict == "problem"] == []
    assert [check.text for check in found if check.what == "peers"] == ["south can be reached", "east can be reached"]


def test_a_peer_that_has_published_nothing_is_told(formed_sites: Sites) -> None:
    assert "has published nothing" in " ".join(check.text for check in looked(formed_sites) if check.what == "peers")


SPOILS: dict[str, tuple[Callable[[Sites], object], str, str]] = {
    "key open to others": (lambda s: (s.root / "north/keys/identity.key").chmod(0o644), "keys", "chmod 600"),
    "secret open to others": (lambda s: (s.root / "north/keys/secret").chmod(0o644), "keys", "chmod 600"),
    "key gone": (lambda s: (s.root / "north/keys/identity.key").unlink(), "keys", "identity.key"),
    "clock behind": (lambda s: setattr(s.clock, "ahead", -DAY), "clock", "seconds behind"),
    "task changed": (lambda s: (s.root / "north/task.toml").write_text("x"), "task", ""),
    "rows gone": (lambda s: (s.root / "north.csv").unlink(), "rows", "north.csv"),
    "rows of another task": (
        lambda s: table("north").assign(outcome="dead").to_csv(s.root / "north.csv", index=False),
        "rows",
        "'dead'",
    ),
    "ledger changed": (
        lambda s: (s.root / "north/ledger.jsonl").write_text(
            (s.root / "north/ledger.jsonl").read_text().replace("helps", "hurts", 1)
        ),
        "ledger",
        "was changed",
    ),
    "list ended": (lambda s: setattr(s.clock, "ahead", 91 * DAY), "members", "admit --renew"),
    "list changed": (lambda s: (s.root / "north/roster.json").write_bytes(b"{}"), "members", ""),
    "a model that nobody knows": (lambda s: s.change("north", models=["small_cnn"]), "task", "takes image rows"),
}


@pytest.mark.parametrize("what", SPOILS)
def test_what_is_wrong_is_found_and_hides_nothing_else(what: str, fitted_sites: Sites) -> None:
    spoil, where, says = SPOILS[what]
    spoil(fitted_sites)
    problems = wrong(fitted_sites)
    assert where in problems
    assert says in problems[where]
    assert {check.what for check in looked(fitted_sites)} >= CHECKS - {"isolation"}


def test_what_should_be_thought_about_is_a_warning(fitted_sites: Sites) -> None:
    fitted_sites.change("north", ask="never", min_leaf=2)
    fitted_sites.clock.ahead = 80 * DAY + 3600
    texts = [check.text for check in looked(fitted_sites) if check.verdict == "warning"]
    for said in ("ask = 'never'", "min_leaf = 2", "list ends in 9 days"):
        assert any(said in text for text in texts), said
    renew(fitted_sites["north"], fitted_sites.transport("north"))
    assert not any("list ends" in check.text for check in looked(fitted_sites))


def test_a_class_without_rows_is_told(formed_sites: Sites) -> None:
    rows = table("north")
    rows[rows["outcome"] != "ill"].to_csv(formed_sites.root / "north.csv", index=False)
    assert "no train rows of ill" in wrong(formed_sites, verdict="warning")["rows"]


def test_a_site_that_waits_for_its_welcome_is_told(formed_sites: Sites) -> None:
    asked(formed_sites.root, "late", formed_sites["north"].identity.fingerprint)
    assert "founder's welcome" in wrong(formed_sites, "late")["members"]


def test_a_site_that_was_revoked_is_told(published_sites: Sites, worker: object) -> None:
    revoke(published_sites["north"], "south", "left", published_sites.transport("north"))
    published_sites.pull("south", worker)  # type: ignore[arg-type]
    assert "is not among the members" in wrong(published_sites, "south")["members"]


def test_a_meeting_place_that_is_gone_is_no_members_fault(fitted_sites: Sites) -> None:
    shutil.rmtree(fitted_sites.root / "meeting")
    found = [check for check in looked(fitted_sites) if check.what == "peers"]
    assert len(found) == len(NAMES) - 1


def test_a_folder_that_is_no_site_is_told_as_such(tmp_path: object) -> None:
    with pytest.raises(ConfigError, match="peerwise init"):
        doctor(PeerFolder(str(tmp_path)), lambda: pytest.fail("nobody is asked"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_told(fitted_sites: Sites) -> None:
    (fitted_sites.root / "north").chmod(0o500)
    try:
        assert "cannot be written" in wrong(fitted_sites)["disk"]
    finally:
        (fitted_sites.root / "north").chmod(0o700)
