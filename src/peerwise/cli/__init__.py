"""The command line, one file a verb."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from peerwise.errors import PeerwiseError

EXIT_CODES = "exit codes: 0 done, 1 a fault in Peerwise, 2 bad input or wrong arguments, 130 stopped by Ctrl-C"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; every expected failure is one sentence on standard error and exit code 2."""
    from peerwise.cli import demo, list_things, simulate
    from peerwise.cli.output import messages_console

    parser = argparse.ArgumentParser(
        prog="peerwise",
        description="Learn from each other's models without sharing data; know for every case whom to trust.",
        epilog=EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=_version())
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb in (simulate, list_things, demo):
        verb.add_to(verbs)
    if not (sys.argv[1:] if argv is None else argv):
        parser.print_help(sys.stderr)
        return 2
    arguments = parser.parse_args(argv)
    try:
        code = int(arguments.run(arguments))
        sys.stdout.flush()
        return code
    except PeerwiseError as error:
        messages_console().print(f"peerwise: {error}", markup=False, soft_wrap=True)
        return 2
    except KeyboardInterrupt:
        messages_console().print("\nstopped. Run the same command again to go on where it stopped.")
        return 130
    except BrokenPipeError:
        # The reader went away (as `head` does); what is left of the output has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _version() -> str:
    from importlib.metadata import version

    return f"peerwise {version('peerwise')}"
