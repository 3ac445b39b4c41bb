"""peerwise list: the methods, data sets, models and partitions there are."""

from __future__ import annotations

import argparse
import inspect
from typing import Any

from rich.table import Table

from peerwise.cli.output import print_json, results_console
from peerwise.data import DATASETS, PARTITIONS, partition_parameters
from peerwise.methods import describe, first_sentence, method_names, method_parameters
from peerwise.models import ZOO

KINDS = ("methods", "datasets", "models", "partitions")


def add_to(verbs: Any) -> None:
    parser = verbs.add_parser(
        "list",
        help="methods, data sets, models or partitions",
        description="What there is, with its parameters and their defaults.",
        epilog="example: peerwise list methods --format json",
    )
    parser.add_argument("what", choices=KINDS)
    parser.add_argument("--format", choices=["table", "json"], default="table")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    entries = entries_of(arguments.what)
    if arguments.format == "json":
        print_json(entries)
        return 0
    table = Table(box=None, pad_edge=False, header_style="bold")
    with_parameters = any("parameters" in entry for entry in entries)
    for name in ("name", "what it is", *(["parameters"] if with_parameters else [])):
        table.add_column(name, overflow="fold")
    for entry in entries:
        shown = ", ".join(f"{key}={value}" for key, value in entry.get("parameters", {}).items())
        table.add_row(entry["name"], entry["about"], *([shown] if with_parameters else []))
    results_console().print(table)
    return 0


def entries_of(what: str) -> list[dict[str, Any]]:
    if what == "methods":
        return [{"name": n, "about": describe(n), "parameters": method_parameters(n)} for n in method_names()]
    if what == "datasets":
        return [{"name": name, "about": _first_line(loader)} for name, loader in sorted(DATASETS.items())]
    if what == "models":
        return [{"name": n, "about": f"{r.kind}: {r.description}"} for n, r in sorted(ZOO.items())]
    return [
        {"name": name, "about": _first_line(function), "parameters": partition_parameters(name)}
        for name, function in sorted(PARTITIONS.items())
    ]


def _first_line(thing: Any) -> str:
    return first_sentence(inspect.getdoc(thing) or "")
