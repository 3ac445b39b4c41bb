"""peerwise predict: answers to new rows, and whom they come from."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console

from peerwise.cli.peer.common import add_folder, add_verb, folded, line, say, show, worker
from peerwise.errors import ConfigError

SHOWN = 3


def add_to(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "predict",
        run,
        about="Answer the rows of a file with the bundle that 'peerwise fit' wrote. With --explain N the first N rows "
        "come with the sites that are trusted there and a remark; with --out all answers go to a CSV file. An "
        "answer is unsure where more than one class is possible at --level, as the service has it.",
        example="peerwise predict ward.csv --explain 3 --folder north",
    )
    parser.add_argument("file", type=Path, help="rows as this site has them, without the target")
    add_folder(parser)
    parser.add_argument("--explain", type=int, default=0, metavar="N", help="say whom the first N answers come from")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write all answers to this CSV file")
    parser.add_argument("--level", type=float, help="share of cases whose truth is among the possible classes (0.9)")


def run(arguments: argparse.Namespace) -> int:
    from peerwise.parcels import write_atomic
    from peerwise.run.peer import PeerFolder, predict
    from peerwise.run.peer.answering import answers_csv

    if arguments.explain < 0:
        raise ConfigError(f"--explain is {arguments.explain}: expected a number from 0.")
    peer = PeerFolder(arguments.folder)
    level = {} if arguments.level is None else {"level": arguments.level}
    with worker() as process:
        found = predict(peer, arguments.file, process, arguments.explain, trust=arguments.out is not None, **level)
    for note in found.reading:
        say(arguments, f"{arguments.file.name}: {note}")
    rows = found.rows()
    output = {
        "site": peer.name,
        "classes": list(found.classes),
        "own_models_answer": found.own_models_answer,
        "level": found.level,
        "calibration_rows": found.sets.rows,
        "sets": found.sets.kind,
        "record": found.sets.record(found.level).to_dict(),
        "rows": rows,
    }
    if arguments.out is not None:
        write_atomic(arguments.out, answers_csv(found.classes, found.sites, rows).encode())
        say(arguments, f"{len(rows)} answers: {arguments.out}")
    shown = rows[: arguments.explain] if arguments.explain or arguments.out is not None else rows
    return show(arguments, output, lambda console: _print(console, output, shown, explained=bool(arguments.explain)))


def _print(console: Console, output: dict[str, Any], rows: list[dict[str, Any]], *, explained: bool) -> None:
    if not rows:
        return
    widest = max([len("answer"), *(len(row["answer"]) for row in rows)])
    trust = [_trust(row.get("trust", {}), output["site"]) for row in rows]
    wide = max([len("trust"), *map(len, trust)])
    more = f"   {'trust':<{wide}}   note" if explained else ""
    line(console, f"{'row':<5} {'answer':<{widest}} {'p':>5}   {'sure?':<6}{more}".rstrip())
    for row, text in zip(rows, trust, strict=True):
        verdict = "unsure" if row["unsure"] else "sure"
        first = f"{row['row']:<5} {row['answer']:<{widest}} {row['p']:>5.2f}   {verdict:<6}"
        line(console, (first + (f"   {text:<{wide}}   {row['note']}" if explained else "")).rstrip())
    if output["own_models_answer"]:
        line(console, "the own models answer alone: they did better than with peers when it was fitted")
    for why, count in Counter(row["why"] for row in rows if row["unsure"]).items():
        folded(console, f"unsure ({count} of {len(rows)}): {why}", 4)
    if output["calibration_rows"]:
        record = output["record"]
        folded(console, f"at {100 * output['level']:g} %: {record['sure']['text']}; {record['unsure']['text']}", 4)


def _trust(trust: dict[str, float], own: str) -> str:
    heaviest = sorted(trust.items(), key=lambda item: -item[1])[:SHOWN]
    named = [("own" if site == own else site, weight) for site, weight in heaviest if weight >= 0.005]
    return "  ".join(f"{site} {weight:.2f}" for site, weight in named)
