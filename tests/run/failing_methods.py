"""Methods that fail at one site; in a module of their own, because worker processes import it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
from toy_methods import Mean

from peerwise.errors import ConfigError
from peerwise.methods import Local, OneShot
from peerwise.parcels import Parcel
from peerwise.trust import BestSingle

SITE = "site-1"


class FailsToShare(OneShot):
    """Raises before it shares, at one site or everywhere."""

    def __init__(self, where: str = SITE, mistake: str = "bad luck", folds: int = 5, epochs: int | None = None) -> None:
        super().__init__(BestSingle(), folds, epochs)
        self.where, self.mistake = where, mistake

    def share(self, site: Any, round: int) -> Any:
        if self.where in (site.name, "everywhere") and "MENDED" not in os.environ:
            raise ConfigError("wrong key") if self.mistake == "config" else ValueError(self.mistake)
        return super().share(site, round)


class FailsToLearn(OneShot):
    """Raises after it has learned, at one site: what it has in hand by then is not used."""

    def __init__(self, folds: int = 5, epochs: int | None = None) -> None:
        super().__init__(BestSingle(), folds, epochs)

    def absorb(self, site: Any, round: int, inbox: Any) -> None:
        super().absorb(site, round, inbox)
        if site.name == SITE:
            raise RuntimeError("no convergence")


class FailsToAnswer(Local):
    """Answers with NaN at one site."""

    def predict_proba(self, site: Any, X: Any) -> Any:
        return super().predict_proba(site, X) * (np.nan if site.name == SITE else 1.0)


class FailsInTheEnd(Mean):
    """Fails in its last round at one site, to share or to learn; says how many sites were heard."""

    def __init__(self, rounds: int = 4, step: str = "share") -> None:
        super().__init__(rounds)
        self.step = step

    def share(self, site: Any, round: int) -> Any:
        self._fail("share", site, round)
        return super().share(site, round)

    def combine(self, inbox: Any, memory: Any, rng: Any) -> Any:
        told, memory = super().combine(inbox, memory, rng)
        return Parcel(**told, heard=sorted(inbox)), memory

    def absorb(self, site: Any, round: int, inbox: Any) -> None:
        site.state["heard"] = list(inbox["heard"])
        self._fail("absorb", site, round)
        super().absorb(site, round, inbox)

    def curves(self, site: Any) -> dict[str, float]:
        return {"heard": len(site.state["heard"])}

    def _fail(self, step: str, site: Any, round: int) -> None:
        if (step, site.name, round) == (self.step, SITE, self.rounds - 1):
            raise ArithmeticError("diverged")


class Dies(Local):
    """Ends its process at one site, as the system does when memory runs out; a file in the folder for each time."""

    def __init__(self, folder: str = "", folds: int = 5, epochs: int | None = None) -> None:
        super().__init__(folds, epochs)
        self.folder = folder

    def share(self, site: Any, round: int) -> Any:
        if site.name == SITE:
            (Path(self.folder) / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().share(site, round)


class KilledAfterwards(OneShot):
    """Fails in one step at all sites but the last, or at that too; and the first time that the last one comes to this
    step, the process is killed. A file in the folder for each time that a site tries the step."""

    def __init__(
        self, folder: str = "", step: str = "share", last: str = "well", folds: int = 5, epochs: int | None = None
    ) -> None:
        super().__init__(BestSingle(), folds, epochs)
        self.folder, self.step, self.last = folder, step, last

    def share(self, site: Any, round: int) -> Any:
        self._try("share", site)
        return super().share(site, round)

    def absorb(self, site: Any, round: int, inbox: Any) -> None:
        self._try("absorb", site)
        super().absorb(site, round, inbox)

    def predict_with_details(self, site: Any, X: Any) -> Any:
        self._try("predict", site)
        return super().predict_with_details(site, X)

    def _try(self, step: str, site: Any) -> None:
        if step != self.step or "MENDED" in os.environ:
            return
        times = len(list(Path(self.folder).glob(f"{site.name}.*")))
        (Path(self.folder) / f"{site.name}.{times}").touch()
        if site.name == "site-2" and not times:
            os.kill(os.getpid(), signal.SIGKILL)
        if site.name != "site-2" or self.last == "fails":
            raise ArithmeticError(f"bad luck at {site.name}")
