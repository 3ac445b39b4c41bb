"""peerwise fit: learn whom of the accepted peers to trust."""

from __future__ import annotations

import argparse
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

from rich.console import Console

from peerwise.cli.output import results_console
from peerwise.cli.peer.common import add_folder, add_verb, folded, line, say, show, worker
from peerwise.parcels.signed.editions import edition


def add_to(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "fit",
        run,
        about="Fit the method of peerwise.toml on this site's rows and the accepted models, write the bundle that "
        "'peerwise predict' reads, and say whether it beats the own models. Where it does not, the bundle answers with "
        "the own models. A method with rounds runs them now, with all members that take part at the same time.",
        example="peerwise fit --folder north",
    )
    add_folder(parser)
    parser.add_argument("--again", action="store_true", help="begin a method with rounds anew")
    parser.add_argument("--use-peers", action="store_true", help="answer with peers even if the own models did better")
    parser.add_argument("--no-case", action="store_true", help="show no case of this site in the report")


def run(arguments: argparse.Namespace) -> int:
    from peerwise.run.peer import PeerFolder, connect, fit, fit_by_rounds, is_published, method_of

    peer = PeerFolder(arguments.folder)
    method = method_of(peer)
    say(arguments, f"fitting {peer.settings.method}")
    with ExitStack() as stack:
        process = stack.enter_context(worker())
        if not is_published(method):
            transport = stack.enter_context(closing(connect(peer, serve=True)))
            tell = partial(say, arguments)
            how = {"again": arguments.again, "use_peers": arguments.use_peers}
            found = fit_by_rounds(peer, method, transport, process, **how, tell=tell)
        else:
            later = None if method.rounds == 1 else stack.enter_context(closing(connect(peer)))
            found = fit(peer, process, later, use_peers=arguments.use_peers)
    show(arguments, found, lambda console: _print(console, found))
    return 0 if found["validation"] is None else _report(arguments)


def _report(arguments: argparse.Namespace) -> int:
    """Of the validation rows, into the site's folder; what fails here costs no bundle."""
    from peerwise.cli.report_end import report_written
    from peerwise.report import Story, story_from

    told: Story | Exception
    try:
        told = story_from(arguments.folder, case=not arguments.no_case)
    except Exception as error:
        told = error
    return report_written(told, arguments.folder, results_console() if arguments.format == "table" else None)


def _print(console: Console, found: dict[str, Any]) -> None:
    if not found["peers"]:
        line(console, "no peer's models are accepted: the own models answer. Next: peerwise pull, review, accept")
        return
    used = ", ".join(f"{site} (version {edition(version)})" for site, version in found["peers"].items())
    line(console, f"peers: {used}")
    figures = found["validation"]
    if figures is None:
        line(console, "there are no validation rows: whether it beats the own models is not known")
    else:
        _compare(console, figures, own_models_answer=found["own_models_answer"])
        if found["chosen_on_validation"]:
            line(console, "the round that answers was chosen on these rows: its figures are optimistic")
    for name, why in found["left_out"].items():
        folded(console, f"without {name}: {why}", 4)
    if found["fell_back"]:
        folded(console, f"answers come from the {found['fell_back']['to']}: {found['fell_back']['why']}", 4)
    if found["instability"] and found["instability"]["warning"]:
        folded(console, f"warning: {found['instability']['warning']}", 4)


def _compare(console: Console, figures: dict[str, Any], *, own_models_answer: bool) -> None:
    line(console, f"{'on validation rows':<20} {'own models':>12} {'with peers':>12}")
    line(console, f"{figures['metric']:<20} {_figure(figures['own']):>12} {_figure(figures['ours']):>12}")
    if figures["metric"] != "accuracy":
        accuracy = f"{_figure(figures['own_accuracy']):>12} {_figure(figures['accuracy']):>12}"
        line(console, f"{'accuracy':<20} {accuracy}")
    changed = f"{figures['gained']} of {figures['rows']} cases gained, {figures['lost']} lost"
    line(console, f"with peers it is {figures['verdict']}: {changed}")
    if own_models_answer:
        line(console, "so the bundle answers with the own models alone; --use-peers answers with peers anyway")
    if figures["worse"]:
        line(console, "'peerwise review' shows whose models do badly here; leave them out by 'peerwise refuse SITE'")


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
