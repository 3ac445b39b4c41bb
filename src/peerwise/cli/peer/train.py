"""peerwise train: this site's own models, on its own rows."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console

from peerwise.cli.peer.common import add_folder, add_verb, folded, line, say, share, show, size


def add_to(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "train",
        run,
        about="Check this site's rows against the task and train its models. What was trained before on the same rows "
        "is not trained again.",
        example="peerwise train --folder north",
    )
    add_folder(parser)


def run(arguments: argparse.Namespace) -> int:
    from peerwise.run.peer import PeerFolder, train

    peer = PeerFolder(arguments.folder)
    say(arguments, f"training {', '.join(peer.models)} at {peer.name}")
    found = train(peer)
    return show(arguments, found, lambda console: _print(console, found))


def _print(console: Console, found: dict[str, Any]) -> None:
    rows = found["rows"]
    line(console, f"{rows['train']} train, {rows['validation']} validation, {rows['test']} test rows")
    line(console, f"{'model':<16} {'accuracy':>9} {'balanced':>9} {'size':>9}   on validation rows")
    for name, model in found["models"].items():
        figures = f"{share(model['accuracy']):>9} {share(model['balanced_accuracy']):>9}"
        line(console, f"{name:<16} {figures} {size(model['bytes']):>9}")
    own = found["own"]
    line(console, f"{'their mean':<16} {share(own['accuracy']):>9} {share(own['balanced_accuracy']):>9}")
    for name, why in found["left_out"].items():
        folded(console, f"{name} could not be trained: {why}", 4)
