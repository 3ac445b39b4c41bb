"""peerwise simulate: compare methods on a simulated federation."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from peerwise.cli.as_json import as_json
from peerwise.cli.output import find_working_folder, print_json, results_console
from peerwise.cli.progress import Watch
from peerwise.cli.report_end import print_found, report_written, story_or_error
from peerwise.data import PARTITIONS, partition_parameters
from peerwise.errors import ConfigError
from peerwise.evaluate import Assessment, assess, check_positive
from peerwise.methods.registry import default_budget
from peerwise.report import write_contributions
from peerwise.run import Experiment, Run, experiment_from, read_experiments, set_key, simulate

EXAMPLES = """examples:
  peerwise simulate heart_disease --methods local,peerwise --seeds 3
  peerwise simulate fashion_mnist --rows 8000 --partition exdir --classes-per-site 3 --alpha 1 --sites 20 \\
      --models small_cnn,lenet --methods local,peerwise --workers 2 --set peerwise.k=7 --out runs/fashion
  peerwise simulate --split digits.npz --methods local,peerwise --format json
  peerwise simulate ward.csv --target died --site hospital
  peerwise simulate digits --methods local,my_module:MyMethod --set my_module:MyMethod.scale=0.3
  peerwise simulate heart_disease --subgroup sex --positive disease --threshold 0.3
  peerwise simulate digits --models mlp --methods local_rounds,fedavg,fedprox:strong --set fedprox:strong.mu=1 \\
      --rounds 20 --lr 0.05 --tune 3
  peerwise simulate experiments/heart.toml
  peerwise simulate experiments/feddes_fashion.toml --fast --workers 2 --out runs/feddes_fashion

