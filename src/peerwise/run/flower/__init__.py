"""Any method as a Flower app (extra ``peerwise[flower]``): sites are Flower's clients, the hub is its server.

``client`` and ``server`` are the apps that read everything from the run's configuration, as `write_app` writes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from peerwise.lazy import lazy

if TYPE_CHECKING:
    from peerwise.run.flower.app_folder import write_app
    from peerwise.run.flower.at_hub import server, server_app
    from peerwise.run.flower.at_site import client, client_app
    from peerwise.run.flower.place import finished
    from peerwise.run.flower.settings import FlowerSettings

__all__ = ["FlowerSettings", "client", "client_app", "finished", "server", "server_app", "write_app"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "FlowerSettings": "settings",
            "client": "at_site",
            "client_app": "at_site",
            "finished": "place",
            "server": "at_hub",
            "server_app": "at_hub",
            "write_app": "app_folder",
        },
    )
