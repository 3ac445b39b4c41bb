"""A finished run: its results, and what the test rows were answered with."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from peerwise.run.experiment import Experiment
from peerwise.run.runner import departures
from peerwise.run.score import Predictions, curves_of, site_row


@dataclass(frozen=True)
class Run:
    """A finished run: one row of ``results`` for each seed, method and site, and the folder they came from.

    ``predictions``: by (seed, method, site), what the test rows were answered with:

    * ``y`` (n,) and ``probabilities`` (n, classes)
    * ``details`` as the method gives them, empty where it has no pool: ``trust`` (n, models), ``fallback`` (n,),
      ``says`` (n, models; -1 for no answer), ``own`` (n, classes), ``models`` (names in column order)
    * ``subgroup``: a name for each row where the experiment has one, else None
    * ``label_counts`` (classes,): the site's train rows by class
    * ``fell_back``: None, or {"to", "why"} where training, learning or answering failed here and something simpler
      answered
    * ``peers_left_out``: reasons by model (``model@site``, ``*@site`` for all of a site's): peers' models that failed
      on this site's rows or could not be used here, so that the others answered without them
    * ``sent`` and ``received`` (bytes; None where nobody counted), ``seconds`` by phase
    * ``rounds`` of the method, ``took_part`` (the rounds in which the site shared), ``best_round`` (that answers), all
      counted from 0, ``lr`` where the method has a learning rate
    * ``curves``: by name, (round, value) after each round; ``privacy``: what the method guarantees here, or None

    ``curves``: the same as a table (``seed``, ``method``, ``site``, ``round``, ``name``, ``value``).
    ``classes`` in the order of their codes, ``features`` by name, ``kind`` of the rows. ``opened``: one decision, as
    `peerwise.run.opened` says; ``provenance``: see there.
    """

    experiment: Experiment
    results: pd.DataFrame
    folder: Path | None
    predictions: Predictions = field(default_factory=dict, repr=False)
    classes: tuple[str, ...] = ()
    features: tuple[str, ...] = field(default=(), repr=False)
    kind: str = ""
    opened: dict[str, Any] | None = field(default=None, repr=False)
    provenance: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def curves(self) -> pd.DataFrame:
        return curves_of(self.predictions)


def results_of(predictions: Predictions) -> pd.DataFrame:
    """One row for each seed, method and site."""
    return pd.DataFrame(
        {"seed": seed, "method": label, "site": site, **site_row(tree), **departures(tree)}
        for (seed, label, site), tree in predictions.items()
    )
