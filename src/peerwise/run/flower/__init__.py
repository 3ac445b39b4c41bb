"""Any method as a Flower app (extra ``peerwise[flower]``): sites are Flower's clients, the hub is its server.

``client.app`` and ``server.app`` read everything from the run's configuration, as `write_app` writes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from peerwise.lazy import lazy

if TYPE_CHECKING:
    from peerwise.run.flower.client import client_app, finished
    from peerwise.run.flower.server import server_app
    from peerwise.run.flower.settings import FlowerSettings, write_app

__all__ = ["FlowerSettings", "client_app", "finished", "server_app", "write_app"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "FlowerSettings": "settings",
            "client_app": "client",
            "finished": "client",
            "server_app": "server",
            "write_app": "settings",
        },
    )
