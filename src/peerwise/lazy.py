"""Names that are imported when they are first used, so that only those who need a heavy library wait for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, places: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A package's ``__getattr__`` and ``__dir__``, given the module within it that holds each name; a module that holds
    its own name is meant as a whole."""

    def attribute(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{places[name]}")
        return module if places[name] == name else getattr(module, name)

    def names() -> list[str]:
        return sorted({*vars(import_module(package)), *places})

    return attribute, names
