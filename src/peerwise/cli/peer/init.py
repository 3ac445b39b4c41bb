"""peerwise init: a site's folder, for a new federation or for one that invites."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

from peerwise.cli.peer.common import add_verb, line, pairs, show
from peerwise.errors import ConfigError

OF_THE_TASK = ("target", "drop", "positive", "metric")
PLAIN = ("name", "method", "seed", "group", "time", "licence")


def add_to(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "init",
        run,
        about="Without --invite this site founds a federation: the task is --task FILE, or drawn up from the rows and "
        "--target. With --invite it asks to join one.",
        example="peerwise init north --data north.csv --target disease --listen 127.0.0.1:7447\n"
        "  peerwise init south --data south.csv --invite invite.json --fingerprint ABCD-EFGH-IJKL-MNOP-QRST \\\n"
        "      --listen 127.0.0.1:7448",
        usage="peerwise init FOLDER --data FILE (--meet FOLDER | --listen HOST:PORT)\n"
        "           (--target COLUMN | --task FILE | --invite FILE --fingerprint F) [option ...]",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the site's folder, which is made")
    parser.add_argument(
        "--data", type=Path, required=True, metavar="FILE", help="this site's labelled rows (.csv, .parquet, .npz)"
    )
    parser.add_argument("--name", help="of the site (default: that of the folder)")
    meet = parser.add_argument_group("where the members meet")
    meet.add_argument(
        "--meet",
        metavar="FOLDER",
        help="a folder that all members see, an fsspec URL, or an address "
        "for the transport that --set meeting.transport=NAME names",
    )
    meet.add_argument("--listen", metavar="HOST:PORT", help="at which this site can be reached")
    meet.add_argument("--connect", action="append", default=[], metavar="HOST:PORT", help="a member to call first")
    found = parser.add_argument_group("founding")
    found.add_argument("--task", type=Path, metavar="FILE", help="the task as TOML")
    found.add_argument("--target", metavar="COLUMN", help="the column to be predicted, where there is no --task")
    found.add_argument("--drop", metavar="COLUMNS", help="columns that are no features, with commas")
    found.add_argument("--positive", metavar="CLASS", help="the class to be found (default: the last of two)")
    found.add_argument("--metric", help="by which models are compared (default: balanced_accuracy)")
    join = parser.add_argument_group("joining")
    join.add_argument("--invite", type=Path, metavar="FILE", help="the founder's invite.json")
    join.add_argument("--fingerprint", metavar="F", default="", help="of the founder, as read out over the telephone")
    site = parser.add_argument_group("the site")
    site.add_argument("--models", help="with commas (peerwise list models; default: some for the kind of rows)")
    site.add_argument("--method", help="of peerwise list methods (default: peerwise)")
    site.add_argument("--seed", type=int, help="of splits and training (default: 0)")
    site.add_argument("--public", metavar="FILE", help="unlabelled rows, the same file at every site")
    site.add_argument("--group", metavar="COLUMN", help="a local column: rows of one patient belong together")
    site.add_argument("--time", metavar="COLUMN", help="a local column: when a row was seen")
    site.add_argument("--licence", help="of the models, for their card")
    site.add_argument("--column", action="append", default=[], metavar="TASK=LOCAL", help="a column under another name")
    site.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any key of peerwise.toml, such as min_leaf=20 or meeting.transport=NAME",
    )


def run(arguments: argparse.Namespace) -> int:
    from peerwise.run.peer import found, join
    from peerwise.transport import FolderTransport

    _check_flags(arguments)
    settings = _settings(arguments)
    if arguments.invite is not None:
        told = join(arguments.folder, settings, arguments.invite, arguments.fingerprint)
        return show(arguments, told, lambda console: _joined(console, told, arguments.folder))
    if arguments.meet and settings["meeting"].get("transport", "folder") == "folder":
        FolderTransport(settings["meeting"]["folder"], "founder")  # refused now, and not when something is published
    told = found(arguments.folder, settings, _task(arguments), public=arguments.public or "")
    return show(arguments, told, lambda console: _founded(console, told, arguments.folder))


def _check_flags(arguments: argparse.Namespace) -> None:
    """Refuse what would otherwise be passed over."""
    given = [f"--{key}" for key in OF_THE_TASK if getattr(arguments, key) is not None]
    if arguments.invite is not None and arguments.task is not None:
        given.append("--task")
    settled = "--invite" if arguments.invite is not None else "--task" if arguments.task is not None else None
    if given and settled:
        raise ConfigError(f"{given[0]} is settled by {settled} already: leave one of them out.")
    if arguments.fingerprint and arguments.invite is None:
        raise ConfigError("--fingerprint is of the founder whom --invite names: give both, or leave both out.")
    if not arguments.meet and not arguments.listen and arguments.invite is None:
        raise ConfigError("neither --meet nor --listen is given: say where the members meet, as --help shows.")


def _task(arguments: argparse.Namespace) -> Any:
    from peerwise.data.task import Task
    from peerwise.run.peer import task_for

    if arguments.task is not None:
        try:
            return Task.read(arguments.task.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{arguments.task} cannot be read ({error}): expected the task as TOML.") from error
    if not arguments.target:
        raise ConfigError("neither --task nor --target is given: name the column to be predicted, or a task.toml.")
    return task_for(
        arguments.data,
        arguments.target,
        drop=[name for name in (arguments.drop or "").split(",") if name],
        name=arguments.target,
        positive=arguments.positive,
        metric=arguments.metric or "balanced_accuracy",
    )


def _settings(arguments: argparse.Namespace) -> dict[str, Any]:
    if not arguments.data.is_file():
        raise ConfigError(f"{arguments.data} is not there: expected this site's labelled rows.")
    if arguments.public and not Path(arguments.public).is_file():
        raise ConfigError(f"{arguments.public} is not there: expected the public rows that every site has.")
    settings = {key: getattr(arguments, key) for key in PLAIN if getattr(arguments, key) is not None}
    settings["data"] = str(arguments.data.resolve())
    if arguments.public and arguments.invite is not None:
        settings["public"] = str(Path(arguments.public).resolve())
    if arguments.models:
        settings["models"] = [name for name in arguments.models.split(",") if name]
    if arguments.column:
        settings["columns"] = {key: str(value) for key, value in pairs(arguments.column, "--column").items()}
    given, meet = pairs(arguments.set, "--set"), arguments.meet or ""
    if meet and "://" not in meet and given.get("meeting.transport", "folder") == "folder":
        meet = str(Path(meet).resolve())
    settings["meeting"] = {"folder": meet, "listen": arguments.listen or "", "connect": arguments.connect}
    for key, value in given.items():
        table, dot, inner = key.partition(".")
        if dot and isinstance(settings.get(table, {}), dict):
            settings[table] = {**settings.get(table, {}), inner: value}
        else:
            settings[key] = value
    return settings


def _founded(console: Console, told: dict[str, Any], folder: Path) -> None:
    line(console, f"{told['site']} founds the federation {told['task'][:12]}")
    line(console, f"look through {folder / 'task.toml'} before you invite anybody: it cannot be changed afterwards")
    line(console, f"send to those who are to join: {told['invite']}")
    line(console, f"and read out to them, over the telephone: {told['fingerprint']}")


def _joined(console: Console, told: dict[str, Any], folder: Path) -> None:
    line(console, f"{told['site']} asks to join; send to the founder: {told['request']}")
    line(console, f"and read out to the founder, over the telephone: {told['fingerprint']}")
    line(console, f"then take in the founder's answer: peerwise admit WELCOME --folder {folder}")
    line(console, f"meanwhile, hold your rows against the task: peerwise doctor --folder {folder}")
