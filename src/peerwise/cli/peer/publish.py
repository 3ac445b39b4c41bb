"""peerwise publish: show this site's models to the members."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console

from peerwise.cli.peer.common import add_folder, add_verb, day, line, say, show, size
from peerwise.parcels.signed.editions import edition


def add_to(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "publish",
        run,
        about="Check what the trained models hold of the rows, sign them and lay them out for the members. 'peerwise "
        "preview' shows what that will be.",
        example="peerwise publish --folder north",
    )
    add_folder(parser)
    parser.add_argument("--allow", default="", metavar="WHY", help="let models leave that would be held back, and why")


def run(arguments: argparse.Namespace) -> int:
    from peerwise.run.peer import PeerFolder, outbox, publish

    peer = PeerFolder(arguments.folder)
    transport = outbox(peer)
    say(arguments, "checking what the models hold of the rows")
    found = publish(peer, transport, allow=arguments.allow)
    return show(arguments, found, lambda console: _print(console, found, peer.settings.meeting.is_live))


def _print(console: Console, found: dict[str, Any], live: bool) -> None:
    if not found["again"]:
        line(
            console,
            f"version {edition(found['version'])} is published already, until {day(found['expires'])}: nothing changed",
        )
    else:
        until = day(found["expires"])
        line(console, f"published version {edition(found['version'])}, {size(found['bytes'])}, until {until}")
    for name, why in found["held"].items():
        left = name in found["models"]
        line(console, f"{'allowed to leave all the same' if left else 'held back, used here alone'}: {name}: {why}")
    if live and found["again"]:
        line(console, "members can fetch it while 'peerwise live' is running")
