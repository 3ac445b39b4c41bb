"""peerwise admit: the list of members, from both sides."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

from peerwise.cli.peer.common import add_folder, add_verb, add_why, day, line, show
from peerwise.errors import ConfigError


def add_to(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "admit",
        run,
        about="The founder admits the site whose request.json this is, once its fingerprint was compared; a site takes "
        "in the welcome that the founder has sent. Beside that: --revoke a member, --renew the list, --rotate this "
        "site's own key (the founder then admits the member's rotation.json).",
        example="peerwise admit request.json --fingerprint ABCD-EFGH-IJKL-MNOP-QRST --folder north",
    )
    parser.add_argument("letter", nargs="?", type=Path, help="request.json, a welcome, or rotation.json")
    add_folder(parser)
    parser.add_argument("--fingerprint", default="", help="of the site that asks, as read out over the telephone")
    parser.add_argument("--revoke", metavar="SITE", help="nobody takes anything of this member any more")
    parser.add_argument("--renew", action="store_true", help="the same list for another period")
    parser.add_argument("--rotate", action="store_true", help="a new key for this site")
    add_why(parser, "the list and the ledger keep")


def run(arguments: argparse.Namespace) -> int:
    from peerwise.run.peer import PeerFolder, admit, outbox, renew, revoke, rotate

    wanted = [arguments.letter is not None, arguments.revoke is not None, arguments.renew, arguments.rotate]
    if sum(wanted) != 1:
        raise ConfigError(
            f"{sum(wanted)} things to do are given: expected one of a file, --revoke SITE, --renew and --rotate."
        )
    peer = PeerFolder(arguments.folder)
    transport = outbox(peer)
    if arguments.letter is not None:
        found = admit(peer, arguments.letter, arguments.fingerprint, transport)
    elif arguments.revoke is not None:
        found = revoke(peer, arguments.revoke, arguments.why, transport)
    else:
        found = renew(peer, transport) if arguments.renew else rotate(peer, transport)
    return show(arguments, found, lambda console: _print(console, found))


def _print(console: Console, found: dict[str, Any]) -> None:
    if "members" in found:
        until = f", until {day(found['expires'])}" if "expires" in found else ""
        line(console, f"list {found['list']} of members{until}: {', '.join(found['members'])}")
    if "welcome" in found:
        line(console, f"send to {found['member']}: {found['welcome']}")
    if "members" in found and "site" in found:
        line(console, f"{found['site']} is a member; next: peerwise train")
    if "rotation" in found:
        line(console, f"send to the founder: {found['rotation']}; the old key is used until the list has the new one")
    if "fingerprint" in found:
        line(console, f"this site's fingerprint is now {found['fingerprint']}")
