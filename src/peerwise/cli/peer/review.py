"""peerwise review: what each peer's models would bring here."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console

from peerwise.cli.peer.common import add_folder, add_verb, folded, line, share, show, size, worker
from peerwise.parcels.signed.editions import edition


def add_to(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "review",
        run,
        about="For each model that has arrived: its accuracy here, what it adds where this site's own models fail, the "
        "classes it never answers with, its size, its card, and what was decided. Then accept or refuse it.",
        example="peerwise review south --folder north",
    )
    parser.add_argument("site", nargs="?", help="one site, with its card (default: all)")
    add_folder(parser)


def run(arguments: argparse.Namespace) -> int:
    from peerwise.run.peer import PeerFolder, review

    with worker() as process:
        found = review(PeerFolder(arguments.folder), process, arguments.site)
    return show(arguments, found, lambda console: _print(console, found, cards=arguments.site is not None))


def _print(console: Console, found: dict[str, Any], *, cards: bool) -> None:
    from peerwise.parcels.card import card_lines

    own = f"own models {share(found['own_accuracy'])}, wrong on {found['own_wrong']} of {found['rows']}"
    line(console, f"on {found['rows_are']} rows: {own}")
    if not found["arrivals"]:
        line(console, "nothing has arrived: run 'peerwise pull'")
        return
    called = found["metric"].replace("_", " ")
    line(console, f"metric: {called}, own models {_metric(found['own_metric'])}; adds: right where own models fail")
    line(console, f"{'model':<26} {'metric':>9} {'accuracy':>9} {'adds':>9} {'size':>9}")
    for arrival in found["arrivals"]:
        for name, model in arrival["models"].items():
            line(console, f"{name + '@' + arrival['site']:<26} {_figures(model, found['own_wrong'])}".rstrip())
        state = f"{arrival['decided']} by {arrival['by']}: {arrival['why']}" if arrival["by"] else "not decided"
        folded(console, f"  version {edition(arrival['version'])}, {state}", 4)
        for name, why in arrival["left_out"].items():
            folded(console, f"  without {name}: {why}", 4)
        for text in card_lines(arrival["card"]) if cards else ():
            folded(console, f"  {text}", 12)
    waiting = [arrival["site"] for arrival in found["arrivals"] if not arrival["by"]]
    if waiting:
        line(console, f"next: peerwise accept {waiting[0]} --why TEXT, or peerwise refuse {waiting[0]} --why TEXT")


def _figures(model: dict[str, Any], own_wrong: int) -> str:
    if model["failed"]:
        return f"fails here: {model['failed']}"
    adds = f"{model['right_where_own_fails']} of {own_wrong}"
    if model["near_constant"]:
        return f"{_numbers(model, adds)}  NEAR-CONSTANT: nearly always gives one answer"
    never = f"never says {', '.join(model['never_answers'])}" if model["never_answers"] else ""
    return f"{_numbers(model, adds)}  {never}"


def _numbers(model: dict[str, Any], adds: str) -> str:
    figures = f"{_metric(model['metric']):>9} {share(model['accuracy']):>9}"
    return f"{figures} {adds:>9} {size(model['bytes']):>9}"


def _metric(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
