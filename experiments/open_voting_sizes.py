"""Table 6 of the FedSOV paper, counted: how large nets and parcels are. Nothing is trained."""

from __future__ import annotations

from functools import cache

import numpy as np

from peerwise.models.nets import net_weights, new_net
from peerwise.models.open_set.pruning import apply_masks, kept_count, largest, prunable
from peerwise.parcels import Parcel
from peerwise.parcels.sparse import sparse_weights

CLASSES = 10
GREY = np.zeros((1, 1, 28, 28), np.uint8)


@cache
def counted(outputs: int, sites: int) -> tuple[int, int]:
    """Parameters of one net with a ``sites``-th of its weights, and the bytes of its parcel."""
    net = new_net("simple_cnn", GREY, (), outputs, seed=0)
    total = sum(weight.numel() for weight in prunable(net).values())
    apply_masks(net, largest(net, kept_count(total, 1 - 1 / sites, 1, 1)))
    weights = net_weights(net)
    parameters = sum(int(np.count_nonzero(value)) for value in weights.values())
    return parameters, Parcel(recipe="simple_cnn", weights=sparse_weights(weights)).nbytes


def sizes(sites: int) -> dict[str, str]:
    """Of all nets together: parameters, and what one site sends."""
    averaged, sent = counted(CLASSES, 1)
    whole, once = counted(CLASSES + 1, 1)
    pruned, little = counted(CLASSES + 1, sites)
    return {
        "fedavg, fedgf: parameters": f"{averaged / 1000:.0f} k",
        "sent a site and round": f"{sent / 1000:.0f} kB",
        "fedov: parameters": f"{sites * whole / 1000:.0f} k",
        "sent a site": f"{once / 1000:.0f} kB",
        "fedsov: parameters": f"{sites * pruned / 1000:.0f} k",
        "sent a site ": f"{little / 1000:.0f} kB",
    }
