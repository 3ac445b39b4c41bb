"""The run folder: everything a run wrote, every write whole or not at all.

config.toml  split.json  events.jsonl  results.parquet  curves.parquet
index.json   what a report needs besides, written last    opened.json   the one decision that it shows
sites/<site>/{state,parcels,predictions,failure}/<method>-s<seed>...
told/   failing/   trained/   rounds/   kept/   blobs/
"""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock, Timeout

from peerwise.data import Site
from peerwise.errors import ConfigError, StorageError
from peerwise.exchange import FolderExchange, file_name
from peerwise.methods import Inbox, Memory
from peerwise.parcels import Keep, Parcel, Store, write_atomic
from peerwise.parcels.store import remove_leftovers
from peerwise.run.experiment import Experiment
from peerwise.run.round_files import RoundFiles
from peerwise.run.rounds import RUN


class RunFolder:
    """Paths and files of one run; small enough to be sent to a worker process."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.store = Store(self.path)
        self._events = self.path / "events.jsonl"

    @contextmanager
    def open(self, experiment: Experiment, rows: str) -> Iterator[None]:
        """Start the folder, or go on with it if it was made for the same rows (their digest), sites and models; hold it
        for this process meanwhile. The lock is the system's: it ends with the process, however that ends."""
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"{self.path} is a file: expected a folder for the run.")
        with _writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path / ".lock", timeout=0)
            try:
                lock.acquire()
            except Timeout:
                raise ConfigError(
                    f"{self.path} is in use by another run: expected one at a time. Wait until it ends, or choose "
                    f"another folder with --out."
                ) from None
        try:
            self._prepare(experiment, rows)
            yield
        finally:
            lock.release()

    def _prepare(self, experiment: Experiment, rows: str) -> None:
        key, wanted = self.path / ".pool", f"{experiment.pool_key} {rows}"
        if key.exists() and key.read_text() != wanted:
            raise self._other()
        remove_leftovers(self.path)
        self._mend_log()
        write_atomic(key, wanted.encode())
        write_atomic(self.path / "config.toml", experiment.to_toml().encode())

    def keep(self, site: str) -> Keep:
        """The results kept by content; work that a site had to do is logged."""
        return Keep(self.path, partial(self._worked, site))

    def _worked(self, site: str, key: str, parts: Mapping[str, Any]) -> None:
        self.log({"event": "worked", "site": site, "what": parts.get("what"), "model": parts.get("recipe"), "key": key})

    def exchange(self, run: str) -> FolderExchange:
        return FolderExchange(self.path, f"sites/{{site}}/parcels/{run}/round-{{round}}")

    def load_state(self, site: str, run: str) -> dict[str, Any] | None:
        name = _of(site, "state", run)
        return self.store.load(name) if self.store.has(name) else None

    def save_state(self, site: str, run: str, state: dict[str, Any]) -> None:
        self.store.save(_of(site, "state", run), state)

    def load_record(self, site: str, run: str) -> dict[str, Any]:
        """The runtime's own part of a state."""
        return dict((self.load_state(site, run) or {}).get(RUN, {}))

    def rounds(self, run: str) -> RoundFiles:
        return RoundFiles(self.path / "rounds" / run)

    def save_trained(self, run: str, scores: Mapping[str, float | None]) -> None:
        """All rounds are over: the best scores on validation rows by site."""
        self.store.save(f"trained/{run}", {"names": list(scores), "scores": list(scores.values())})

    def load_trained(self, run: str) -> dict[str, float | None] | None:
        if not self.store.has(f"trained/{run}"):
            return None
        tree = self.store.load(f"trained/{run}")
        return dict(zip(tree["names"], tree["scores"], strict=True))

    def has_predictions(self, site: str, run: str) -> bool:
        return self.store.has(_of(site, "predictions", run))

    def save_predictions(self, site: str, run: str, tree: dict[str, Any]) -> None:
        self.store.save(_of(site, "predictions", run), tree)

    def load_predictions(self, site: str, run: str) -> dict[str, Any]:
        return self.store.load(_of(site, "predictions", run))

    def save_failure(self, site: str, run: str, failure: dict[str, Any]) -> None:
        """A site that failed takes no further part in this run; {"step", "why"}."""
        self.store.save(_of(site, "failure", run), failure)

    def load_failure(self, site: str, run: str) -> dict[str, Any] | None:
        name = _of(site, "failure", run)
        return self.store.load(name) if self.store.has(name) else None

    def save_failing(self, run: str, step: str, why: dict[str, str]) -> None:
        """The sites that failed in a step that has not ended, by name; written as a whole."""
        self.store.save(_failing(run), {"step": step, "why": why})

    def load_failing(self, run: str, step: str) -> dict[str, str]:
        tree = self.store.load(_failing(run)) if self.store.has(_failing(run)) else {}
        return dict(tree["why"]) if tree.get("step") == step else {}

    def has_told(self, run: str, round: int) -> bool:
        return self.store.has(_told(run, round))

    def save_told(self, run: str, round: int, told: Inbox | Parcel, memory: Memory) -> None:
        """What all sites are told in a round (one parcel, or parcels by name), and the memory for the next one."""
        if isinstance(told, Parcel):
            tree: dict[str, Any] = {"parcel": told}
        else:
            tree = {"names": list(told), "parcels": list(told.values())}
        self.store.save(_told(run, round), {**tree, "memory": memory})

    def load_told(self, run: str, round: int) -> tuple[Inbox | Parcel, Memory]:
        tree = self.store.load(_told(run, round))
        if "parcel" in tree:
            return Parcel(**tree["parcel"]), tree["memory"]
        parcels = zip(tree["names"], tree["parcels"], strict=True)
        return {name: Parcel(**items) for name, items in parcels}, tree["memory"]

    def save_split(self, seed: int, sites: list[Site]) -> None:
        """Which rows of the data set are where, so that the split can be checked or used elsewhere."""
        path = self.path / "split.json"
        splits: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        split = {
            site.name: {part: rows.tolist() for part, rows in site.index.items()} | {"models": list(site.recipes)}
            for site in sites
        }
        if splits.get(str(seed), split) != split:
            raise self._other()
        splits[str(seed)] = split
        if (common := sites[0].public_set) is not None:
            public = {"name": common.name, "sha256": common.sha256, "rows": common.rows.tolist()}
            known = splits.setdefault("public", {})  # by seed, beside the seeds, whose keys are names of sites
            if known.setdefault(str(seed), public) != public:
                raise self._other()
        write_atomic(path, json.dumps(splits, separators=(",", ":")).encode())

    def log(self, event: dict[str, Any]) -> None:
        """One line, in one write, so that lines of several processes never mix."""
        line = (json.dumps({"time": round(time.time(), 3), **event}) + "\n").encode()
        with _writing(self._events), self._events.open("ab", buffering=0) as file:
            if file.write(line) < len(line):
                raise OSError(errno.ENOSPC, "no room for the whole line")

    def _mend_log(self) -> None:
        """Leave out the half lines that a full disk or a crash may have left."""
        if not self._events.exists():
            return
        lines = self._events.read_bytes().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith(b"}\n") and _is_json(line)]
        if whole != lines:
            write_atomic(self._events, b"".join(whole))

    def save_results(self, results: pd.DataFrame) -> None:
        write_atomic(self.path / "results.parquet", results.to_parquet(index=False))

    def _other(self) -> ConfigError:
        return ConfigError(
            f"{self.path} holds a run with other data, sites, models or training (see its config.toml): "
            f"expected the same, so that it can go on. Choose another folder with --out."
        )


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written ({error.strerror or error}): free some space or choose another folder with "
            f"--out, and run again: it goes on where it stopped."
        ) from error


def _failing(run: str) -> str:
    return f"failing/{run}"


def _told(run: str, round: int) -> str:
    return f"told/{run}/round-{round}"


def _of(site: str, what: str, run: str) -> str:
    return f"sites/{file_name(site)}/{what}/{run}"
