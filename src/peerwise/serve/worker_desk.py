"""What desks have in common whose peers' models run in a worker of their own."""

from __future__ import annotations

from typing import Any

from peerwise.models.worker import Worker
from peerwise.serve.desk import About, Desk


class WorkerDesk(Desk):
    """``peers``: the lines that `Desk.peers` tells. The worker ends with the desk."""

    def __init__(self, about: About, worker: Worker, peers: list[dict[str, Any]]) -> None:
        self.about, self._worker, self._peers = about, worker, peers

    def peers(self) -> list[dict[str, Any]]:
        return self._peers

    def revive(self) -> bool:
        return self._worker.revive()

    @property
    def restarts(self) -> int:
        return max(0, self._worker.started - 1)

    def close(self) -> None:
        self._worker.close()
