"""peerwise pull: fetch what the members have published."""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import Any

from rich.console import Console

from peerwise.cli.peer.common import add_folder, add_verb, folded, line, say, show, worker
from peerwise.parcels.signed.editions import edition


def add_to(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "pull",
        run,
        about="Fetch the list of members and their models, verify signatures and versions, pass every file through the "
        "gate, try it on own rows in a process of its own, and keep it for a decision. Withdrawn models go.",
        example="peerwise pull --folder north",
    )
    add_folder(parser)


def run(arguments: argparse.Namespace) -> int:
    from peerwise.run.peer import PeerFolder, connect, pull

    peer = PeerFolder(arguments.folder)
    _ = peer.settings  # a folder that is none is told as such before anybody is asked
    say(arguments, "asking the members")
    with closing(connect(peer)) as transport, worker() as process:
        found = pull(peer, transport, process)
    return show(arguments, found, lambda console: _print(console, found))


def _print(console: Console, found: dict[str, Any]) -> None:
    note = found["members"]["note"]
    version = found["members"]["version"]
    folded(console, f"list of members: version {version}" + (f"; no newer one is known: {note}" if note else ""), 4)
    if not found["peers"]:
        line(console, "there are no other members yet")
    left = [outcome for outcome in found["peers"].values() if outcome["outcome"] == "not fetched"]
    for name, outcome in found["peers"].items():
        if outcome in left:
            continue
        folded(console, f"{name:<20} {_told(outcome)}", 21)
        for model, why in outcome.get("left_out", {}).items():
            folded(console, f"{'':<20} without {model}: {why}", 21)
    if left:
        folded(console, f"{len(left)} more not fetched: {left[0]['why']}", 4)
    if found["refitted"]:
        line(console, f"fitted again without {', '.join(found['refitted']['without'])}, which may no longer be used")
    if any(outcome["outcome"] == "new" for outcome in found["peers"].values()):
        line(console, "next: peerwise review")


def _told(outcome: dict[str, Any]) -> str:
    what = outcome["outcome"]
    if what == "new":
        return f"version {edition(outcome['version'])} is new: {', '.join(outcome['models'])}"
    if what == "known":
        return f"version {edition(outcome['version'])} is here already"
    return f"{what}: {outcome['why']}"
