"""Small round-based methods whose every step can be seen in the state."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Rows, Site
from peerwise.methods import Method
from peerwise.parcels import Parcel


def toy_site(name: str, val: int = 4, level: float = 0.0, seed: int = 0) -> Site:
    """Two classes; every row is of class 1."""

    def rows(size: int) -> Rows:
        return Rows(np.full((size, 1), level, dtype=np.float32), np.ones(size, dtype=np.int64))

    return Site(name, "table", ("no", "yes"), rows(6), rows(val), rows(5), seed=seed)


class Countdown(Method):
    """Right in the rounds it is told to be right in, wrong in the others."""

    def __init__(self, right_in: dict[str, list[bool]]) -> None:
        self.right_in = right_in
        self.rounds = len(next(iter(right_in.values())))

    def absorb(self, site: Site, round: int, inbox: Any) -> None:
        site.state["round"] = round
        site.state["heard"] = [*site.state.get("heard", []), round]

    def predict_proba(self, site: Site, X: Any) -> NDArray[np.float64]:
        right = self.right_in[site.name][site.state["round"]]
        return np.tile([0.0, 1.0] if right else [1.0, 0.0], (len(X), 1))


class Mean(Method):
    """Sites say their level, all are told the mean (or each its own level with the sign turned)."""

    def __init__(self, rounds: int = 3, single: bool = False) -> None:
        self.rounds, self.single = rounds, single

    def start(self, site: Site, rng: np.random.Generator) -> None:
        site.state |= {"common": int(rng.integers(1 << 30)), "private": int(site.rng("x").integers(1 << 30))}
        site.state |= {"turns": [], "rngs": [], "mean": None}

    def share(self, site: Site, round: int) -> Parcel:
        return Parcel(level=np.asarray(site.train.X).mean(keepdims=True))

    def combine(self, inbox: Any, memory: Any, rng: np.random.Generator) -> Any:
        memory = {"turn": memory.get("turn", 0) + 1}
        told = {"turn": memory["turn"], "rng": int(rng.integers(1 << 30))}
        if self.single:
            return {name: Parcel(mean=-float(parcel["level"][0, 0]), **told) for name, parcel in inbox.items()}, memory
        return Parcel(mean=float(np.mean([parcel["level"] for parcel in inbox.values()])), **told), memory

    def absorb(self, site: Site, round: int, inbox: Any) -> None:
        told = inbox[site.name] if self.single else inbox
        site.state["mean"] = told["mean"]
        site.state["turns"] = [*site.state["turns"], told["turn"]]
        site.state["rngs"] = [*site.state["rngs"], told["rng"]]

    def predict_proba(self, site: Site, X: Any) -> NDArray[np.float64]:
        # Right from the second round on.
        certain = 0.35 + 0.1 * len(site.state["turns"]) + 1e-3 * abs(site.state["mean"])
        found = np.zeros((len(X), len(site.classes)))
        found[:, :2] = 1 - certain, certain
        return found
