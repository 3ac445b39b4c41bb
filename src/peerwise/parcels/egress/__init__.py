"""What may leave a site: what a model file holds of its rows, what an attack finds, and exactly what would be sent.

ONNX is imported when a file is first looked at.
"""

from typing import TYPE_CHECKING

from peerwise.lazy import lazy
from peerwise.parcels.egress.facts import Privacy, rows_bucket

if TYPE_CHECKING:
    from peerwise.parcels.egress.attack import Attack, lira, membership, recipe_fit, threshold
    from peerwise.parcels.egress.canaries import holds_rows
    from peerwise.parcels.egress.clean import cleaned
    from peerwise.parcels.egress.looking import Findings, inspect, look
    from peerwise.parcels.egress.preview import Item, contents

__all__ = [
    "Attack",
    "Findings",
    "Item",
    "Privacy",
    "cleaned",
    "contents",
    "holds_rows",
    "inspect",
    "lira",
    "look",
    "membership",
    "recipe_fit",
    "rows_bucket",
    "threshold",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            **dict.fromkeys(("Attack", "lira", "membership", "recipe_fit", "threshold"), "attack"),
            **dict.fromkeys(("Findings", "inspect", "look"), "looking"),
            **dict.fromkeys(("Item", "contents"), "preview"),
            "cleaned": "clean",
            "holds_rows": "canaries",
        },
    )
