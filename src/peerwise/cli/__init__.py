"""The command line, one file a verb."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from peerwise.environment import ARROW_ALONE, ONE_THREAD
from peerwise.errors import PeerwiseError

# Where each verb is, and what it is for; those of a site in a real federation stand in the order of use.
VERBS = {
    "simulate": ("simulate", "compare methods on a simulated federation"),
    "report": ("report", "the page and the tables of a run, or two runs compared"),
    "recommend": ("recommend", "which method for this site, from what was measured"),
    "list": ("list_things", "methods, learners, models, data sets, partitions or transports"),
    "demo": ("demo", "the main job on four real hospitals, in about a minute"),
    "init": ("peer.init", "make a site's folder: keys, task, settings"),
    "admit": ("peer.admit", "admit a member, take in a welcome, revoke, renew, change keys"),
    "doctor": ("peer.doctor", "check keys, clock, rows, members, isolation"),
    "train": ("peer.train", "train this site's own models"),
    "preview": ("peer.preview", "exactly what publishing would send"),
    "publish": ("peer.publish", "show this site's models to the members"),
    "live": ("peer.live", "stay on the network and answer the members"),
    "pull": ("peer.pull", "fetch what the members have published"),
    "review": ("peer.review", "peers' models on this site's own validation rows"),
    "accept": ("peer.accept", "let a peer's models be used here"),
    "refuse": ("peer.refuse", "do not let a peer's models be used here"),
    "withdraw": ("peer.withdraw", "take back what this site has published"),
    "fit": ("peer.fit", "learn for every case whom to trust"),
    "predict": ("peer.predict", "answer new rows, and say whom to trust"),
    "serve": ("serve", "answer over HTTP, with a page"),
    "status": ("peer.status", "where this site stands, and what is due"),
    "flower": ("flower", "write a Flower app that runs a method"),
}
EXIT_CODES = "exit codes: 0 done, 1 a fault in Peerwise, 2 bad input or wrong arguments, 130 stopped by Ctrl-C"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; every expected failure is one sentence on standard error and exit code 2."""
    if argv is None:  # a process of our own: with one thread it can fork its workers itself, which takes less memory
        for name, value in {**ONE_THREAD, **ARROW_ALONE}.items():
            os.environ.setdefault(name, value)
        gc.set_threshold(100_000)  # importing libraries makes many objects and no garbage
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
    finally:
        if argv is None:
            gc.freeze()  # as Python ends, it would look for garbage in all that libraries hold: half a second


def _run(argv: Sequence[str]) -> int:
    parser = parser_for(argv)
    if not argv:
        parser.print_help(sys.stderr)
        return 2
    arguments = parser.parse_args(argv)
    return int(arguments.run(arguments))


def parser_for(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Only the verb that is wanted is imported: the others take seconds, and a list of them needs their names alone."""
    parser = argparse.ArgumentParser(
        prog="peerwise",
        description="Learn from each other's models without sharing data; know for every case whom to trust.",
        epilog=EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=_version())
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, (module, about) in VERBS.items():
        if [name] == list(argv[:1]):
            import_module(f"peerwise.cli.{module}").add_to(verbs)
        else:
            verbs.add_parser(name, help=about)
    return parser


def _say(message: str) -> None:
    from peerwise.cli.output import messages_console

    messages_console().print(message, markup=False, soft_wrap=True)


def _version() -> str:
    from importlib.metadata import version

    return f"peerwise {version('peerwise')}"
