"""The libraries of the optional extra ``privacy``, imported when something private is first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from peerwise.errors import ConfigError


def privacy_library(module: str) -> Any:
    """A module of opacus or dp-accounting."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{error.name} is not installed, and privacy needs it: pip install 'peerwise[privacy]', or switch privacy "
            "off."
        ) from error
