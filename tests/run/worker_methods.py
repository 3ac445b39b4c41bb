"""Methods that fail in a worker process; in a module of their own, because workers import it."""

from __future__ import annotations

import os
import signal
from typing import Any

from peerwise.methods import Local


class Raises(Local):
    """Raises at one site."""

    def share(self, site: Any, round: int) -> Any:
        if site.name == "site-1":
            raise ValueError("not at site-1")
        return super().share(site, round)


class Dies(Local):
    """Ends its process at one site, as the system does when memory runs out."""

    def share(self, site: Any, round: int) -> Any:
        if site.name == "site-1":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().share(site, round)
