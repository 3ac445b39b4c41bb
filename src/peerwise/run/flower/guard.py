"""The border of a site in both directions: what peers' models must pass before they run here, own ones before they
leave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from peerwise.data import Sequences, Site
from peerwise.errors import PeerwiseError, reason
from peerwise.exchange import LazyParcels, sizes_of
from peerwise.methods.pool_models import PEERS_LEFT_OUT, full_name
from peerwise.models.worker import Worker, contract
from peerwise.parcels import Parcel
from peerwise.parcels.gate import Gate, broke_the_worker, checked_models
from peerwise.run.one_turn import Told, Turn

TRIED = 256  # own rows on which a peer's model must keep its contract
MODELS = "models"  # the item of a parcel that holds ONNX files by name


@dataclass
class Guard:
    """Peers' ONNX files pass the gate, then run in the ``worker`` alone. One that is refused is left out, and noted."""

    site: Site
    worker: Worker
    left_out: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.site.opener = self.worker.open

    def admitted(self, told: Told | None) -> Told | None:
        """What was told, without the models that may not be run here; parcels are read when they are asked for."""
        if told is None:
            return None
        newest, what = told
        if isinstance(what, Parcel):
            return newest, self._passed("hub", what)

        def read(sender: str) -> Parcel:
            return what[sender] if sender == self.site.name else self._passed(sender, what[sender])

        return newest, LazyParcels(sizes_of(what), read)

    def noted(self, turn: Turn) -> Turn:
        """With what was refused in the states, beside what the method itself had to do without."""
        for state in (turn.state, turn.best):
            if self.left_out and state is not None:
                state[PEERS_LEFT_OUT] = {**state.get(PEERS_LEFT_OUT, {}), **self.left_out}
        return turn

    def _passed(self, sender: str, parcel: Parcel) -> Parcel:
        if MODELS not in parcel:
            return parcel
        models = checked_models(parcel[MODELS], sender)
        mine = inputs_of(self.site)
        # A method that matches columns by name says which the model takes, and feeds it those.
        columns = parcel.get("features")
        inputs = {"x": (len(columns),)} if self.site.kind == "table" and isinstance(columns, list) else mine
        gate, passed, broken = Gate(self.worker), {}, ""
        for name, data in models.items():
            if broken:
                self.left_out[full_name(name, sender)] = f"not looked at, because of {broken!r} of the same site"
                continue
            try:
                gate.check(data, inputs=inputs, classes=len(self.site.classes))
                if inputs == mine:
                    rows = (self.site.val if len(self.site.val) else self.site.train).X[:TRIED]
                    contract(self.worker.open(data, full_name(name, sender)), rows, len(self.site.classes))
                passed[name] = data
            except PeerwiseError as error:
                self.left_out[full_name(name, sender)] = reason(error)
                broken = name if broke_the_worker(error) else ""
        return Parcel(**{**parcel, MODELS: passed})


def inputs_of(site: Site) -> dict[str, tuple[int, ...]]:
    """What one of its rows looks like to a model."""
    X = site.train.X
    if isinstance(X, Sequences):
        return {"static": X.static.shape[1:], "series": X.series.shape[1:]}
    return {"x": np.asarray(X).shape[1:]}


def may_leave(parcel: Parcel, site: Site, min_leaf: int) -> Parcel:
    """The parcel as it leaves a real site: models without texts that they do not need; one that holds rows, or tells of
    few, is refused with all the rest."""
    from peerwise.parcels.egress import cleaned, inspect

    models: Any = parcel.get(MODELS)
    if not isinstance(models, Mapping):
        return parcel
    clean = {name: cleaned(data) for name, data in models.items()}
    for data in clean.values():
        inspect(data, site.train, min_leaf=min_leaf)
    return Parcel(**{**parcel, MODELS: clean})
