"""peerwise refuse: a person's decision on a peer's models."""

from __future__ import annotations

import argparse
from typing import Any

from peerwise.cli.peer.common import add_folder, add_verb, add_why, edition, line, show


def add_to(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "refuse",
        run,
        help="do not let a peer's models be used here",
        about="This version is not used from the next fit on. The ledger keeps who decided it, when and why.",
        example='peerwise refuse south --why "trained on another device"',
    )
    parser.add_argument("site")
    parser.add_argument("--version", type=int, help="of its models (default: the newest here)")
    add_folder(parser)
    add_why(parser, "the ledger keeps")


def run(arguments: argparse.Namespace) -> int:
    from peerwise.run.peer import PeerFolder, decided

    found = decided(PeerFolder(arguments.folder), arguments.site, arguments.version, "refused", arguments.why)
    text = f"refused version {edition(found['version'])} of {found['site']}"
    return show(arguments, found, lambda console: line(console, text))