running again with the same --out goes on where it stopped; adding methods or seeds reuses trained models.
"""

# Flags that are experiment keys, and those that are keys of its training.
PLAIN = ("partition", "sites", "rows", "public", "public_alpha", "flipped", "test", "models", "assign", "methods",
         "class_balance", "seeds", "folds", "epochs", "device", "subgroup", "tune", "join")  # fmt: skip
OPTIONS = ("target", "site")  # of the loader of a table
TRAINING = ("rounds", "local_epochs", "batch_size", "optimizer", "lr")


def add_to(verbs: Any) -> None:
    parser = verbs.add_parser(
        "simulate",
        description="Share a data set out among sites, train their models, run methods on them, and compare.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "dataset",
        nargs="?",
        help="a data set (peerwise list datasets), a file, module:function, or an experiment .toml",
    )
    parser.add_argument("--fast", action="store_true", help="the smaller sizes that an experiment .toml has in [fast]")
    parser.add_argument("--split", metavar="FILE.npz", help="a split file: rows, sites and splits are taken from it")
    parser.add_argument("--target", metavar="COLUMN", help="the column to be predicted, of a table")
    parser.add_argument("--site", metavar="COLUMN", help="the column that says whose row it is, of a table")
    parser.add_argument(
        "--partition", help="how rows are shared out (peerwise list partitions), or module:function of your own"
    )
    for name in _partition_flags():
        parser.add_argument(f"--{name.replace('_', '-')}", dest=f"partition_{name}", metavar="X", help=_flag_help(name))
    parser.add_argument("--sites", type=int, help="number of sites (natural partitions know theirs)")
    parser.add_argument("--rows", type=int, help="use a random subset of so many rows")
    parser.add_argument("--public", type=int, help="unlabelled rows set aside for all sites before sharing out")
    parser.add_argument("--public-alpha", type=float, help="skew the classes of these rows: Dirichlet, small is strong")
    parser.add_argument("--flipped", type=int, help="turn every label at so many sites to the next class")
    parser.add_argument("--test", choices=["site", "common"], help="test rows: each site's own, or one set for all")
    parser.add_argument("--models", help="models a site trains, by comma (peerwise list models), or module:function")
    parser.add_argument(
        "--class-balance", choices=["none", "balanced"], help="balanced: classes count alike, however rare"
    )
    parser.add_argument("--assign", choices=["all", "cycle"], help="every site trains all models, or one each in turn")
    parser.add_argument("--methods", help="methods to compare, by comma (peerwise list methods), or module:Class")
    parser.add_argument("--seeds", type=int, help="number of seeds: each draws its own split")
    parser.add_argument("--folds", type=int, help="folds of the out-of-fold predictions")
    parser.add_argument("--epochs", type=int, help="at most so many epochs of base training")
    _add_training(parser)
    parser.add_argument("--device", help="torch device of training")
    parser.add_argument("--subgroup", metavar="COLUMN", help="also compare by the values of a column, e.g. sex")
    parser.add_argument("--positive", metavar="CLASS", help="class to be found (default: the last of two)")
    parser.add_argument(
        "--threshold", type=float, default=0.5, help="probability from which it is called found (default 0.5)"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="e.g. peerwise.k=7 (repeatable)"
    )
    parser.add_argument("--workers", type=int, help="tasks at once (default: 1, or what the executor can)")
    parser.add_argument(
        "--executor", metavar="WHERE", help="where they run: local (default), dask:ADDRESS, ray:ADDRESS or ray:local"
    )
    parser.add_argument("--data-dir", help="folder with the data sets (default: $PEERWISE_DATA)")
    parser.add_argument("--out", help="run folder (default: runs/<data set>-<hash of the federation>)")
    parser.add_argument("--format", choices=["table", "json"], default="table")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    parser.set_defaults(run=run)


def _add_training(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "methods with rounds", "the same for all of them, local_rounds and centralised_rounds included"
    )
    group.add_argument("--rounds", type=int, help="rounds of sharing")
    group.add_argument("--local-epochs", type=int, help="epochs a site trains in a round")
    group.add_argument("--batch-size", type=int, help="rows in a batch")
    group.add_argument("--optimizer", help="sgd or adam")
    group.add_argument("--lr", type=float, help="learning rate")
    group.add_argument("--tune", type=int, metavar="N", help="try N learning rates around it on validation rows")
    group.add_argument("--join", type=float, help="share of the sites that take part in a round (default 1)")


def run(arguments: argparse.Namespace) -> int:
    find_working_folder()
    wanted = _experiments(arguments)
    _check_wanted(wanted, arguments)
    finished: dict[str, Run] = {}
    with Watch(arguments.quiet) as watch:
        for name, experiment in wanted.items():
            out = _folder(arguments.out, name, experiment, alone=len(wanted) == 1)
            finished[name] = simulate(
                experiment,
                out=out,
                workers=arguments.workers,
                executor=arguments.executor,
                data_dir=arguments.data_dir,
                on_event=watch,
            )
    if arguments.format == "json":
        assessed = [(run, _assess(run, arguments)) for run in finished.values()]
        found = [as_json(run, assessment) for run, assessment in assessed]
        print_json(found[0] if len(found) == 1 else found)
        _write_graphs(finished)
        return max(report_written(story_or_error(run, assessment), run.folder) for run, assessment in assessed)
    console = results_console()
    told = {}
    for name, one in finished.items():
        if len(finished) > 1:
            console.print(name, style="bold", markup=False)
        told[name] = print_found(one, _assess(one, arguments), console)
        if any(map(one.experiment.budget, one.experiment.methods)):
            console.print(f"training: {_listed({**default_budget(), **one.experiment.training})}", markup=False)
        for method in one.experiment.methods:
            if settings := one.experiment.settings(method):
                console.print(f"{one.experiment.label(method)}: {_listed(settings)}", markup=False)
        console.print(f"results: {one.folder}/results.parquet", soft_wrap=True, markup=False)
        console.print()
    for place in _write_graphs(finished):
        console.print(f"contribution graphs: {place}", soft_wrap=True, markup=False)
    return max(report_written(told[name], one.folder, console) for name, one in finished.items())


def _write_graphs(finished: dict[str, Run]) -> list[Path]:
    """After the results were printed: a disk that is full costs no results."""
    places = [write_contributions(one, one.folder) for one in finished.values() if one.folder]
    return [place for place in places if place is not None]


def _listed(settings: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in settings.items())


def _check_wanted(wanted: dict[str, Experiment], arguments: argparse.Namespace) -> None:
    """Refuse a threshold or a class that cannot be, before hours of work."""
    check_positive(None, (), arguments.threshold)
    if arguments.positive is not None:
        for experiment in wanted.values():
            check_positive(arguments.positive, experiment.load_data(arguments.data_dir).classes, arguments.threshold)


def _assess(run: Run, arguments: argparse.Namespace) -> Assessment:
    return assess(run, positive=arguments.positive, threshold=arguments.threshold)


def _experiments(arguments: argparse.Namespace) -> dict[str, Experiment]:
    settings = _settings(arguments)
    if arguments.dataset and arguments.dataset.endswith(".toml"):
        if settings:
            raise ConfigError(
                f"{arguments.dataset} says what to run; {', '.join(sorted(settings))} cannot be given beside it. "
                f"Change the file."
            )
        return read_experiments(arguments.dataset, fast=arguments.fast)
    if arguments.fast:
        raise ConfigError("--fast is for experiment files, which say what is smaller: expected a .toml file with it.")
    if arguments.split and arguments.dataset:
        raise ConfigError(f"both a data set ({arguments.dataset}) and --split {arguments.split}: expected one of them.")
    dataset = arguments.split or arguments.dataset
    if not dataset:
        raise ConfigError("no data set: name one (peerwise list datasets), a file, or --split FILE.npz.")
    return {Path(dataset).stem.replace(":", "."): experiment_from({"dataset": dataset, **settings})}


def _settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """The experiment's keys from the flags that were given, then from --set."""
    settings: dict[str, Any] = _given(arguments, PLAIN)
    flags = {name: getattr(arguments, f"partition_{name}") for name in _partition_flags()}
    shares = {name: _value(text) for name, text in flags.items() if text is not None}
    if shares:
        settings["partition_settings"] = shares
    if training := _given(arguments, TRAINING):
        settings["training"] = training
    if options := _given(arguments, OPTIONS):
        settings["options"] = options
    set_from(settings, arguments.set)
    return settings


def set_from(settings: dict[str, Any], items: list[str]) -> None:
    """Change keys of an experiment as --set says it."""
    for item in items:
        key, equals, text = item.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {item!r}: expected KEY=VALUE, e.g. --set peerwise.k=7.")
        set_key(settings, key.removeprefix("method."), _value(text))


def _given(arguments: argparse.Namespace, keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: getattr(arguments, key) for key in keys if getattr(arguments, key) is not None}


def _value(text: str) -> Any:
    """A number, true/false/null or JSON where it reads as such, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _folder(out: str | None, name: str, experiment: Experiment, *, alone: bool) -> Path:
    if out is None:
        return Path("runs") / f"{name}-{experiment.pool_key[:6]}"
    return Path(out) if alone else Path(out) / name


def _partition_flags() -> list[str]:
    return sorted({parameter for name in PARTITIONS for parameter in partition_parameters(name)})


def _flag_help(parameter: str) -> str:
    return f"of {', '.join(name for name in PARTITIONS if parameter in partition_parameters(name))}"
