"""The run folder: everything a run wrote, every write whole or not at all.

config.toml  split.json  events.jsonl  results.parquet
sites/<site>/{state,parcels,predictions}/<method>-s<seed>...   told/   kept/   blobs/
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pandas as pd

from peerwise.data import Site
from peerwise.errors import ConfigError
from peerwise.exchange import FolderExchange, file_name
from peerwise.methods import Inbox
from peerwise.parcels import Keep, Parcel, Store, write_atomic
from peerwise.run.experiment import Experiment


class RunFolder:
    """Paths and files of one run; small enough to be sent to a worker process."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.store = Store(self.path)
        self.keep = Keep(self.path)

    def open(self, experiment: Experiment, rows: str) -> None:
        """Start the folder, or go on with it if it was made for the same rows (their digest), sites and models."""
        key, wanted = self.path / ".pool", f"{experiment.pool_key} {rows}"
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"{self.path} is a file: expected a folder for the run.")
        if key.exists() and key.read_text() != wanted:
            raise self._other()
        try:
            write_atomic(key, wanted.encode())
            write_atomic(self.path / "config.toml", experiment.to_toml().encode())
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be written ({error}): choose another folder with --out.") from error

    def exchange(self, run: str) -> FolderExchange:
        return FolderExchange(self.path, f"sites/{{site}}/parcels/{run}/round-{{round}}")

    def load_state(self, site: str, run: str) -> dict[str, Any] | None:
        name = _of(site, "state", run)
        return self.store.load(name) if self.store.has(name) else None

    def save_state(self, site: str, run: str, state: dict[str, Any]) -> None:
        self.store.save(_of(site, "state", run), state)

    def has_predictions(self, site: str, run: str) -> bool:
        return self.store.has(_of(site, "predictions", run))

    def save_predictions(self, site: str, run: str, tree: dict[str, Any]) -> None:
        self.store.save(_of(site, "predictions", run), tree)

    def load_predictions(self, site: str, run: str) -> dict[str, Any]:
        return self.store.load(_of(site, "predictions", run))

    def save_told(self, run: str, round: int, told: Inbox | Parcel) -> None:
        """What all sites are told in a round: one parcel, or parcels by name."""
        if isinstance(told, Parcel):
            tree: dict[str, Any] = {"parcel": told}
        else:
            tree = {"names": list(told), "parcels": list(told.values())}
        self.store.save(f"told/{run}/round-{round}", tree)

    def load_told(self, run: str, round: int) -> Inbox | Parcel:
        tree = self.store.load(f"told/{run}/round-{round}")
        if "parcel" in tree:
            return Parcel(**tree["parcel"])
        return {name: Parcel(**items) for name, items in zip(tree["names"], tree["parcels"], strict=True)}

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
        write_atomic(path, json.dumps({**splits, str(seed): split}, separators=(",", ":")).encode())

    def log(self, event: dict[str, Any]) -> None:
        with (self.path / "events.jsonl").open("a") as file:
            file.write(json.dumps({"time": round(time.time(), 3), **event}) + "\n")

    def save_results(self, results: pd.DataFrame) -> None:
        write_atomic(self.path / "results.parquet", results.to_parquet(index=False))

    def _other(self) -> ConfigError:
        return ConfigError(
            f"{self.path} holds a run with other data, sites, models or training (see its config.toml): "
            f"expected the same, so that it can go on. Choose another folder with --out."
        )


def _of(site: str, what: str, run: str) -> str:
    return f"sites/{file_name(site)}/{what}/{run}"
