"""The Zenoh configuration of a site: who may connect, and who may ask and answer under which keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from peerwise.errors import ConfigError
from peerwise.parcels.signed import Roster
from peerwise.transport.certificates import CertificateFiles

CHUNK = 1 << 20  # bytes of a blob that travel in one reply
MOST_MESSAGE = 2 << 20  # what a peer may make us hold before we look at it
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
ANSWERS = ["declare_queryable", "reply", "liveliness_token"]
ASKS = ["query", "liveliness_query", "declare_liveliness_subscriber"]


def zenoh_config(
    roster: Roster,
    name: str,
    *,
    listen: str | None,
    connect: Iterable[str] = (),
    certificates: CertificateFiles | None = None,
    insecure_loopback: bool = False,
) -> dict[str, Any]:
    """The configuration of this site's session, to be given to `open_session` or written as JSON.

    ``listen`` is the address (host:port) at which others find us, None for a process that only asks; ``connect`` are
    addresses of some other members: the rest is learned from those. Members are known by the names in their
    certificates; a change of the roster counts from the next start on. ``insecure_loopback`` leaves out certificates
    and with them all protection: for tests on one machine.
    """
    roster.key_of(name)
    kind = "tls" if certificates else "tcp"
    listening, asked = [listen] if listen else [], list(connect)
    for address in [*listening, *asked]:
        _check_address(address)
    config: dict[str, Any] = {
        "mode": "peer",
        "listen": {"endpoints": [f"{kind}/{address}" for address in listening]},
        "connect": {"endpoints": [f"{kind}/{address}" for address in asked], "exit_on_failure": False},
        "scouting": {
            "multicast": {"enabled": False},
            "gossip": {"enabled": True, "autoconnect": {"peer": ["peer", "router"], "router": []}},
        },
        "transport": {
            "link": {"protocols": [kind], "rx": {"max_message_size": MOST_MESSAGE}},
            "shared_memory": {"enabled": False},
        },
    }
    if certificates:
        config["transport"]["link"]["tls"] = _tls(certificates)
        config["access_control"] = access_list(roster)
    elif not insecure_loopback or any(not address.startswith(LOOPBACK) for address in [*listening, *asked]):
        raise ConfigError(
            "live peers need certificates, and none are given: expected those that `peerwise init` asks the founder "
            "for. Only on the loopback address may they be left out, by insecure_loopback=True."
        )
    return config


def access_list(roster: Roster) -> dict[str, Any]:
    """Deny by default. A member may answer under its own keys alone, and ask all; nobody else may do either."""
    root = key_root(roster.federation)
    members = [roster.member(name) for name in roster.names]
    asks, out = f"{root}/**", [*ANSWERS, *ASKS]
    rules = [_rule(f"own-{one.name}", "ingress", ANSWERS, own_keys(roster.federation, one.name)) for one in members]
    rules += [_rule("asks", "ingress", ASKS, [asks]), _rule("out", "egress", out, [asks])]
    return {
        "enabled": True,
        "default_permission": "deny",
        "rules": rules,
        "subjects": [{"id": one.name, "cert_common_names": [one.certificate or one.name]} for one in members],
        "policies": [{"rules": [f"own-{one.name}", "asks", "out"], "subjects": [one.name]} for one in members],
    }


def key_root(federation: str) -> str:
    return f"peerwise/{federation[:16]}"


def own_keys(federation: str, site: str) -> list[str]:
    """Manifests, blobs in chunks, and the liveliness token."""
    root = key_root(federation)
    return [f"{root}/{site}/manifest/*", f"{root}/{site}/blob/*/*", f"{root}/members/{site}"]


def _rule(name: str, flow: str, messages: list[str], keys: list[str]) -> dict[str, Any]:
    return {"id": name, "permission": "allow", "flows": [flow], "messages": messages, "key_exprs": keys}


def _tls(files: CertificateFiles) -> dict[str, Any]:
    for path in (files.authority, files.certificate, files.key):
        if not path.is_file():
            raise ConfigError(f"{path} is not there: expected a file. Run `peerwise init`, and ask the founder for it.")
    key, certificate = str(files.key.resolve()), str(files.certificate.resolve())
    return {
        "root_ca_certificate": str(files.authority.resolve()),
        "enable_mtls": True,
        "verify_name_on_connect": True,
        "listen_private_key": key,
        "listen_certificate": certificate,
        "connect_private_key": key,
        "connect_certificate": certificate,
        "close_link_on_expiration": True,
    }


def _check_address(address: str) -> None:
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536 or set(host) & set("/#?; "):
        raise ConfigError(f"address {address[:80]!r}: expected a host and a port, such as 'peer.hospital.org:7447'.")
