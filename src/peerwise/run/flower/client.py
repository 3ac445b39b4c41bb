"""The client: one step of a session for every message. All that it remembers is in Flower's context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from peerwise.data import Sequences, Site
from peerwise.errors import ConfigError, PeerwiseError, reason
from peerwise.federation import (
    PEERS_LEFT_OUT,
    RUN,
    VALIDATION,
    Broadcast,
    Method,
    Session,
    answer,
    check_sites,
    full_name,
)
from peerwise.models import one_thread
from peerwise.models.worker import Worker
from peerwise.parcels import LazyParcels, Parcel, Store, sizes_of
from peerwise.parcels.gate import admitted_models
from peerwise.run.flower.records import Reply, read_request, tree_in, tree_record
from peerwise.run.flower.settings import FlowerSettings
from peerwise.run.simulate import federation

TRIED = 256  # own rows on which a peer's model must keep its contract
MODELS = "models"  # the item of a parcel that holds ONNX files by name


def client_app(config: Mapping[str, Any] | None = None) -> ClientApp:
    """A site; ``config`` goes before the run's configuration."""
    app = ClientApp()
    app.train()(partial(_replied, config or {}))
    return app


def finished(folder: str | Path, method: str, worker: Worker) -> tuple[Method, Site]:
    """What the last run of this method has left in the folder of a site, ready to predict; peers' models run in the
    ``worker``."""
    tree = Store(Path(folder) / "flower").load(method)
    found = FlowerSettings.read(tree["settings"]).make()
    return found, _peer(Path(folder)).site().replace(state=tree["state"], opener=worker.open)


def _replied(config: Mapping[str, Any], message: Message, context: Context) -> Message:
    try:
        return _step(FlowerSettings.read({**context.run_config, **config}), message, context)
    except Exception as error:
        # Flower sends the text of an error to the hub, and what a real site's errors say may quote its rows.
        text = type(error).__name__ if "folder" in context.node_config else reason(error)
        raise PeerwiseError(f"{text} (the log of this node says more)") from error


def _step(settings: FlowerSettings, message: Message, context: Context) -> Message:
    method, site, folder = site_of(settings, context.node_config)
    kept = tree_in(context.state["session"]) if "session" in context.state else {}
    if kept.get("run") != str(context.run_id):
        kept = {}
    round, broadcast = read_request(message.content)
    left_out: dict[str, str] = {}
    parcel, tested = Parcel(), None
    with Worker() as worker, one_thread():
        site = site.replace(opener=worker.open)
        broadcast = _admitted(broadcast, site, worker, left_out)
        session = Session(method, site, kept.get("state"), kept.get("best"))
        if round is not None:
            parcel = session.step(broadcast, round)
        else:
            session.finish(broadcast)
        for one in (site.state, session.best if session.improved else None):
            if left_out and one is not None:
                one[PEERS_LEFT_OUT] = {**one.get(PEERS_LEFT_OUT, {}), **left_out}
        if folder is not None:
            parcel = _leaving(parcel, site, folder)
        elif round is None:
            tested = {"y": site.test.y, "probabilities": answer(method, site, site.test.X)}
    if round is None and folder is not None:
        tree = {"settings": settings.config(), "state": site.state}
        Store(folder / "flower").save(settings.method, tree)  # for `finished`
    reply = Message(_reply(site, parcel, tested).content(), reply_to=message)
    now = {"run": str(context.run_id), "state": site.state, "best": session.best}
    context.state = RecordDict({"session": tree_record(now)})  # last: where anything fails, it is the one from before
    return reply


def _reply(site: Site, parcel: Parcel, tested: dict[str, Any] | None) -> Reply:
    record = site.state[RUN]
    return Reply(
        name=site.name,
        sent=record["sent"],
        received=record["received"],
        scores=[(int(round), float(score)) for round, score in record["curves"].get(VALIDATION, ())],
        best=record.get("best_round"),
        left_out=sorted(site.state.get(PEERS_LEFT_OUT, {})),
        parcel=parcel.encode() if parcel else None,
        tested=tested,
    )


