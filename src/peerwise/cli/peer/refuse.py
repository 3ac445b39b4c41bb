"""peerwise refuse: a person's decision on a peer's models."""

from __future__ import annotations

import argparse
from typing import Any

from peerwise.cli.peer.common import add_decision, add_verb, decide, line, show
from peerwise.parcels.signed.editions import edition


def add_to(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "refuse",
        run,
        about="This version is not used from the next fit on. The ledger keeps who decided it, when and why.",
        example='peerwise refuse south --why "trained on another device"',
    )
    add_decision(parser)


def run(arguments: argparse.Namespace) -> int:
    found = decide(arguments, "refused")
    text = f"refused version {edition(found['version'])} of {found['site']}"
    return show(arguments, found, lambda console: line(console, text))
