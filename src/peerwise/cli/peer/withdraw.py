"""peerwise withdraw: take back what was published."""

from __future__ import annotations

import argparse
from typing import Any

from peerwise.cli.peer.common import add_folder, add_verb, add_why, line, show
from peerwise.parcels.signed.editions import edition


def add_to(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "withdraw",
        run,
        about="Peers remove this site's models at their next pull, and answer without them from then on. What they "
        "have learned from your models' answers meanwhile cannot be called back.",
        example='peerwise withdraw --why "trained on rows of a patient who objected"',
    )
    add_folder(parser)
    add_why(parser, "peers and the ledger keep")


def run(arguments: argparse.Namespace) -> int:
    from peerwise.run.peer import PeerFolder, outbox, withdraw

    peer = PeerFolder(arguments.folder)
    found = withdraw(peer, outbox(peer), arguments.why)
    return show(arguments, found, lambda console: line(console, f"withdrawn, as version {edition(found['version'])}"))