def site_of(settings: FlowerSettings, node: Mapping[str, Any]) -> tuple[Method, Site, Path | None]:
    """The site of a node that was started with this configuration: in research a part of a data set, else the working
    folder of a real site, where what was learned stays."""
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
    method, sites = _partitioned(*sorted(settings.config().items()))
    if not 0 <= int(partition) < len(sites):
        raise ConfigError(
            f"partition-id is {partition}: expected 0 to {len(sites) - 1}, as there are {len(sites)} sites."
        )
    return method, sites[int(partition)].replace(state={}), None


def _real(settings: FlowerSettings, folder: Path) -> tuple[Method, Site, Path]:
    method, site = settings.make(), _peer(folder).site()
    if method.simulation_only:
        raise ConfigError(f"method {settings.method!r} moves rows between sites: expected one that does not.")
    if site.seed != settings.seed:
        raise ConfigError(
            f"seed is {site.seed} in {folder} and {settings.seed} in the run: expected the same at every site, as all "
            f"of them start alike. Change one."
        )
    return method, site, folder


def _peer(folder: Path) -> Any:
    from peerwise.run.peer.folder import PeerFolder  # which reads keys, lists and ledgers: not for research

    return PeerFolder(folder)


@lru_cache(maxsize=1)
def _partitioned(*config: tuple[str, Any]) -> tuple[Method, list[Site]]:
    """Once for all messages that a process sees."""
    settings = FlowerSettings.read(dict(config))
    method, data = settings.make(), settings.experiment.load_data()
    sites = federation(settings.experiment.filled(data), data, settings.seed)
    check_sites(method, sites)
    return method, sites


def _admitted(broadcast: Broadcast | None, site: Site, worker: Worker, left_out: dict[str, str]) -> Broadcast | None:
    """The broadcast without the models that may not run here, which are noted in ``left_out``; parcels are read when
    they are asked for."""
    if broadcast is None:
        return None
    content = broadcast.content
    if isinstance(content, Parcel):
        return replace(broadcast, content=_passed("hub", content, site, worker, left_out))

    def read(sender: str) -> Parcel:
        own = sender == site.name
        return content[sender] if own else _passed(sender, content[sender], site, worker, left_out)

    return replace(broadcast, content=LazyParcels(sizes_of(content), read))


def _passed(sender: str, parcel: Parcel, site: Site, worker: Worker, left_out: dict[str, str]) -> Parcel:
    """Peers' ONNX files pass the gate and keep their contract on own rows, then run in the worker alone."""
    if MODELS not in parcel:
        return parcel
    X = site.train.X
    parts = {"static": X.static, "series": X.series} if isinstance(X, Sequences) else {"x": np.asarray(X)}
    mine = {name: part.shape[1:] for name, part in parts.items()}
    # A method that matches columns by name says which the model takes, and feeds it those.
    columns = parcel.get("features")
    inputs = {"x": (len(columns),)} if site.kind == "table" and isinstance(columns, list) else mine
    rows = (site.val if len(site.val) else site.train).X[:TRIED] if inputs == mine else None
    found = admitted_models(parcel[MODELS], sender, worker, inputs=inputs, classes=len(site.classes), rows=rows)
    left_out |= {full_name(name, sender): why for name, why in found.left_out.items()}
    return Parcel(**{**parcel, MODELS: found.passed})


def _leaving(parcel: Parcel, site: Site, folder: Path) -> Parcel:
    """The parcel as it may leave a real site: models without texts that they do not need. A model that holds rows, or
    gives away few of them, is refused with all the rest."""
    from peerwise.parcels.egress import cleaned, inspect

    if not isinstance(parcel.get(MODELS), Mapping):
        return parcel
    models = {name: cleaned(data) for name, data in parcel[MODELS].items()}
    for data in models.values():
        inspect(data, site.train, min_leaf=_peer(folder).settings.min_leaf)
    checked = Parcel(**{**parcel, MODELS: models})
    site.state[RUN]["sent"] += checked.nbytes - parcel.nbytes
    return checked


app = client_app()
