"""peerwise accept: a person's decision on a peer's models."""

from __future__ import annotations

import argparse
from typing import Any

from peerwise.cli.peer.common import add_decision, add_verb, decide, line, show
from peerwise.parcels.signed.editions import edition


def add_to(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "accept",
        run,
        about="From the next fit on this version is used. The ledger keeps who decided it, when and why.",
        example='peerwise accept south --why "adds 6 of the 9 cases that we get wrong"',
    )
    add_decision(parser)


def run(arguments: argparse.Namespace) -> int:
    found = decide(arguments, "accepted")
    text = f"accepted version {edition(found['version'])} of {found['site']}; next: peerwise fit"
    return show(arguments, found, lambda console: line(console, text))
