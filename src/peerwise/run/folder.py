"""The run folder: everything a run wrote, every write whole or not at all.

config.toml  split.json  events.jsonl  results.parquet  curves.parquet
index.json   what a report needs besides, written last    opened.json   the one decision that it shows
states/<method>-s<seed>...        where all sites stand, and in the end the states that answer
predictions/<method>-s<seed>...   what all sites answered
kept/   blobs/                    results of work, by content
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
from peerwise.parcels import Keep, Store, read_tree, write_atomic, write_tree
from peerwise.parcels.store import kept_name, remove_leftovers
from peerwise.run.checkpoint import Checkpoint
from peerwise.run.experiment import Experiment

Packed = tuple[bytes, dict[str, bytes]]  # a manifest and its blobs


class RunFolder:
    """Paths and files of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.store = Store(self.path)
        self._events = self.path / "events.jsonl"
        self._kept: dict[str, dict[str, Packed]] | None = None  # by site and key, once it has been asked for

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
        self._repair_log()
        write_atomic(key, wanted.encode())
        write_atomic(self.path / "config.toml", experiment.to_toml().encode())

    def keep(self, site: str) -> Keep:
        """The results kept by content; work that a site had to do is logged."""
        return Keep(self.path, partial(self._worked, site))

    def _worked(self, site: str, key: str, parts: Mapping[str, Any]) -> None:
        self.log({"event": "worked", "site": site, "what": parts.get("what"), "model": parts.get("recipe"), "key": key})

    def keep_packed(self, site: str, key: str, parts: Mapping[str, Any], packed: Packed) -> None:
        """Keep the result of work that was done for a site elsewhere."""
        if not self.store.has(kept_name(key)):
            self.store.save_packed(kept_name(key), *packed)
            self._worked(site, key, parts)
            if self._kept is not None:
                self._kept.setdefault(site, {})[key] = packed

    def kept_of(self, site: str) -> Mapping[str, Packed]:
        """What was kept for a site, by key: for workers that cannot read this folder."""
        if self._kept is None:
            self._kept = {}
            for line in self._events.read_bytes().splitlines():
                event = json.loads(line)
                if event["event"] == "worked":
                    packed = self.store.load_packed(kept_name(event["key"]))
                    self._kept.setdefault(event["site"], {})[event["key"]] = packed
        return self._kept.get(site, {})

    def has_states(self, run: str) -> bool:
        return self._states(run).is_file()

    def load_states(self, run: str) -> Checkpoint:
        return Checkpoint.load(self._states(run))

    def save_states(self, run: str, at: Checkpoint) -> None:
        at.save(self._states(run))

    def load_state(self, site: str, run: str) -> dict[str, Any] | None:
        """The state of one site, None where there is none."""
        saved = self.load_states(run).sessions.get(site) if self.has_states(run) else None
        return None if saved is None else saved.state

    def load_predictions(self, run: str) -> dict[str, dict[str, Any]] | None:
        """What each site answered; None while the run has no predictions."""
        path = self.predictions_file(run)
        if not path.is_file():
            return None
        tree = read_tree(path)
        return dict(zip(tree["names"], tree["predictions"], strict=True))

    def save_predictions(self, run: str, predictions: Mapping[str, Mapping[str, Any]]) -> None:
        tree = {"names": list(predictions), "predictions": list(predictions.values())}
        write_tree(self.predictions_file(run), tree, durable=True)

    def predictions_file(self, run: str) -> Path:
        return self.path / "predictions" / run

    def _states(self, run: str) -> Path:
        return self.path / "states" / run

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

    def _repair_log(self) -> None:
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
