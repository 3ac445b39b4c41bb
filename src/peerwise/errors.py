"""Everything Peerwise refuses, in one tree.

    PeerwiseError
    ├── DataError            rows, files, columns, labels that cannot be used
    │   ├── MissingData      a data set is not on disk and may not or could not be fetched
    │   ├── BrokenFile       truncated, wrong checksum, wrong format
    │   └── PartitionError   the promised split cannot be made
    ├── ModelError           a model that cannot be wrapped, trained, exported or run
    │   ├── ClassMismatch    a model's classes do not fit the site's
    │   ├── BadOutputs       wrong shape, non-finite values, rows that are no probabilities
    │   └── WorkerError      the process that runs peers' models died, hung or was at its limits
    ├── PoolError            an empty pool, two models of one name, an unknown own model
    ├── ParcelError          something that crossed a border and may not be read
    │   ├── NotTrusted       not signed, not by a member, too old, seen otherwise before, or changed on the way
    │   └── GateRefused      a model file that the gate does not let in
    ├── MayNotLeave          a model that holds rows it was trained on, or gives them away
    ├── ExchangeError        nobody could be reached, or too few in time
    ├── StorageError         a file that cannot be written: the disk is full, or the folder is not ours
    └── ConfigError          an unknown key, a value out of range, a method that is not there

Data, model, pool and configuration errors are also ``ValueError``, so scikit-learn's tools treat them as bad input;
a storage error is also an ``OSError``.
Every message carries the value, what was expected and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class PeerwiseError(Exception):
    """The root: catch this to catch everything Peerwise refuses."""


class DataError(PeerwiseError, ValueError):
    """Rows, files, columns or labels that cannot be used."""


class MissingData(DataError):
    """A data set is not on disk and may not or could not be fetched."""


class BrokenFile(DataError):
    """A file that is truncated, has the wrong checksum or the wrong format."""


class PartitionError(DataError):
    """The promised split cannot be made from these rows."""


class ModelError(PeerwiseError, ValueError):
    """A model that cannot be wrapped, trained, exported or run."""


class ClassMismatch(ModelError):
    """A model's classes do not fit the site's."""


class BadOutputs(ModelError):
    """Outputs of the wrong shape, with non-finite values, or that are no probabilities."""


class WorkerError(ModelError):
    """The process that runs peers' models died, hung or was at its limits."""


class PoolError(PeerwiseError, ValueError):
    """An empty pool, two models of one name, an unknown own model."""


class ParcelError(PeerwiseError):
    """Something that crossed a border and may not be read."""


class NotTrusted(ParcelError):
    """Not signed, not by a member, too old, seen otherwise before, or changed on the way."""


class GateRefused(ParcelError):
    """A model file that the gate does not let in."""


class MayNotLeave(PeerwiseError):
    """A model that holds rows it was trained on, or gives them away."""


class ExchangeError(PeerwiseError):
    """Nobody could be reached, or too few in time."""


class StorageError(PeerwiseError, OSError):
    """A file that cannot be written: the disk is full, or the folder is not ours."""


class ConfigError(PeerwiseError, ValueError):
    """An unknown key, a value out of range, a method that is not there."""


# Errors that abort the run; any other disables one site.
STOPS_A_RUN = (ConfigError, ParcelError, OSError, MemoryError)


def reason(error: BaseException) -> str:
    """One line for what went wrong: the kind of error and the first line that it says.

    >>> reason(ValueError("no rows\\nsecond line"))
    'ValueError: no rows'
    """
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0][:300]}" if said else type(error).__name__


def choices(value: object, known: Iterable[object], what: str) -> str:
    """One sentence for a name that is not known: the value, the nearest one, and all choices.

    >>> choices("dirichlt", ["exdir", "dirichlet"], "partition")
    "unknown partition 'dirichlt': did you mean 'dirichlet'? Choices: dirichlet, exdir."
    """
    names = sorted(str(name) for name in known)
    near = get_close_matches(str(value), names, n=1)
    hint = f": did you mean {near[0]!r}?" if near else "."
    return f"unknown {what} {str(value)!r}{hint} Choices: {', '.join(names)}."
