"""A site's working folder. Every file in it is written whole or not at all, so it survives kill -9 at any instant.

peerwise.toml  task.toml  federation.json  roster.json  ledger.jsonl  published.json
keys/     this site's secrets                      work/    models and outputs kept by content
seen/     the highest version seen of each peer    peers/   what arrived, by site and version
outbox/   what this site shows on the network      bundle/  what `fit` wrote and `predict` reads
rounds/   a method with rounds, while it runs      fetched/ what was fetched for the round that runs
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from peerwise.data import Site
from peerwise.data.site import site_of
from peerwise.data.task import ColumnMap, Task, read_public, read_rows
from peerwise.errors import ConfigError, NotTrusted, ParcelError, StorageError
from peerwise.parcels import Keep, Store, sha256, write_atomic
from peerwise.parcels.signed import Identity, Ledger, Roster, Seen, canonical, strict_json
from peerwise.parcels.store import remove_leftovers
from peerwise.run.experiment import DEFAULT_MODELS
from peerwise.run.peer.settings import FILE, Settings, check_models, read_settings
from peerwise.transport import SignedTransport, Transport

SECRET_BYTES = 32
PATIENCE = 10.0  # seconds to wait for another command on the same folder


@dataclass(frozen=True)
class Federation:
    """What this site trusts from the beginning: the task by its digest, and the founder's first key."""

    task: str
    founder: str
    founder_key: str


FEDERATION = {each.name for each in fields(Federation)}


