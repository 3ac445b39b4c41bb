"""Peers' models run in a process of their own, which may do next to nothing and is ended when it hangs."""

from peerwise.models.worker.contract import contract
from peerwise.models.worker.limits import Limits
from peerwise.models.worker.parent import Worker, WorkerModel

__all__ = ["Limits", "Worker", "WorkerModel", "contract", "isolation"]


def isolation() -> dict[str, str]:
    """Each layer between a stranger's model and this machine: "on", or why it is not, as a child has found it."""
    with Worker() as worker:
        return worker.isolation()
