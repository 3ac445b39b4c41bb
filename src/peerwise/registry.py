"""Everything that can be extended, by name: methods, learners, models, data sets, partitions and transports.

What is built in stands in one table for each kind, beside the things themselves. An installed package offers more by
entry points in the group of the kind, and ``module:Name`` names anything that Python can import:

    [project.entry-points."peerwise.partitions"]
    by_ward = "my_package.by_ward:by_ward"

A built-in name always means what is built in. A name offered by two packages is an error, and so is an entry point that
cannot be imported, but only for those who ask for it.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
import warnings
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, distributions, entry_points
from operator import attrgetter
from typing import Any

from peerwise.errors import ConfigError, choices, reason


@dataclass(frozen=True)
class Kind:
    """``word``: as messages call one. ``table``: where the built-in ones are, a mapping of names to things, or to where
    a thing is (``module:Name``), which is imported when it is first asked for."""

    word: str
    group: str
    table: str


KINDS = {
    "methods": Kind("method", "peerwise.methods", "peerwise.methods:METHODS"),
    "learners": Kind("learner", "peerwise.learners", "peerwise.trust:LEARNERS"),
    "models": Kind("model", "peerwise.models", "peerwise.models.zoo:ZOO"),
    "datasets": Kind("data set", "peerwise.datasets", "peerwise.data.loaders:DATASETS"),
    "partitions": Kind("partition", "peerwise.partitions", "peerwise.data.partitions:PARTITIONS"),
    "transports": Kind("transport", "peerwise.transports", "peerwise.transport:TRANSPORTS"),
}
_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_NAME = re.compile(r"\w[\w.-]*", re.ASCII)


@dataclass(frozen=True)
class Offer:
    """An entry point and the package that it comes from; ``rival``: another package that offers the same name."""

    entry: EntryPoint
    package: str
    rival: str = ""

    @property
    def origin(self) -> str:
        both = f"{self.package} and {self.rival}" if self.rival else self.package
        return f"{both} ({self.entry.value})"


def is_import_path(name: str) -> bool:
    """Whether a name says where a thing is, as ``module:Name``.

    >>> is_import_path("my_package.mine:Mine"), is_import_path("fedavg"), is_import_path("rows.csv")
    (True, False, False)
    """
    return _PATH.fullmatch(name) is not None


def built_in(*kinds: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind in kinds:
        found |= import_path(KINDS[kind].table)
    return found


def offered(*kinds: str) -> dict[str, Offer]:
    """What installed packages offer, by name. Nothing of theirs is imported."""
    return _offers(kinds, tuple(sys.path))


def registered_names(*kinds: str) -> list[str]:
    """Of all these kinds, sorted."""
    return sorted({*built_in(*kinds), *offered(*kinds)})


def is_registered(name: str, *kinds: str) -> bool:
    """Whether it is registered; a path is not asked for."""
    return name in built_in(*kinds) or name in offered(*kinds)


def find_registered(name: str, *kinds: str) -> Any:
    """The thing of this name: built in, offered by a package, or where its path says."""
    if name in (table := built_in(*kinds)):
        return import_path(table[name]) if isinstance(table[name], str) else table[name]
    word = KINDS[kinds[0]].word
    if is_import_path(name):
        return _imported(name, f"{word} {name!r}")
    if name in (packages := offered(*kinds)):
        return _loaded(packages[name], word)
    raise ConfigError(unknown(name, *kinds))


def unknown(name: str, *kinds: str) -> str:
    """The sentence for a name that is not registered.

    >>> unknown("my_module.by_ward", "transports")[-67:]
    "One of your own is 'module:Name': did you mean 'my_module:by_ward'?"
    """
    module, _, inside = name.rpartition(".")
    hint = f": did you mean '{module}:{inside}'?" if module else "."
    return f"{choices(name, registered_names(*kinds), KINDS[kinds[0]].word)} One of your own is 'module:Name'{hint}"


def origin_of(name: str, *kinds: str) -> str:
    """The package that a registered name comes from, and where it is there; empty for what is built in."""
    offer = offered(*kinds).get(name)
    return "" if offer is None else offer.origin


def registered_name(thing: Any, *kinds: str) -> str | None:
    """The name under which a class or function is registered; None where it is not."""
    end = f":{getattr(thing, '__name__', '')}"
    for name, there in built_in(*kinds).items():
        if there is thing or (isinstance(there, str) and there.endswith(end) and import_path(there) is thing):
            return name
    for name, offer in offered(*kinds).items():
        module, _, inside = offer.entry.value.partition(":")
        if not offer.rival and getattr(sys.modules.get(module), inside, None) is thing:
            return name
    return None


def path_of(thing: Any) -> str:
    """Where a class or function was defined; of another object, where its class was.

    >>> path_of(EntryPoint)
    'importlib.metadata:EntryPoint'
    """
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__}:{named.__qualname__}"


@lru_cache(maxsize=256)
def source_digest(thing: Any) -> str:
    """A digest of the file that it comes from, as it was when it was first asked for: later changes are not loaded."""
    for each in (inspect.getmodule(thing), thing):
        try:
            return hashlib.sha256(inspect.getsource(each).encode()).hexdigest()  # type: ignore[arg-type]
        except (OSError, TypeError):
            continue
    return ""


def import_path(path: str) -> Any:
    """What ``module:Name`` names."""
    module, _, name = path.partition(":")
    return attrgetter(name)(import_module(module))


def _imported(path: str, what: str) -> Any:
    module, _, name = path.partition(":")
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{what}: {reason(error)}: expected a module that Python finds. Install its package, or name its folder in "
            f"PYTHONPATH."
        ) from error
    except Exception as error:
        raise ConfigError(f"{what}: importing {module!r} failed ({reason(error)}). Correct that file.") from error
    try:
        return import_path(path)
    except AttributeError:
        raise ConfigError(f"{what}: {module!r} has no such name as {name!r}. Correct the name, or that file.") from None


def _loaded(offer: Offer, word: str) -> Any:
    name = offer.entry.name
    if offer.rival:
        raise ConfigError(
            f"{word} {name!r} is offered by {offer.package} and by {offer.rival}: remove one, or name 'module:Name'."
        )
    what = f"{word} {name!r}, offered by {offer.package}"
    if not is_import_path(offer.entry.value):
        raise ConfigError(f"{what}: its entry point is {offer.entry.value!r}, expected 'module:Name'.")
    return _imported(offer.entry.value, what)


@cache
def _offers(kinds: tuple[str, ...], paths: tuple[str, ...]) -> dict[str, Offer]:
    """Cached per ``sys.path``, because scanning installed metadata is slow."""
    known, found = built_in(*kinds), dict[str, Offer]()
    for group in (KINDS[kind].group for kind in kinds):
        for entry in _entries(group):
            package = entry.dist.name if entry.dist is not None else "a package"
            if entry.name in known or not _NAME.fullmatch(entry.name):
                why = "is built in" if entry.name in known else "is not of letters, digits, '.', '-' and '_'"
                warnings.warn(f"{package} offers {entry.name!r} in {group}, but that name {why}", stacklevel=2)
            elif (other := found.get(entry.name)) is None:
                found[entry.name] = Offer(entry, package)
            elif other.entry.value != entry.value:
                found[entry.name] = replace(other, rival=package)
    return found


def _entries(group: str) -> list[EntryPoint]:
    try:
        return list(entry_points(group=group))
    except Exception:  # one package's broken metadata fails them all
        pass
    found: dict[str, list[EntryPoint]] = {}  # by package: of two versions on the search path the first counts
    for distribution in distributions():
        try:
            entries = distribution.entry_points.select(group=group)
            found.setdefault(distribution.name, list(entries))
        except Exception as error:
            warnings.warn(f"the entry points of an installed package cannot be read: {reason(error)}", stacklevel=2)
    return [entry for entries in found.values() for entry in entries]
