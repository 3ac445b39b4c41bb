"""peerwise doctor: everything that a site needs, looked at before it is needed."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from rich.console import Console

from peerwise.cli.peer.common import add_folder, add_verb, folded, show

PROBLEMS = 2  # as for any bad input


def add_to(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "doctor",
        run,
        about="Check keys, clock, policy, disk, rows against the task, the ledger, the list of members, the "
        "certificate, what keeps peers' models away from this machine, and each peer. Exit code 2 if there is a "
        "problem.",
        example="peerwise doctor --folder north",
    )
    add_folder(parser)


def run(arguments: argparse.Namespace) -> int:
    from peerwise.run.peer import PeerFolder, connect, doctor

    peer = PeerFolder(arguments.folder)
    found = doctor(peer, lambda: connect(peer))
    show(arguments, [asdict(check) for check in found], lambda console: _print(console, found))
    return PROBLEMS if any(check.verdict == "problem" for check in found) else 0


def _print(console: Console, found: list[Any]) -> None:
    styles = {"ok": None, "warning": "yellow", "problem": "bold red"}
    for check in found:
        text = f"{check.verdict:<8} {check.what:<12} {check.text}"
        folded(console, text, 22, style=styles[check.verdict])
