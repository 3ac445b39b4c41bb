"""What a Flower run is told: the method, who takes part, and how long a round may last."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, get_type_hints

from peerwise.errors import ConfigError
from peerwise.methods import Method, check_settings, make_method
from peerwise.models import ZOO
from peerwise.run.experiment import Experiment, experiment_from

NESTED = ("settings", "research")  # as JSON text, because Flower's configuration is flat
OF_MANY = ("methods", "method", "seeds", "subgroup", "tune", "join", "absent")  # what one run of one method cannot have
LOWEST = {"seed": 0, "nodes": 1, "quorum": 0, "deadline": 0}


@dataclass(frozen=True)
class FlowerSettings:
    """``settings`` are the method's own. ``nodes``: how many sites are waited for before the first round. A round ends
    when ``quorum`` of the sites have answered (0: all of them), or after ``deadline`` seconds with those that have.

    ``research``: keys of an `Experiment` that say which data set is shared out among the nodes, each of which is told
    its place by ``partition-id``; empty where every node holds the folder of a real site. ``out``: the folder, on the
    machine of the hub, for what is known of the run.
    """

    method: str = "peerwise"
    settings: dict[str, Any] = field(default_factory=dict)
    research: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    nodes: int = 1
    quorum: int = 0
    deadline: float = 3600.0
    out: str = ""

    def __post_init__(self) -> None:
        for key, least in LOWEST.items():
            if getattr(self, key) < least:
                raise ConfigError(f"{key} is {getattr(self, key)}: expected at least {least}.")
        if self.quorum > self.nodes:
            raise ConfigError(f"quorum is {self.quorum}: expected at most {self.nodes}, as there are nodes.")
        for key in OF_MANY:
            if key in self.research:
                raise ConfigError(
                    f"research.{key} is {self.research[key]!r}: a Flower run is of one method. Leave it out."
                )
        if self.research and not self.research.get("dataset"):
            raise ConfigError(f"research is {self.research}, without a data set: expected one, or none of this.")
        # A node runs no code by a name that a hub has sent.
        for name in self.experiment.models:
            if name not in ZOO:
                raise ConfigError(
                    f"research.models names {name!r}: expected models of the zoo, as the nodes are told them by the "
                    f"hub. Models of a site's own are named in its own folder."
                )

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> FlowerSettings:
        """From a run's configuration; what is unknown or of another type is refused."""
        found = {key: _nested(key, value) if key in NESTED else value for key, value in config.items()}
        check_settings(found, get_type_hints(cls), "the run's configuration")
        return cls(**found)

    def config(self) -> dict[str, Any]:
        """As Flower takes it: one level of numbers and texts."""
        return {key: json.dumps(value) if key in NESTED else value for key, value in asdict(self).items()}

    @property
    def experiment(self) -> Experiment:
        asked = {"dataset": "", **self.research, "methods": [self.method]}
        return experiment_from({**asked, **({"method": {self.method: self.settings}} if self.settings else {})})

    def make(self) -> Method:
        """The method as a simulation of the same experiment makes it."""
        experiment = self.experiment
        return make_method(
            self.method,
            {**self.settings, **(experiment.budget(self.method) or {})},
            folds=experiment.folds,
            epochs=experiment.epochs,
            sites=self.nodes,
            by_rounds=experiment.by_rounds,
        )


def _nested(key: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise ConfigError(f"{key} is {value[:80]!r}: expected an object in JSON, e.g. '{{}}' ({error}).") from error
