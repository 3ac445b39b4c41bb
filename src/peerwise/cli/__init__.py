"""The command line, one file a verb."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from peerwise.environment import ARROW_ALONE, ONE_THREAD
from peerwise.errors import PeerwiseError

# The verbs of a site in a real federation, in the order of use.
OF_A_SITE = (
    "init", "admit", "doctor", "train", "preview", "publish", "live", "pull", "review", "accept", "refuse", "withdraw",
    "fit", "predict", "status",
)  # fmt: skip
EXIT_CODES = "exit codes: 0 done, 1 a fault in Peerwise, 2 bad input or wrong arguments, 130 stopped by Ctrl-C"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; every expected failure is one sentence on standard error and exit code 2."""
    if argv is None:  # a process of our own: with one thread it can fork its workers itself, which takes less memory
        for name, value in {**ONE_THREAD, **ARROW_ALONE}.items():
            os.environ.setdefault(name, value)
    try:
        code = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
        return code
    except PeerwiseError as error:
        _say(f"peerwise: {error}")
        return 2
    except KeyboardInterrupt:
        _say("\nstopped. Run the same command again to go on where it stopped.")
        return 130
    except BrokenPipeError:
        # The reader went away (as `head` does); what is left of the output has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(argv: Sequence[str]) -> int:
    # Imported here, because it takes seconds in which Ctrl-C should be answered as well.
    from peerwise.cli import demo, flower, list_things, simulate

    parser = argparse.ArgumentParser(
        prog="peerwise",
        description="Learn from each other's models without sharing data; know for every case whom to trust.",
        epilog=EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=_version())
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    sites = [import_module(f"peerwise.cli.peer.{name}") for name in OF_A_SITE]
    for verb in (simulate, list_things, demo, *sites, flower):
        verb.add_to(verbs)
    if not argv:
        parser.print_help(sys.stderr)
        return 2
    arguments = parser.parse_args(argv)
    return int(arguments.run(arguments))


def _say(message: str) -> None:
    from peerwise.cli.output import messages_console

    messages_console().print(message, markup=False, soft_wrap=True)


def _version() -> str:
    from importlib.metadata import version

    return f"peerwise {version('peerwise')}"
