"""peerwise live: stay on the network for the members."""

from __future__ import annotations

import argparse
import signal
import threading
import time
from typing import Any

from peerwise.cli.output import print_json_line
from peerwise.cli.peer.common import add_folder, add_verb, say
from peerwise.errors import ConfigError


def add_to(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "live",
        run,
        about="Answer the members with what this site has published, and pull what is new now and then. Ctrl-C ends "
        "it; nothing is lost by that.",
        example="peerwise live --folder north",
    )
    add_folder(parser)
    parser.add_argument("--every", type=float, default=300.0, help="seconds between pulls (default 300; 0: never)")


def run(arguments: argparse.Namespace) -> int:
    from peerwise.run.peer import PeerFolder, live

    if arguments.every < 0:
        raise ConfigError(f"--every is {arguments.every}: expected seconds, or 0 for never.")
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        # In a thread of its own: a handler that waits for a lock which the code it interrupts holds would wait forever.
        signal.signal(number, lambda *_: threading.Thread(target=stop.set).start())

    def tell(text: str) -> None:
        if arguments.format == "json":  # one object a line, as nobody knows when it ends
            print_json_line({"at": int(time.time()), "text": text})
        else:
            say(arguments, text)

    live(PeerFolder(arguments.folder), stop, tell, pull_seconds=arguments.every)
    return 0
