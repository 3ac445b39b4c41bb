"""Centralised: the models that could be had if all rows lay in one place. For simulation only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Inputs, Rows, Sequences, Site, concatenate
from peerwise.federation.method import Inbox, Method
from peerwise.methods.own_models import mean_probabilities, own_models
from peerwise.parcels import Parcel


class Centralised(Method):
    """Each of the federation's recipes trained once on everybody's train rows, stopped on everybody's validation rows;
    p(y|x) = the mean of their probabilities. An upper reference, not a federated method: it moves the rows."""

    simulation_only = True
    largest_number = None  # rows may lack values

    def __init__(self, folds: int = 5, epochs: int | None = None) -> None:
        self.folds = folds
        self.epochs = epochs

    def share(self, site: Site, round: int) -> Parcel:
        return all_rows(site, site.recipes)

    def absorb(self, site: Site, round: int, inbox: Inbox) -> None:
        together = everybody(site, inbox)
        own = own_models(together, held_out=False, folds=self.folds, epochs=self.epochs)
        site.state["models"] = own.files
        # Trained once for all sites, so each site bears its share of the time.
        site.state["seconds"] = {"train": own.seconds / len(inbox)}

    def predict_proba(self, site: Site, X: Inputs) -> NDArray[np.float64]:
        return mean_probabilities(site, site.state["models"], X)


def all_rows(site: Site, recipes: Sequence[str]) -> Parcel:
    """A site's rows, and the names of its models."""
    return Parcel(recipes=list(recipes), train=_packed(site.train), val=_packed(site.val))


def everybody(site: Site, inbox: Inbox) -> Site:
    """A site that has the rows and models of all who sent `all_rows`."""
    senders = [inbox[name] for name in sorted(inbox)]
    return site.replace(
        name="everybody",
        train=_joined([_rows(parcel["train"]) for parcel in senders]),
        val=_joined([_rows(parcel["val"]) for parcel in senders]),
        recipes=tuple(dict.fromkeys(recipe for parcel in senders for recipe in parcel["recipes"])),
    )


def _packed(rows: Rows) -> dict[str, NDArray[np.generic]]:
    if isinstance(rows.X, Sequences):
        return {"static": rows.X.static, "series": rows.X.series, "y": rows.y}
    return {"x": rows.X, "y": rows.y}


def _rows(tree: dict[str, NDArray[np.generic]]) -> Rows:
    X = tree["x"] if "x" in tree else Sequences(tree["static"], tree["series"])  # type: ignore[arg-type]
    return Rows(X, tree["y"])  # type: ignore[arg-type]


def _joined(parts: list[Rows]) -> Rows:
    return Rows(concatenate([part.X for part in parts]), np.concatenate([part.y for part in parts]))
