"""What peers send is checked once, before a method sees it: a sender of anything unusable is left out and named."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.errors import ParcelError, reason
from peerwise.federation.method import Inbox, Memory, Method
from peerwise.parcels import LazyParcels, Parcel, sizes_of

PEERS_LEFT_OUT = "peers_left_out"  # within a site's state: why it does without a model@site, or all of a site (*@site)
LONGEST_REASON = 300  # characters, as it may quote what a peer has sent

Facts = tuple[tuple[str, Hashable], ...]


def full_name(model: str, site: str) -> str:
    return f"{model}@{site}"


def usable(method: Method, inbox: Inbox, memory: Memory) -> tuple[Inbox, dict[str, str]]:
    """The parcels that the method can use, as its ``read_parcel`` returns them, and why it does without other senders.

    Each is read here and again when the method asks for it, so that those of many sites are never in memory together.
    """
    if method.largest_number is None:
        return inbox, {}
    senders: dict[Facts, list[str]] = {}
    left_out: dict[str, str] = {}
    for sender in sorted(inbox):
        try:
            facts = _facts(method, inbox[sender], memory)
        except (OSError, MemoryError):  # of this machine, not of the sender
            raise
        except Exception as error:  # whatever a peer may send
            left_out[sender] = reason(error)[:LONGEST_REASON]
        else:
            senders.setdefault(facts, []).append(sender)
    most = max(senders, key=lambda facts: len(senders[facts]), default=())
    for facts in senders:
        if facts != most:
            why = _difference(dict(facts), dict(most), len(senders[most]))[:LONGEST_REASON]
            left_out |= dict.fromkeys(senders[facts], why)
    sizes = sizes_of(inbox)
    found = {sender: sizes[sender] for sender in senders.get(most, ())}
    return LazyParcels(found, lambda sender: method.read_parcel(inbox[sender], memory)), left_out


def shapes(arrays: Any) -> dict[str, tuple[int, ...]]:
    """The shapes of arrays by name, for `Method.must_agree`; anything else is refused."""
    if not isinstance(arrays, dict):
        raise ParcelError(f"a {type(arrays).__name__}: expected arrays by name.")
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise ParcelError(f"{name[:80]!r} is a {type(array).__name__}: expected an array.")
    return {name: array.shape for name, array in arrays.items()}


def _facts(method: Method, parcel: Parcel, memory: Memory) -> Facts:
    assert method.largest_number is not None
    _check_numbers(parcel, method.largest_number, "the parcel")
    read = method.read_parcel(parcel, memory)
    if read is not parcel:
        _check_numbers(read, method.largest_number, "the parcel")
    return tuple(sorted(method.must_agree(read).items()))


def _check_numbers(item: Any, largest: float, what: str) -> None:
    """Refuse what would carry every net that learns from it to infinity. Bytes that are read later are passed over."""
    if isinstance(item, np.ndarray):
        _check_array(item, largest, what)
    elif isinstance(item, dict | Parcel):
        for name, part in item.items():
            _check_numbers(part, largest, repr(name[:80]))
    elif isinstance(item, list | tuple):
        for part in item:
            _check_numbers(part, largest, what)
    elif isinstance(item, float) and not math.isfinite(item):
        raise ParcelError(f"{what} is {item}: expected a finite number.")


def _check_array(array: NDArray[Any], largest: float, what: str) -> None:
    if array.dtype.kind not in "fiub":
        raise ParcelError(f"{what} is of {array.dtype}: expected numbers.")
    if not array.size:
        return
    if array.dtype.kind == "f" and array.flags.c_contiguous:  # one pass for what is nearly always so
        flat = array.reshape(-1)
        with np.errstate(over="ignore", invalid="ignore"):
            if np.dot(flat, flat) <= min(largest, 1e9) ** 2:
                return
    low, high = array.min(), array.max()  # NaN, where there is any
    if not np.isfinite([low, high]).all():
        raise ParcelError(f"{what} holds non-finite values.")
    if not (low >= -largest and high <= largest):
        raise ParcelError(f"{what} holds numbers from {low} to {high}: expected {largest:g} at most.")


def _difference(found: dict[str, Hashable], most: dict[str, Hashable], count: int) -> str:
    """One thing that is not as most senders have it."""
    name = min(name for name in {*found, *most} if found.get(name) != most.get(name))
    mine, theirs = (str(facts.get(name, "missing"))[:80] for facts in (found, most))
    return f"{name[:80]!r} is {mine}: expected {theirs}, as {count} sites sent it."
