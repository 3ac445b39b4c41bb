"""Methods with many rounds whose every number depends on all that happened before; worker processes import this."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Rows, Site
from peerwise.methods import Method
from peerwise.parcels import Parcel


def chance_site(name: str, rows: int = 8, val: int = 6) -> Site:
    """Two classes by chance, its own chance."""

    def some(size: int, part: int) -> Rows:
        rng = np.random.default_rng([part, *name.encode()])
        return Rows(rng.normal(size=(size, 3)).astype(np.float32), rng.integers(0, 2, size))

    return Site(name, "table", ("no", "yes"), some(rows, 0), some(val, 1), some(7, 2))


def federation(sites: int) -> list[Site]:
    return [chance_site(f"site-{place}", rows=6 + place) for place in range(sites)]


class Drift(Method):
    """Weights that wander by chance, drawn to the mean; a site's answers change in every round.

    ``size`` numbers a site; ``fails``: {site: (step, round)}; a file in ``folder`` for each share, where one is given;
    the process is killed where ``kill`` says (site, round), once.
    """

    def __init__(
        self,
        rounds: int = 6,
        size: int = 5,
        fails: dict[str, tuple[str, int]] | None = None,
        folder: str = "",
        kill: tuple[str, int] | None = None,
        pause: float = 0.0,
    ) -> None:
        self.rounds, self.size, self.fails, self.folder = rounds, size, fails or {}, folder
        self.kill, self.pause = kill, pause

    def start(self, site: Site, rng: np.random.Generator) -> None:
        site.state |= {"w": rng.normal(size=self.size).astype(np.float32), "heard": []}

    def share(self, site: Site, round: int) -> Parcel:
        self._perhaps("share", site, round)
        site.state["w"] = site.state["w"] + site.rng(f"round {round}").normal(size=self.size).astype(np.float32)
        time.sleep(self.pause)
        return Parcel(w=site.state["w"])

    def combine(self, inbox: Any, memory: Any, rng: np.random.Generator) -> Any:
        memory = {"sum": memory.get("sum", 0.0) + float(rng.normal())}
        mean = sum(inbox[name]["w"] for name in inbox) / len(inbox)
        return Parcel(w=mean + np.float32(memory["sum"]), who=sorted(inbox)), memory

    def absorb(self, site: Site, round: int, inbox: Any) -> None:
        self._perhaps("absorb", site, round)
        site.state["w"] = (site.state["w"] + inbox["w"]) / 2
        site.state["heard"] = [*site.state["heard"], [round, list(inbox["who"])]]

    def predict_proba(self, site: Site, X: Any) -> NDArray[np.float64]:
        right = 1 / (1 + np.exp(-(np.asarray(X, np.float64) @ site.state["w"][:3].astype(np.float64))))
        return np.stack([1 - right, right], axis=1)

    def curves(self, site: Site) -> dict[str, float]:
        return {"first": float(site.state["w"][0]), "undefined": float("nan")}

    def privacy(self, site: Site) -> dict[str, Any] | None:
        return {"epsilon": 0.5 * len(site.state["heard"]), "rounds": len(site.state["heard"])}

    def _perhaps(self, step: str, site: Site, round: int) -> None:
        if self.folder and step == "share":
            (Path(self.folder) / f"{site.name}.{round}.{time.monotonic_ns()}").touch()
        if step == "share" and self.kill == (site.name, round) and not (mark := Path(self.folder) / "killed").exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fails.get(site.name) == (step, round) and "MENDED" not in os.environ:
            raise ArithmeticError(f"{step} {round} diverged")


class Gossip(Drift):
    """No combine of its own: everybody hears everybody's parcels."""

    combine = Method.combine  # type: ignore[assignment]

    def absorb(self, site: Site, round: int, inbox: Any) -> None:
        site.state["w"] = sum(inbox[name]["w"] for name in inbox) / len(inbox)
        site.state["heard"] = [*site.state["heard"], [round, list(inbox)]]


class Letters(Drift):
    """Each site that spoke, but the last of them, is told something of its own."""

    addresses_sites = True

    def combine(self, inbox: Any, memory: Any, rng: np.random.Generator) -> Any:
        return {name: Parcel(w=-inbox[name]["w"], who=[name]) for name in sorted(inbox)[:-1]}, memory


class Silent(Drift):
    """Says nothing."""

    combine = Method.combine  # type: ignore[assignment]

    def share(self, site: Site, round: int) -> Parcel:
        super().share(site, round)
        return Parcel()

    def absorb(self, site: Site, round: int, inbox: Any) -> None:
        assert not inbox


class InPlace(Drift):
    """Changes what lies in its state where it lies. With ``interrupt``, a file that is not there yet, Ctrl-C comes at
    site-1 in round 2."""

    def __init__(self, interrupt: str = "") -> None:
        super().__init__()
        self.interrupt = interrupt

    def start(self, site: Site, rng: np.random.Generator) -> None:
        super().start(site, rng)
        site.state |= {"shares": {"number": 0}}

    def share(self, site: Site, round: int) -> Parcel:
        site.state["shares"]["number"] += 1
        if self.interrupt and (site.name, round) == ("site-1", 2) and not Path(self.interrupt).exists():
            Path(self.interrupt).touch()
            raise KeyboardInterrupt
        return super().share(site, round)

    def curves(self, site: Site) -> dict[str, float]:
        return {"shares": site.state["shares"]["number"]}


class Unsaved(Drift):
    """What it keeps at site-1 from round 2 on can be saved by nobody."""

    def __init__(self, kept: str = "set") -> None:
        super().__init__()
        self.kept = kept

    def share(self, site: Site, round: int) -> Parcel:
        if site.name == "site-1" and round == 2:
            site.state["odd"] = {"set": {1, 2}, "nan": float("nan")}[self.kept]
        return super().share(site, round)


class CountsNeighbors(Drift):
    """Its answers depend on how many sites are asked together."""

    def predict_proba_together(self, sites: Sequence[Site], inputs: Sequence[Any]) -> list[NDArray[np.float64]]:
        return [self.predict_proba(site, X) / len(sites) for site, X in zip(sites, inputs, strict=True)]


class Unborn(Drift):
    """Cannot start at site-1."""

    def start(self, site: Site, rng: np.random.Generator) -> None:
        if site.name == "site-1":
            raise ArithmeticError("no beginning")
        super().start(site, rng)
