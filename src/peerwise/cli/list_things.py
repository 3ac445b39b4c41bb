"""peerwise list: the methods, data sets, models and partitions there are."""

from __future__ import annotations

import argparse
import inspect
from textwrap import shorten
from typing import Any

from peerwise.cli.output import print_json, results_console
from peerwise.data import DATASETS, PARTITIONS, partition_parameters
from peerwise.errors import ConfigError, choices
from peerwise.methods import describe, first_sentence, method_names, method_parameters
from peerwise.models import ZOO
from peerwise.models.own_recipe import offered

KINDS = ("methods", "datasets", "models", "partitions")
WIDTH = 80


def add_to(verbs: Any) -> None:
    parser = verbs.add_parser(
        "list",
        description="What there is, with its parameters and their defaults.",
        epilog="examples: peerwise list methods; peerwise list methods peerwise; peerwise list models --format json",
    )
    parser.add_argument("what", choices=KINDS)
    parser.add_argument("name", nargs="?", help="one of them, with its parameters")
    parser.add_argument("--format", choices=["table", "json"], default="table")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    entries = entries_of(arguments.what)
    if arguments.name is not None:
        entries = [entry for entry in entries if entry["name"] == arguments.name]
        if not entries:
            known = [entry["name"] for entry in entries_of(arguments.what)]
            raise ConfigError(choices(arguments.name, known, arguments.what.removesuffix("s")))
    if arguments.format == "json":
        print_json(entries)
    elif arguments.name is not None:
        _show(entries[0])
    else:
        _show_all(entries, arguments.what)
    return 0


def _show(entry: dict[str, Any]) -> None:
    console = results_console()
    console.print(f"{entry['name']}: {entry['about']}", markup=False, soft_wrap=True)
    for key, value in entry.get("parameters", {}).items():
        console.print(f"  {key} = {value}", markup=False)


def _show_all(entries: list[dict[str, Any]], what: str) -> None:
    """One line each, within 80 columns."""
    console = results_console()
    longest = max(len(entry["name"]) for entry in entries)
    for entry in entries:
        about = shorten(entry["about"], WIDTH - longest - 2, placeholder=" ...")
        console.print(f"{entry['name']:<{longest}}  {about}", markup=False, soft_wrap=True)
    if any("parameters" in entry for entry in entries):
        console.print(f"\nparameters and their defaults: peerwise list {what} {entries[0]['name']}", markup=False)


def entries_of(what: str) -> list[dict[str, Any]]:
    if what == "methods":
        return [{"name": n, "about": describe(n), "parameters": method_parameters(n)} for n in method_names()]
    if what == "datasets":
        return [{"name": name, "about": _first_line(loader)} for name, loader in sorted(DATASETS.items())]
    if what == "models":
        own = [
            {"name": n, "about": f"offered as {e.value if e else 'two things at once'}"} for n, e in offered().items()
        ]
        zoo = [{"name": n, "about": f"{r.kind}: {r.description}"} for n, r in ZOO.items()]
        return sorted(zoo + own, key=lambda entry: entry["name"])
    return [
        {"name": name, "about": _first_line(function), "parameters": partition_parameters(name)}
        for name, function in sorted(PARTITIONS.items())
    ]


def _first_line(thing: Any) -> str:
    return first_sentence(inspect.getdoc(thing) or "")
