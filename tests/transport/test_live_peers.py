"""Sites as processes that talk to each other over Zenoh with certificates and an access list, on the loopback."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from live_peers import LiveParty, Process, free_port, model, until
from parties import FEDERATION

from peerwise.errors import ConfigError, ExchangeError
from peerwise.parcels import Parcel
from peerwise.parcels.signed import Member
from peerwise.transport import TransferLimits, open_session, zenoh_config
from peerwise.transport.zenoh import alive, replies
from peerwise.transport.zenoh_access import key_root

pytest.importorskip("zenoh")
NAMES = ("alpha", "beta", "gamma")
ROOT = key_root(FEDERATION)
Lasting = tuple[LiveParty, dict[str, Process]]


@pytest.fixture
def party(tmp_path: Path) -> LiveParty:
    return LiveParty(tmp_path, NAMES)


@pytest.fixture
def peers(party: LiveParty) -> Iterator[dict[str, Process]]:
    with running(party) as started:
        yield started


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lasting]:
    """Peers for all tests that leave them as they are; delta, a member too, is none of them."""
    party = LiveParty(tmp_path_factory.mktemp("lasting"), (*NAMES, "delta"), others=["mallory"])
    with running(party) as started:
        yield party, started


@contextmanager
def running(party: LiveParty) -> Iterator[dict[str, Process]]:
    started: dict[str, Process] = {}
    try:
        for name in NAMES:
            started[name] = party.started(name, party.seed if name == "alpha" else None)
        for peer in started.values():
            until(lambda peer=peer: peer.ask("members") == list(NAMES), "all members see each other")
        yield started
    finally:
        for peer in started.values():
            peer.kill()


def test_three_processes_find_each_other_and_fetch_directly(peers: dict[str, Process]) -> None:
    """Beta and gamma know the address of alpha alone."""
    for place, name in enumerate(NAMES):
        peers[name].ask("post", round=0, seed=place)
    for peer in peers.values():
        found = peer.ask("collect", round=0, quorum=3, deadline=30)
        assert list(found) == list(NAMES)
        assert all(who == name and size > 5_000_000 for name, (who, size) in found.items())
    until(lambda: peers["beta"].ask("links") == ["alpha", "gamma"], "beta and gamma have a line of their own")
    peers["alpha"].kill()
    until(lambda: peers["beta"].ask("members") == ["beta", "gamma"], "kill -9 is noticed")
    assert list(peers["beta"].ask("collect", round=0)) == ["beta", "gamma"]
    assert [peers[name].end() for name in ("beta", "gamma")] == ["", ""], "nothing is written to stderr"
    assert [peers[name].process.returncode for name in ("beta", "gamma")] == [0, 0]


def test_a_peer_that_was_killed_comes_back_with_what_it_said(party: LiveParty, peers: dict[str, Process]) -> None:
    peers["alpha"].ask("post", round=0, seed=1)
    peers["beta"].ask("post", round=0, seed=2)
    peers["alpha"].kill()
    until(lambda: "alpha" not in peers["gamma"].ask("members"), "kill -9 is noticed")
    assert list(peers["gamma"].ask("collect", round=0)) == ["beta"]
    peers["alpha"] = party.started("alpha", party.seed)
    until(lambda: "alpha" in peers["gamma"].ask("members"), "the restart is noticed")
    assert list(peers["gamma"].ask("collect", round=0, quorum=2, deadline=30)) == ["alpha", "beta"]


def test_another_process_of_the_site_publishes_and_the_live_one_serves_it(lasting: Lasting) -> None:
    party, peers = lasting
    with open_session(party.config("beta")) as session:
        beside = party.at("beta", party.transport(session, "beta"))
        beside.publish("round-7", Parcel(who="beta", model=b"new"))
        assert list(peers["gamma"].ask("collect", round=7, quorum=1, deadline=30)) == ["beta"]
        beside.withdraw("round-7", "was wrong")
        assert peers["gamma"].ask("collect", round=7) == {}


def test_what_is_withdrawn_is_gone(lasting: Lasting) -> None:
    party, peers = lasting
    with open_session(party.config("gamma")) as session:
        transport = party.transport(session, "gamma")
        gamma = party.at("gamma", transport)
        peers["beta"].ask("post", round=0, seed=1)
        until(lambda: "beta" in transport.members(), "the reader sees beta")
        found = gamma.fetch("beta", "round-0")
        assert found is not None
        blob, size = max(found.manifest.blobs.items(), key=lambda item: item[1])
        assert found.blob(blob, size) == model(1)
        version = peers["beta"].ask("withdraw", round=0)
        with pytest.raises(ExchangeError, match="is not there"):
            found.blob(blob, size)
        again = gamma.fetch("beta", "round-0")
        assert again is not None
        assert (again.manifest.version, again.manifest.withdrawn) == (version, "no longer right")
        assert not list((party.folder / "beta" / "outbox").rglob(blob))


def test_a_certificate_that_is_not_on_the_list_obtains_nothing(lasting: Lasting) -> None:
    party, peers = lasting
    peers["alpha"].ask("post", round=5, seed=1)
    # It lets itself into its own copy of the roster.
    own = party.roster.with_member(Member("mallory", "ee" * 32))
    with open_session(party.config("mallory", f"127.0.0.1:{free_port()}", own)) as session:
        until(lambda: len(session.info.links()) >= 1, "a line is there, as the authority signed the certificate")
        transport = party.transport(session, "mallory", serve=True)
        assert alive(session, f"{ROOT}/members/*", 2) == [f"{ROOT}/members/mallory"]
        assert list(replies(session, f"{ROOT}/alpha/manifest/round-5", 2)) == []
        with pytest.raises(ExchangeError, match="nobody answers for alpha"):
            transport.fetch("alpha", "round-5")
        assert peers["alpha"].ask("members") == list(NAMES)


def test_a_member_cannot_answer_for_another(lasting: Lasting) -> None:
    party, peers = lasting
    peers["alpha"].ask("post", round=4, seed=1)
    address = f"127.0.0.1:{free_port()}"
    with open_session(party.config("gamma", address)) as forger, open_session(party.config("beta")) as reader:
        transport = party.transport(reader, "beta")
        alphas, own_key = f"{ROOT}/alpha/manifest/*", f"{ROOT}/gamma/manifest/own"
        forged = forger.declare_queryable(alphas, lambda query: query.reply(query.key_expr, b"forged"))
        claimed = forger.liveliness().declare_token(f"{ROOT}/members/epsilon")
        own = forger.declare_queryable(own_key, lambda query: query.reply(own_key, b"mine"))
        until(lambda: b"mine" in list(replies(reader, own_key, 2)), "the forger may speak for itself")
        received = list(replies(reader, f"{ROOT}/alpha/manifest/round-4", 2))
        assert len(received) == 1
        assert b"forged" not in received
        assert "epsilon" not in transport.members()
        party.at("beta", transport).fetch("alpha", "round-4")
        for declared in (forged, claimed, own):
            declared.undeclare()


def test_who_asks_for_all_keys_at_once_silences_nobody(lasting: Lasting) -> None:
    party, _ = lasting
    with open_session(party.config("beta")) as session:
        reader = party.transport(session, "beta")
        until(lambda: "alpha" in reader.members(), "beta sees alpha")
        for _ in range(10):
            list(session.get(f"{ROOT}/**", timeout=0.5))
        assert reader.fetch("alpha", "nothing-there") is None


def test_a_hanging_peer_costs_its_deadline_and_nothing_else(lasting: Lasting) -> None:
    party, peers = lasting
    peers["alpha"].ask("post", round=3, seed=1)
    held = []
    address = f"127.0.0.1:{free_port()}"
    with open_session(party.config("delta", address)) as hanging, open_session(party.config("beta")) as reader:
        mute = hanging.declare_queryable(f"{ROOT}/delta/manifest/*", held.append)
        transport = party.transport(reader, "beta", TransferLimits(answer=1))
        until(lambda: "alpha" in transport.members(), "the reader sees alpha")

        def asked() -> bool:
            try:
                transport.fetch("delta", "round-3")
            except ExchangeError as error:
                return "did not answer in time" in str(error)
            return False

        until(asked, "the peer hangs, and asking it ends")
        found = party.at("beta", transport).gather("round-3", quorum=2, deadline=3)
        assert list(found) == ["alpha"]
        assert any(site == "delta" and "did not answer" in why for site, _, why in party.refused)
        held.clear()
        mute.undeclare()


def test_a_port_that_is_taken_is_said(lasting: Lasting) -> None:
    party, _ = lasting
    with pytest.raises(ExchangeError, match="in use"):
        open_session(party.config("alpha", party.seed))


def test_no_certificates_means_no_peers_unless_on_the_loopback_and_said_so(party: LiveParty) -> None:
    for options in ({}, {"insecure_loopback": True, "connect": ["10.0.0.1:7447"]}):
        with pytest.raises(ConfigError, match="certificates"):
            zenoh_config(party.roster, "alpha", listen="127.0.0.1:7447", **options)
    config = zenoh_config(party.roster, "alpha", listen="127.0.0.1:7447", insecure_loopback=True)
    assert config["listen"]["endpoints"] == ["tcp/127.0.0.1:7447"]
    revoked = party.roster.revoked("gamma", "left")
    assert "gamma" not in str(party.config("alpha", party.seed, revoked)["access_control"])


ENDS = """
import json, sys
from pathlib import Path
from peerwise.transport import ZenohTransport, open_session
session = open_session(json.loads(sys.argv[1]))
folder = Path(sys.argv[3])
given = {"federation": sys.argv[2], "outbox": folder, "cache": folder / "cache", "serve": True}
transport = ZenohTransport(session, name="alpha", **given)
if sys.argv[4] == "raises":
    raise SystemExit(3)
"""


@pytest.mark.parametrize(("how", "code"), [("ends", 0), ("raises", 3)])
def test_a_process_that_forgets_to_close_ends_all_the_same(party: LiveParty, how: str, code: int) -> None:
    given = [json.dumps(party.config("alpha", party.seed)), FEDERATION, str(party.folder / "outbox"), how]
    done = subprocess.run([sys.executable, "-c", ENDS, *given], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_without_the_library_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch, party: LiveParty) -> None:
    monkeypatch.setitem(sys.modules, "zenoh", None)
    with pytest.raises(ConfigError, match=r'pip install "peerwise\[p2p\]"'):
        open_session(party.config("alpha", party.seed))
