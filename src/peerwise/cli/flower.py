"""peerwise flower: write the app that Flower runs."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from peerwise.cli.output import print_json, results_console
from peerwise.cli.simulate import set_from
from peerwise.errors import ConfigError
from peerwise.run.flower.settings import FlowerSettings, write_app

EXAMPLES = """examples:
  peerwise flower app --method peerwise --nodes 3 --out results
  peerwise flower app --method fedproto --nodes 4 --dataset heart_disease --models mlp \\
      --set fedproto.rounds=20 --set fedproto.lr=0.05
  flwr run app

With --dataset, a data set is shared out among the nodes for research; without, every node holds the folder of a real
site. docs/flower.md says how to start the hub and the nodes, and what is protected. Needs peerwise[flower].
"""
OF_THE_RUN = ("method", "seed", "nodes", "quorum", "deadline")
OF_RESEARCH = ("dataset", "partition", "sites", "models", "public", "folds", "epochs")


def add_to(verbs: Any) -> None:
    parser = verbs.add_parser(
        "flower",
        description="Write the folder that 'flwr run' takes: any method, with Flower's server as the hub.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", help="folder of the app; its pyproject.toml is written")
    parser.add_argument("--method", help="method (peerwise list methods; default peerwise)")
    parser.add_argument("--nodes", type=int, help="how many sites are waited for before the first round (default 1)")
    parser.add_argument("--quorum", type=int, help="so many answers end a round (default: those of all sites)")
    parser.add_argument("--deadline", type=float, help="seconds after which a round ends anyway (default 3600)")
    parser.add_argument("--seed", type=int, help="the same at every site (default 0)")
    parser.add_argument("--out", help="folder for what the hub knows of the run, on its machine")
    group = parser.add_argument_group("research", "a data set, shared out among the nodes by their partition-id")
    group.add_argument("--dataset", help="a data set (peerwise list datasets) that is registered on every node")
    group.add_argument("--partition", help="how rows are shared out (peerwise list partitions)")
    group.add_argument("--sites", type=int, help="number of sites (natural partitions know theirs)")
    group.add_argument("--models", help="models a site trains, by comma (peerwise list models)")
    group.add_argument("--public", type=int, help="unlabelled rows set aside for all sites")
    group.add_argument("--folds", type=int, help="folds of the out-of-fold predictions")
    group.add_argument("--epochs", type=int, help="at most so many epochs of base training")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="e.g. peerwise.k=7 (repeatable)"
    )
    parser.add_argument("--format", choices=["table", "json"], default="table")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    found = {key: getattr(arguments, key) for key in OF_THE_RUN if getattr(arguments, key) is not None}
    research = {key: getattr(arguments, key) for key in OF_RESEARCH if getattr(arguments, key) is not None}
    set_from(research, arguments.set)
    of_methods = research.pop("method", {})
    name = found.get("method", FlowerSettings.method)
    for other in of_methods.keys() - {name}:
        raise ConfigError(f"--set {other}: the method is {name!r}. Leave it out, or name {other!r} with --method.")
    if arguments.out is not None:
        found["out"] = str(Path(arguments.out).absolute())
    settings = FlowerSettings.read({**found, "settings": of_methods.get(name, {}), "research": research})
    path = write_app(arguments.folder, settings)
    if arguments.format == "json":
        print_json({"app": str(path.parent), "config": settings.config()})
        return 0
    console = results_console()
    console.print(f"wrote {path}", soft_wrap=True, markup=False)
    console.print(f"run it: flwr run {shlex.quote(str(path.parent))}", soft_wrap=True, markup=False)
    return 0
