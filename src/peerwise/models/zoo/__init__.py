"""The zoo: what a site can train by name."""

from __future__ import annotations

from peerwise.errors import ConfigError, choices
from peerwise.models.recipe import Recipe
from peerwise.models.zoo import images, sequences, tables

ZOO: dict[str, Recipe] = {recipe.name: recipe for recipe in (*tables.RECIPES, *images.RECIPES, *sequences.RECIPES)}


def find_recipe(name: str) -> Recipe:
    """The recipe of this name, or an error with the choices."""
    if name not in ZOO:
        raise ConfigError(choices(name, ZOO, "model"))
    return ZOO[name]
