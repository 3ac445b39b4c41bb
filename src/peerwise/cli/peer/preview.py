"""peerwise preview: exactly what would leave."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console

from peerwise.cli.peer.common import add_folder, add_verb, folded, line, say, show, size


def add_to(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "preview",
        run,
        about="Everything that 'peerwise publish' would send, to the byte: each file, the card, what the models hold "
        "of the rows and how well an attacker could tell who is in them. Nothing leaves.",
        example="peerwise preview --folder north",
    )
    add_folder(parser)
    parser.add_argument("--allow", default="", metavar="WHY", help="as if models that are held back were let go")


def run(arguments: argparse.Namespace) -> int:
    from peerwise.run.peer import PeerFolder, outbox, preview

    peer = PeerFolder(arguments.folder)
    transport = outbox(peer)
    say(arguments, "checking what the models hold of the rows")
    found = preview(peer, transport, allow=arguments.allow)
    return show(arguments, found, lambda console: _print(console, found))


def _print(console: Console, found: dict[str, Any]) -> None:
    from peerwise.parcels.card import card_lines

    line(console, f"{size(found['bytes'])} would go to: {', '.join(found['to']) or 'nobody yet'}")
    for item in found["items"]:
        line(console, f"  {item['name']:<24} {item['kind']:<9} {size(item['bytes']):>9}  sha256 {item['sha256'][:16]}")
    line(console)
    for model, finding in found["findings"].items():
        folded(console, f"{model:<12} {_told(finding)}", 13)
    line(console)
    line(console, "card:")
    for text in card_lines(found["card"]):
        folded(console, f"  {text}", 12)


def _told(finding: dict[str, Any]) -> str:
    if "held" in finding:
        return f"HELD BACK. {finding['held']}"
    attack = finding["attack"]
    if attack is None:
        return "holds no training row; too few rows for a membership attack"
    return f"holds no training row; who was in them is guessed with AUC {attack['auc']:.2f} (0.50: by chance)"
