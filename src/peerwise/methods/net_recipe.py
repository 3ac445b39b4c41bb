"""Which of a site's models is the net that a method trains."""

from __future__ import annotations

from peerwise.data import Site
from peerwise.errors import DataError
from peerwise.models import ZOO, find_recipe


def net_recipe(site: Site, method: str) -> str:
    """The first of the site's models that is a neural network, for the method of this name."""
    for name in site.recipes:
        if find_recipe(name).by_epochs:
            return name
    nets = sorted(name for name, recipe in ZOO.items() if recipe.by_epochs and recipe.kind == site.kind)
    raise DataError(
        f"site {site.name!r} has no neural network among its models ({', '.join(site.recipes) or 'none'}): "
        f"{method} trains one by gradients. Choose one of {', '.join(nets)}, e.g. models={nets[0]!r}."
    )
