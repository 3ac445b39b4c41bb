"""peerwise.toml: what one site settles for itself. What all members agree on is in the task."""

from __future__ import annotations

import re
import tomllib
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_type_hints

import tomli_w

from peerwise.errors import ConfigError, choices
from peerwise.methods import check_settings, method_class
from peerwise.methods.registry import check_method, is_path
from peerwise.models import ZOO, own_recipe
from peerwise.models.own_recipe import check_names
from peerwise.parcels.signed import peer_name
from peerwise.registry import offered

FILE = "peerwise.toml"
FORMAT = 1
DAY = 86_400
ADDRESS = re.compile(r"[^\s/#?;]+:[0-9]{1,5}")


@dataclass(frozen=True)
class Meeting:
    """Where the members meet: a ``folder`` that all of them see (a directory or an fsspec URL), or the network, where
    this site listens at ``listen`` ("host:port") and first calls at ``connect``.

    ``transport``: the registered one that is opened with the folder's address and the site's name.
    """

    folder: str = ""
    transport: str = "folder"
    listen: str = ""
    connect: list[str] = field(default_factory=list)

    @property
    def is_live(self) -> bool:
        return not self.folder


@dataclass(frozen=True)
class Settings:
    """``data``: this site's labelled rows (relative to the folder); ``columns`` and ``codes`` say what the task's
    columns and values are called there, ``group`` and ``time`` name local columns that are no features.

    ``class_balance`` "balanced": classes count alike, however rare, in the training of methods with rounds, in the
    choice of their best round and in the answers of ``peerwise``.
    ``ask``: how often a person decides on a peer's models: "first" (its later versions follow by themselves), "always"
    (every version), or "never". Nothing skips the gate.
    ``sets``: whether prediction sets hold the truth as often as promised over all cases together ("marginal") or for
    each class ("by-class"), a rare one too, with more unsure answers.
    ``most_peers``: of more members, only the models of so many are fetched, by what their cards promise; 0: all.
    ``min_leaf``: a forest with smaller leaves does not leave. ``attack_seconds`` may be spent on the membership attack.
    ``valid_days``: how long what is published may be used. ``quorum`` and ``deadline`` (seconds) end a round.
    """

    name: str
    data: str
    format: int = FORMAT
    seed: int = 0
    public: str = ""
    group: str = ""
    time: str = ""
    models: list[str] = field(default_factory=list)
    method: str = "peerwise"
    method_settings: dict[str, Any] = field(default_factory=dict)
    class_balance: Literal["none", "balanced"] = "none"
    licence: str = ""
    ask: Literal["first", "always", "never"] = "first"
    sets: Literal["marginal", "by-class"] = "marginal"
    most_peers: int = 0
    min_leaf: int = 10
    attack_seconds: float = 20.0
    valid_days: int = 365
    quorum: int = 0
    deadline: float = 600.0
    columns: dict[str, str] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    meeting: Meeting = field(default_factory=Meeting)

    def text(self) -> str:
        return tomli_w.dumps(asdict(self))

    @property
    def lifetime(self) -> int:
        return self.valid_days * DAY


LONGEST = 731  # days: nothing that is signed may live longer
LOWEST = {"seed": 0, "most_peers": 0, "min_leaf": 1, "attack_seconds": 0, "valid_days": 1, "quorum": 0, "deadline": 0}


def read_settings(path: Path) -> Settings:
    """Refuse, before any work, what cannot be meant."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ConfigError(
            f"{path} is not there: expected the folder of a site. Make one with 'peerwise init FOLDER', or name it "
            f"with --folder."
        ) from error
    except (ValueError, OSError) as error:
        raise ConfigError(f"{path} cannot be read ({error}): expected TOML text. Correct that line.") from error
    return settings_from(found, path.name)


def settings_from(found: dict[str, Any], where: str = FILE) -> Settings:
    if found.get("format", FORMAT) != FORMAT:
        raise ConfigError(f"{where} is of format {found['format']}: expected {FORMAT}. Update Peerwise to read it.")
    hints = get_type_hints(Settings) | {"meeting": dict[str, Any]}
    check_settings(found, hints, where)
    for key in ("name", "data"):
        if not found.get(key):
            raise ConfigError(f"{where}: {key} is missing: expected e.g. {key} = {_examples[key]!r}.")
    meeting = found.get("meeting", {})
    check_settings(meeting, get_type_hints(Meeting), f"{where}: meeting")
    settings = Settings(**{**found, "meeting": Meeting(**meeting)})
    _check(settings, where)
    return settings


_examples = {"name": "north", "data": "rows.csv"}


def _check(settings: Settings, where: str) -> None:
    peer_name(settings.name)
    for key, least in LOWEST.items():
        if getattr(settings, key) < least:
            raise ConfigError(f"{where}: {key} is {getattr(settings, key)}: expected at least {least}.")
    if settings.valid_days > LONGEST:
        raise ConfigError(f"{where}: valid_days is {settings.valid_days}: expected at most {LONGEST}.")
    check_names(settings.models)
    if is_path(settings.method):  # reading a site's settings imports nothing of anybody's
        raise ConfigError(
            f"{where}: method {settings.method!r} is not registered: expected a name. A package of yours registers one "
            f"by an entry point."
        )
    if getattr(method_class(settings.method), "simulation_only", False):
        raise ConfigError(f"{where}: method {settings.method!r} moves rows between sites: expected one that does not.")
    check_method(settings.method, settings.method_settings)
    if bool(settings.meeting.folder) == bool(settings.meeting.listen):
        raise ConfigError(
            f"{where}: meeting has folder {settings.meeting.folder!r} and listen {settings.meeting.listen!r}: expected "
            f"one of them, a folder that all members see or the address at which this site listens."
        )
    named = settings.meeting.transport
    if named != "folder" and named not in offered("transports"):
        raise ConfigError(f"{where}: meeting: {choices(named, ['folder', *offered('transports')], 'transport')}")
    if named != "folder" and settings.meeting.is_live:
        raise ConfigError(
            f"{where}: meeting has transport {named!r} and listen {settings.meeting.listen!r}: expected one, as "
            f"members on the network meet over Zenoh. Give the transport's address as folder, or leave transport out."
        )
    for address in (settings.meeting.listen, *settings.meeting.connect):
        if address and not ADDRESS.fullmatch(address):
            raise ConfigError(f"{where}: meeting has the address {address[:80]!r}: expected HOST:PORT.")


def check_models(models: list[str], kind: str) -> None:
    """Refuse models for other rows than the task has; models of the site's own are imported for it."""
    for name in models:
        if (taken := own_recipe(name).kind) != kind:
            fitting = sorted(other for other, recipe in ZOO.items() if recipe.kind == kind)
            raise ConfigError(
                f"models: {name!r} takes {taken} rows, the task has {kind} rows. Choices: {', '.join(fitting)}."
            )


def changeable() -> list[str]:
    """The keys that `init --set` and the file may name."""
    return [each.name for each in fields(Settings)]
