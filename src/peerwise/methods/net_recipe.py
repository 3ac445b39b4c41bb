"""Which of a site's models is the net that a method trains."""

from __future__ import annotations

from peerwise.data import Site
from peerwise.errors import DataError
from peerwise.models import ZOO


def is_net(name: str) -> bool:
    """Whether methods can train it by gradients; a site's own function, which is not asked here, gives no such net."""
    return name in ZOO and ZOO[name].by_epochs


def net_recipe(site: Site, method: str) -> str:
    """The first of the site's models that is a neural network, for the method of this name."""
    for name in site.recipes:
        if is_net(name):
            return name
    nets = sorted(name for name, recipe in ZOO.items() if recipe.by_epochs and recipe.kind == site.kind)
    raise DataError(
        f"site {site.name!r} has no neural network among its models ({', '.join(site.recipes) or 'none'}): "
        f"{method} trains one by gradients. Choose one of {', '.join(nets)}, e.g. models={nets[0]!r}."
    )