class PeerFolder:
    """Files and keys of one site; ``clock`` gives the time in seconds since 1970."""

    def __init__(self, path: str | Path, clock: Callable[[], float] = time.time) -> None:
        self.path = Path(path)
        self.clock = clock

    def now(self) -> int:
        return int(self.clock())

    @contextmanager
    def held(self) -> Iterator[None]:
        """For this process alone; the lock is the system's and ends with the process, however that ends."""
        _ = self.settings  # a folder that is none is told as such, and is not written to
        lock = FileLock(self.path / ".lock", timeout=PATIENCE)
        try:
            lock.acquire()
        except Timeout:
            raise ConfigError(
                f"{self.path} is in use by another command: expected one at a time. Wait until it ends."
            ) from None
        except OSError as error:
            raise StorageError(
                f"{self.path} cannot be written ({error.strerror}): expected a folder this user may write to."
            ) from error
        try:
            remove_leftovers(self.path)
            self.take_next_key()
            yield
        finally:
            lock.release()

    # ---- what is settled -----------------------------------------------------------------------------------------

    @cached_property
    def settings(self) -> Settings:
        return read_settings(self.path / FILE)

    @property
    def name(self) -> str:
        return self.settings.name

    @cached_property
    def task(self) -> Task:
        """What all members agree on; another text than the one agreed on is refused."""
        path = self.path / "task.toml"
        try:
            task = Task.read(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} cannot be read ({error}): take it from the invitation again.") from error
        if task.digest != self.federation.task:
            raise ConfigError(
                f"{path} was changed: expected the task {self.federation.task[:12]} that the members agreed on, found "
                f"{task.digest[:12]}. Put the old text back; another task is another federation."
            )
        return task

    @cached_property
    def federation(self) -> Federation:
        path = self.path / "federation.json"
        if not path.is_file():
            raise ConfigError(f"{path} is not there: expected what 'peerwise init' wrote. Run it again.")
        try:
            found = strict_json(path.read_bytes())
            if set(found) != FEDERATION or not all(isinstance(value, str) for value in found.values()):
                raise ParcelError("it has other fields")
        except (ParcelError, TypeError) as error:
            raise ConfigError(
                f"{path} is not what 'peerwise init' wrote ({error}): expected {', '.join(sorted(FEDERATION))}. Put it "
                f"back from a copy."
            ) from error
        return Federation(**found)

    def write_federation(self, federation: Federation) -> None:
        write_atomic(self.path / "federation.json", canonical(vars(federation)))

    # ---- keys ----------------------------------------------------------------------------------------------------

    @property
    def keys(self) -> Path:
        return self.path / "keys"

    @cached_property
    def identity(self) -> Identity:
        return Identity.load(self.keys / "identity.key")

    def take_next_key(self) -> None:
        """Once the list names the key that waits here, it is this site's."""
        waiting = self.keys / "identity.next"
        if not waiting.is_file() or not self.roster_path.is_file():
            return
        fresh = Identity.load(waiting)
        if any(member.name == self.name and member.key == fresh.public for member in self.known_roster().members):
            os.replace(waiting, self.keys / "identity.key")
            self.__dict__["identity"] = fresh

    @property
    def secret(self) -> bytes:
        """Known to this site alone; noise that protects rows is drawn from it."""
        path = self.keys / "secret"
        if not path.is_file():
            write_private(path, secrets.token_bytes(SECRET_BYTES))
        return path.read_bytes()

    # ---- what is trusted, and what was decided ---------------------------------------------------------------------

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.path / "ledger.jsonl", site=self.name, clock=self.clock)

    @property
    def seen(self) -> Seen:
        return Seen(self.path / "seen", self.ledger)

    @property
    def roster_path(self) -> Path:
        return self.path / "roster.json"

    def roster(self) -> Roster:
        """The members, as the founder signed them; refused once the list has ended."""
        return self.read_roster(self._roster_bytes())

    def known_roster(self) -> Roster:
        """The same to be looked at, also after its end."""
        return self.read_roster(self._roster_bytes(), ended_too=True)

    @property
    def members(self) -> list[str]:
        """Their names, also after the list's end; none but this site as long as there is no list."""
        return self.known_roster().names if self.roster_path.is_file() else [self.name]

    def read_roster(self, data: bytes, *, ended_too: bool = False) -> Roster:
        anchor = self.federation
        return Roster.read(data, anchor.founder_key, anchor.task, self.now(), ended_too=ended_too)

    def heard_roster(self, data: bytes) -> Roster:
        """A list that has come here, signed by the founder's newest key; refused if it is older than one that was seen,
        or another of the same version. That it was seen is kept."""
        roster = Roster.read(data, self.founder_key, self.federation.task, self.now())
        self.seen.note(self.federation.founder, "roster", roster.version, sha256(data))
        return roster

    @property
    def founder_key(self) -> str:
        """The newest that is known here: whoever finds one that the founder gave up cannot sign with it any more."""
        return self.known_roster().founder if self.roster_path.is_file() else self.federation.founder_key

    def _roster_bytes(self) -> bytes:
        if not self.roster_path.is_file():
            raise NotTrusted(
                f"{self.path} has no list of members yet: expected the founder's welcome. Send the founder your "
                f"request.json, then run 'peerwise admit WELCOME'."
            )
        return self.roster_path.read_bytes()

    @property
    def is_founder(self) -> bool:
        return self.federation.founder == self.name

    # ---- rows ------------------------------------------------------------------------------------------------------

    @property
    def mapping(self) -> ColumnMap:
        return ColumnMap(self.settings.columns, self.settings.codes)

    @property
    def data_path(self) -> Path:
        return self.path / self.settings.data  # an absolute path stays one

    @property
    def models(self) -> list[str]:
        chosen = self.settings.models or list(DEFAULT_MODELS[self.task.kind])
        check_models(chosen, self.task.kind)
        return chosen

    def site(self) -> Site:
        """This site as every method knows one, checked against the task."""
        settings, task = self.settings, self.task
        group, time = settings.group or None, settings.time or None
        rows = read_rows(task, self.data_path, self.mapping, group=group, time=time)
        site = site_of(rows, self.name, seed=settings.seed, recipes=self.models, class_balance=settings.class_balance)
        site = site.replace(keep=Keep(self.path / "work"), secret=self.secret)
        if task.public is not None:
            if not settings.public:
                raise ConfigError(
                    f"the task has public rows {task.public.name!r}: expected public = 'FILE' in {FILE}, the same file "
                    f"at every site."
                )
            public, public_set = read_public(task, self.path / settings.public, self.mapping)
            site = site.replace(public=public, public_set=public_set)
        return site

    # ---- the others ------------------------------------------------------------------------------------------------

    @property
    def arrived(self) -> Store:
        return Store(self.path / "peers")

    @property
    def bundle(self) -> Store:
        return Store(self.path / "bundle")

    def signed(
        self,
        transport: Transport,
        on_refused: Callable[[str, str, str], None] | None = None,
        cache: Path | None = None,
        *,
        ended_too: bool = False,
    ) -> SignedTransport:
        """Refused once the list of members has ended, unless ``ended_too``. ``cache``: a folder for what is fetched,
        which the caller cleans."""
        return SignedTransport(
            transport,
            identity=self.identity,
            roster=self.known_roster() if ended_too else self.roster(),
            seen=self.seen,
            clock=self.clock,
            lifetime=self.settings.lifetime,
            on_refused=on_refused,
            cache=cache,
        )

    def read_json(self, name: str) -> dict[str, Any]:
        """A small file of our own; empty where there is none yet."""
        path = self.path / name
        if not path.is_file():
            return {}
        try:
            found = strict_json(path.read_bytes())
        except ParcelError as error:
            raise ParcelError(f"{path} is damaged ({error}): remove it, and run 'peerwise publish' again.") from error
        if not isinstance(found, dict):
            raise ParcelError(f"{path} is damaged: expected an object. Remove it, and run 'peerwise publish' again.")
        return found

    def write_json(self, name: str, value: dict[str, Any]) -> None:
        write_atomic(self.path / name, canonical(value))


def write_private(path: Path, data: bytes) -> None:
    """For its owner alone, from the first byte on."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomic(path, data, private=True)
