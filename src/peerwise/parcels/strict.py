"""JSON from strangers, read strictly and within bounds, and the one way in which Peerwise writes what it signs."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any

import numpy as np

from peerwise.errors import ParcelError

MOST_BYTES = 1 << 20
MOST_DEPTH = 32
MOST_VALUES = 100_000
MOST_BITS = 64

# To the end where a string is not closed, so that the search never starts anew inside it and stays linear.
_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def canonical(value: Any) -> bytes:
    """The one encoding of a JSON value: sorted names, no spaces, UTF-8.

    >>> canonical({"b": [1, 2.5, None], "a": "ö"}).decode()
    '{"a":"ö","b":[1,2.5,null]}'
    """
    _text_names(value)
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
        data = text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ParcelError(
            f"a {type(value).__name__} cannot be written as JSON ({error}): expected text, finite numbers, true, "
            f"false, null, lists, and objects of these by name."
        ) from error
    return data


def strict_json(
    data: bytes,
    *,
    most_bytes: int = MOST_BYTES,
    most_depth: int = MOST_DEPTH,
    most_values: int = MOST_VALUES,
    most_bits: int = MOST_BITS,
    what: str = "what came",
) -> Any:
    """The value, or ParcelError: whatever two readers might understand differently, or one could choke on, is refused.

    That is: a name twice in one object, NaN and infinities (also by overflow), invalid UTF-8, half surrogate pairs,
    whole numbers of more than ``most_bits``, anything after the value, and more bytes, values or nesting than allowed.

    >>> strict_json(b'{"a": [1, 2]}')
    {'a': [1, 2]}
    """
    bounded(data, most_bytes=most_bytes, most_depth=most_depth, most_values=most_values, what=what)
    try:
        value = json.loads(
            data.decode(),
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_whole(most_bits),
        )
        if _SURROGATE.search(data):
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ParcelError(f"{what} is not JSON ({error}): it was changed or cut short. Fetch it again.") from error
    return value


def bounded(data: bytes, *, most_bytes: int, most_depth: int, most_values: int, what: str) -> None:
    """Refuse JSON text beyond these bounds without parsing it, as parsing takes many times its size in memory."""
    if len(data) > most_bytes:
        raise ParcelError(f"{what} has {len(data)} bytes: expected at most {most_bytes}. Ask its sender for less.")
    bare = _STRINGS.sub(b"", data)
    opened, closed = (sum(map(bare.count, pair)) for pair in ((b"[", b"{"), (b"]", b"}")))
    values = 1 + opened + bare.count(b",")
    if values > most_values:
        raise ParcelError(f"{what} has {values} values: expected at most {most_values}. Ask its sender for less.")
    if opened != closed:
        raise ParcelError(f"{what} is not JSON (brackets are left open): it was changed or cut short. Fetch it again.")
    if opened > most_depth and (depth := _depth(bare)) > most_depth:
        raise ParcelError(f"{what} is nested {depth} deep: expected at most {most_depth}. Ask its sender for less.")


def _depth(bare: bytes) -> int:
    brackets = np.frombuffer(bare.translate(_STEPS, _NO_BRACKETS), np.int8)
    return int(brackets.cumsum(dtype=np.int32).max())


def _text_names(value: Any) -> None:
    """Other names would be made text without a word, and two of them might become the same."""
    nodes = [value]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            for name in node:
                if not isinstance(name, str):
                    raise ParcelError(f"{name!r} cannot name an item: expected text.")
            nodes.extend(node.values())
        elif isinstance(node, list | tuple):
            nodes.extend(node)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"the name {twice[:40]!r} is there twice")
    return found


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large for a number")
    return value


def _whole(most_bits: int) -> Any:
    most_digits = most_bits // 3 + 2

    def whole(text: str) -> int:
        if len(text) > most_digits or (value := int(text)).bit_length() > most_bits:
            raise ValueError(f"{text[:40]} is a whole number of more than {most_bits} bits")
        return value

    return whole
