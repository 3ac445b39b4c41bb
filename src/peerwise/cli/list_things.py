"""peerwise list: what there is of each kind, built in or offered by a package."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable
from textwrap import shorten
from typing import Any

from peerwise.cli.output import find_working_folder, print_json, results_console
from peerwise.data import partition_parameters
from peerwise.errors import PeerwiseError
from peerwise.methods import first_sentence, method_parameters
from peerwise.methods.registry import described
from peerwise.models import Recipe
from peerwise.registry import KINDS as ALL_KINDS
from peerwise.registry import find_registered, origin_of, registered_names

# What is listed under each name: every learner is a method as well.
KINDS = {**{kind: (kind,) for kind in ALL_KINDS}, "methods": ("methods", "learners")}
PARAMETERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "methods": method_parameters,
    "learners": method_parameters,
    "partitions": partition_parameters,
}
WIDTH = 80


def add_to(verbs: Any) -> None:
    parser = verbs.add_parser(
        "list",
        description="What there is, with its parameters and their defaults.",
        epilog="examples: peerwise list methods; peerwise list methods peerwise; peerwise list models --format json",
    )
    parser.add_argument("what", choices=KINDS)
    parser.add_argument("name", nargs="?", help="one of them, or module:Name of your own, with its parameters")
    parser.add_argument("--format", choices=["table", "json"], default="table")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    name, kinds = arguments.name, KINDS[arguments.what]
    if name is not None and name not in registered_names(*kinds):
        find_working_folder()
        find_registered(name, *kinds)
    entries = [_entry(each, kinds) for each in (registered_names(*kinds) if name is None else [name])]
    if arguments.format == "json":
        print_json(described(entries))
    elif name is not None:
        _show(entries[0])
    else:
        _show_all(entries, arguments.what)
    return 0


def _show(entry: dict[str, Any]) -> None:
    console = results_console()
    console.print(f"{entry['name']}: {entry['about']}", markup=False, soft_wrap=True)
    if "origin" in entry:
        console.print(f"from {entry['origin']}", markup=False, soft_wrap=True)
    for key, value in entry.get("parameters", {}).items():
        console.print(f"  {key}" if value is inspect.Parameter.empty else f"  {key} = {value}", markup=False)


def _show_all(entries: list[dict[str, Any]], what: str) -> None:
    """One line each, within 80 columns."""
    console = results_console()
    longest = max(len(entry["name"]) for entry in entries)
    for entry in entries:
        whole = f"[{entry['origin']}] {entry['about']}" if "origin" in entry else entry["about"]
        about = shorten(whole, WIDTH - longest - 2, placeholder=" ...")
        console.print(f"{entry['name']:<{longest}}  {about}", markup=False, soft_wrap=True)
    if any("parameters" in entry for entry in entries):
        console.print(f"\nparameters and their defaults: peerwise list {what} {entries[0]['name']}", markup=False)


def _entry(name: str, kinds: tuple[str, ...]) -> dict[str, Any]:
    """``origin``: the package, and where it is there, of what is not built in."""
    origin = origin_of(name, *kinds)
    entry = {"name": name, "about": "", **({"origin": origin} if origin else {})}
    try:
        found = find_registered(name, *kinds)
        if isinstance(found, Recipe):
            return entry | {"about": f"{found.kind}: {found.description}"}
        known = PARAMETERS[kinds[0]](name) if kinds[0] in PARAMETERS else None
        return entry | {"about": _first_line(found), **({} if known is None else {"parameters": known})}
    except PeerwiseError as error:  # somebody else's package: the others are shown all the same
        return entry | {"about": f"cannot be used: {error}"}


def _first_line(thing: Any) -> str:
    return first_sentence(inspect.getdoc(thing) or "")
