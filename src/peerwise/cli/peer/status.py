"""peerwise status: where this site stands, and what is due."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console

from peerwise.cli.peer.common import add_folder, add_verb, day, folded, line, show
from peerwise.parcels.signed.editions import edition


def add_to(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "status",
        run,
        about="What is published, what is here of peers, what was decided and fitted, and what a person should do "
        "next. Nothing is written and nobody is asked.",
        example="peerwise status --folder north",
    )
    add_folder(parser)


def run(arguments: argparse.Namespace) -> int:
    from peerwise.run.peer import PeerFolder, status

    found = status(PeerFolder(arguments.folder))
    return show(arguments, found, lambda console: _print(console, found))


def _print(console: Console, found: dict[str, Any]) -> None:
    line(console, f"{found['site']}: {found['task']['name']} ({found['task']['digest'][:12]}), {found['method']}")
    listed = found["list"]
    if listed["version"] is not None:
        line(
            console,
            f"members: {', '.join(listed['members'])} (list {listed['version']}, until {day(listed['expires'])})",
        )
    shown = found["published"]["version"]
    line(
        console,
        f"published: version {edition(shown)}, until {day(found['published']['expires'])}" if shown else "published: -",
    )
    for peer in found["peers"]:
        state = "expired" if peer["expired"] else peer["decided"]
        line(console, f"  {peer['site']:<20} version {edition(peer['version'])} {state:<9} {', '.join(peer['models'])}")
    bundle = found["bundle"]
    if bundle:
        with_ = ", ".join(f"{site} ({edition(version)})" for site, version in bundle["peers"].items()) or "no peers"
        line(console, f"fitted: {bundle['method']} on {day(bundle['made'])} with {with_}")
        if bundle["own_models_answer"]:
            line(console, "answers: the own models alone, which did better on the validation rows")
    for text in found["due"]:
        folded(console, f"due: {text}", 5)
