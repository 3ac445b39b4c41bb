"""Which site a node is: a part of a data set that is shared out for research, or the folder of a real site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from peerwise.data import Site
from peerwise.errors import ConfigError
from peerwise.methods import Method
from peerwise.models.worker import Worker
from peerwise.parcels import Store
from peerwise.run.flower.guard import may_leave
from peerwise.run.flower.settings import FlowerSettings
from peerwise.run.one_turn import Turn
from peerwise.run.rounds import RUN, check_sites
from peerwise.run.simulate import federation


@dataclass(frozen=True)
class Place:
    """``folder``: where what was learned stays; None in research, where answers on test rows may be sent."""

    site: Site
    method: Method
    folder: Path | None
    min_leaf: int = 1

    def leaving(self, turn: Turn) -> Turn:
        """At a real site, with the parcel as it may leave; refused where it may not."""
        if self.folder is None:
            return turn
        parcel = may_leave(turn.parcel, self.site, self.min_leaf)
        turn.state[RUN]["sent"] += parcel.nbytes - turn.parcel.nbytes
        return replace(turn, parcel=parcel)

    def keep(self, settings: FlowerSettings) -> None:
        """The state that answers stays here, for `finished`."""
        if self.folder is not None:
            tree = {"settings": settings.config(), "state": self.site.state}
            Store(self.folder / "flower").save(settings.method, tree)


def place_of(settings: FlowerSettings, node: Mapping[str, Any]) -> Place:
    """The site of a node that was started with this configuration."""
    folder, partition = node.get("folder"), node.get("partition-id")
    if folder is not None and settings.research:
        raise ConfigError(
            f"this node holds the folder of a real site, the run is about the data set "
            f"{settings.research.get('dataset')!r}: expected one of them. Start the node without a folder, or run "
            f"without research."
        )
    if folder is not None:
        return _real(settings, Path(str(folder)))
    if partition is None or not settings.research:
        raise ConfigError(
            f"this node was started with {dict(node)}, for a run with research {settings.research}: expected "
            f"--node-config 'folder=\"FOLDER\"', or 'partition-id=0' and a run that names a data set."
        )
    method, sites = _shared_out(*sorted(settings.config().items()))
    if not 0 <= int(partition) < len(sites):
        raise ConfigError(
            f"partition-id is {partition}: expected 0 to {len(sites) - 1}, as there are {len(sites)} sites."
        )
    return Place(replace(sites[int(partition)], state={}), method, None)


def finished(folder: str | Path, method: str, worker: Worker) -> tuple[Method, Site]:
    """What the last run of this method has left in the folder of a site, ready to predict; peers' models run in the
    ``worker``."""
    tree = Store(Path(folder) / "flower").load(method)
    found = FlowerSettings.read(tree["settings"]).make()
    return found, replace(site_at(Path(folder)), state=tree["state"], opener=worker.open)


def site_at(folder: Path) -> Site:
    """The site of a working folder, checked against its task."""
    site: Site = _peer(folder).site()
    return site


def _peer(folder: Path) -> Any:
    from peerwise.run.peer.folder import PeerFolder  # which reads keys, lists and ledgers: not for research

    return PeerFolder(folder)


def _real(settings: FlowerSettings, folder: Path) -> Place:
    method, site = settings.make(), site_at(folder)
    if method.simulation_only:
        raise ConfigError(f"method {settings.method!r} moves rows between sites: expected one that does not.")
    if site.seed != settings.seed:
        raise ConfigError(
            f"seed is {site.seed} in {folder} and {settings.seed} in the run: expected the same at every site, as all "
            f"of them start alike. Change one."
        )
    return Place(site, method, folder, _peer(folder).settings.min_leaf)


@lru_cache(maxsize=1)
def _shared_out(*config: tuple[str, Any]) -> tuple[Method, list[Site]]:
    """Once for all messages that a process sees."""
    settings = FlowerSettings.read(dict(config))
    method, data = settings.make(), settings.experiment.load_data()
    sites = federation(settings.experiment.filled(data), data, settings.seed)
    check_sites(method, sites)
    return method, sites
