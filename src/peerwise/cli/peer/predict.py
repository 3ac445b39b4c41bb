"""peerwise predict: answers to new rows, and whom they come from."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

from peerwise.cli.peer.common import add_folder, add_verb, line, say, show, worker
from peerwise.errors import ConfigError

SHOWN = 3


def add_to(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "predict",
        run,
        about="Answer the rows of a file with the bundle that 'peerwise fit' wrote. With --explain N the first N rows "
        "come with the sites that are trusted there and a remark; with --out all answers go to a CSV file.",
        example="peerwise predict ward.csv --explain 3 --folder north",
    )
    parser.add_argument("file", type=Path, help="rows as this site has them, without the target")
    add_folder(parser)
    parser.add_argument("--explain", type=int, default=0, metavar="N", help="say whom the first N answers come from")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write all answers to this CSV file")


def run(arguments: argparse.Namespace) -> int:
    from peerwise.run.peer import PeerFolder, predict

    if arguments.explain < 0:
        raise ConfigError(f"--explain is {arguments.explain}: expected a number from 0.")
    peer = PeerFolder(arguments.folder)
    with worker() as process:
        found = predict(peer, arguments.file, process, arguments.explain)
    for note in found.reading:
        say(arguments, f"{arguments.file.name}: {note}")
    rows = _rows(found)
    told = {"site": peer.name, "classes": list(found.classes), "rows": rows}
    if arguments.out is not None:
        _write(arguments.out, found)
        say(arguments, f"{len(rows)} answers: {arguments.out}")
    shown = rows[: arguments.explain] if arguments.explain or arguments.out is not None else rows
    return show(arguments, told, lambda console: _print(console, shown, peer.name))


def _rows(found: Any) -> list[dict[str, Any]]:
    rows = []
    for place, said in enumerate(found.probabilities):
        row: dict[str, Any] = {
            "row": place + 1,
            "answer": found.classes[int(found.answers[place])],
            "p": float(said[found.answers[place]]),
            "probabilities": [float(value) for value in said],
        }
        if place < len(found.trust):
            row |= {"trust": found.trust[place], "note": found.notes[place]}
        rows.append(row)
    return rows


def _write(path: Path, found: Any) -> None:
    import pandas as pd

    from peerwise.parcels import write_atomic

    answers = [found.classes[code] for code in found.answers]
    table = pd.DataFrame(found.probabilities, columns=[f"p_{name}" for name in found.classes])
    table.insert(0, "answer", answers)
    table.index += 1  # as the printed rows are counted
    write_atomic(path, table.to_csv(index_label="row").encode())


def _print(console: Console, rows: list[dict[str, Any]], own: str) -> None:
    if not rows:
        return
    widest = max([len("answer"), *(len(row["answer"]) for row in rows)])
    explained = "trust" in rows[0]
    trust = [_trust(row.get("trust", {}), own) for row in rows]
    wide = max([len("trust"), *map(len, trust)])
    line(console, f"{'row':<5} {'answer':<{widest}} {'p':>5}" + (f"   {'trust':<{wide}}   note" if explained else ""))
    for row, text in zip(rows, trust, strict=True):
        unsure = row.get("note", "").startswith("unsure")
        answer = "-" if unsure else row["answer"]
        first = f"{row['row']:<5} {answer:<{widest}} {row['p']:>5.2f}"
        line(console, (first + (f"   {text:<{wide}}   {row['note']}" if explained else "")).rstrip())


def _trust(trust: dict[str, float], own: str) -> str:
    heaviest = sorted(trust.items(), key=lambda item: -item[1])[:SHOWN]
    named = [("own" if site == own else site, weight) for site, weight in heaviest if weight >= 0.005]
    return "  ".join(f"{site} {weight:.2f}" for site, weight in named)
