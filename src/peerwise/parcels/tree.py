"""One encoding for all that is kept or sent: a tree of JSON values, arrays and bytes, without code.

``pack`` turns a tree into a JSON manifest and blobs addressed by sha256: every array in one safetensors blob, every
bytes value (a model) in a blob of its own, so that equal models are stored once. ``unpack`` is its inverse.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays

from peerwise.errors import ParcelError
from peerwise.parcels.flat import NAMES, flat_parts
from peerwise.parcels.later import Later, renamed
from peerwise.parcels.strict import bounded, strict_json

Blobs = dict[str, bytes]
Parts = Sequence[bytes | memoryview]
MOST_BYTES = 64 << 20
MOST_DEPTH = 100
MOST_VALUES = 5_000_000
MOST_SENT = 250_000  # values in the manifest of what others send, and in the header of its arrays: each takes memory
HALF_PAIR = re.compile("[\ud800-\udfff]")
MOST_BITS = 256  # the state of a random generator holds numbers of 128


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def pack(tree: Mapping[str, Any]) -> tuple[bytes, Blobs]:
    """The manifest (canonical JSON) and the blobs of a tree."""
    blobs: Blobs = {}
    manifest = pack_to(tree, lambda name, parts: blobs.setdefault(name, b"".join(parts)))
    return manifest, blobs


def packed_size(tree: Mapping[str, Any]) -> int:
    """The bytes of the manifest and blobs that `pack` would make, without making or hashing them."""
    form = _form(tree)
    if form not in _sizes:
        if len(_sizes) >= MOST_SIZES:
            _sizes.clear()
        _sizes[form] = _packed_size(tree)
    return _sizes[form]


_sizes: dict[Any, int] = {}  # by form: most parcels are like others
MOST_SIZES = 1024


def _form(node: Any) -> Any:
    """All that the size depends on."""
    if isinstance(node, np.ndarray):
        return node.dtype, node.shape
    if isinstance(node, Mapping):
        return tuple([(key, _form(value)) for key, value in node.items()])
    if isinstance(node, list | tuple):
        return type(node), *map(_form, node)
    if isinstance(node, bytes):
        return len(node), hash(node)  # equal ones count once
    return type(node), repr(node)


def _packed_size(tree: Mapping[str, Any]) -> int:
    blobs: dict[str, int] = {}
    arrays: dict[str, NDArray[Any]] = {}
    body = _encode(tree, arrays, lambda name, parts: blobs.setdefault(name, len(parts[0])), "", _equal_name)
    name = None
    if arrays:
        name = "arrays".rjust(64)
        blobs[name] = sum(map(len, flat_parts(arrays)))
    return len(_written({"format": 1, "body": body, "arrays": name})) + sum(blobs.values())


def _equal_name(parts: Parts) -> str:
    """As long as a sha256, and the same for equal bytes."""
    return f"{hash(parts[0]) & 0xFFFFFFFFFFFFFFFF:064x}"


def frozen(node: Any, path: str = "") -> Any:
    """What `unpack` would make of ``pack``'s result, in memory: names in order, lists and plain values, and arrays that
    nobody can change. Arrays that cannot be changed already are shared, all others copied."""
    if isinstance(node, np.ndarray):
        return _frozen_array(node, path)
    if isinstance(node, Mapping):
        check_names(node)
        return {key: frozen(node[key], f"{path}/{key}") for key in sorted(node)}
    if isinstance(node, list | tuple):
        return [frozen(value, f"{path}/{place}") for place, value in enumerate(node)]
    return node if isinstance(node, bytes) else plain_value(node, path)


def _cannot_change(array: NDArray[Any]) -> bool:
    base = array.base
    return not array.flags.writeable and not (isinstance(base, np.ndarray) and base.flags.writeable)


def _frozen_array(array: NDArray[Any], path: str) -> NDArray[Any]:
    if _cannot_change(array) and array.flags.c_contiguous and array.dtype.isnative and array.dtype in NAMES:
        return array
    found = np.array(array, dtype=native_dtype(array, path), order="C")
    found.flags.writeable = False
    return found


def pack_to(tree: Mapping[str, Any], keep: Callable[[str, Parts], object]) -> bytes:
    """The manifest; ``keep`` is given each blob as it comes, the arrays last, and what it does not keep need not be in
    memory together."""
    arrays: dict[str, NDArray[Any]] = {}
    body = _encode(tree, arrays, keep, "", sha256_of)
    name: str | None = None
    if arrays:
        data = flat_parts(arrays)
        _check_header(data[0][8:], MOST_VALUES)
        name = sha256_of(data)
        keep(name, data)
    written = _written({"format": 1, "body": body, "arrays": name})
    # What could not be read again must not be written.
    bounded(written, most_bytes=MOST_BYTES, most_depth=MOST_DEPTH, most_values=MOST_VALUES, what="the manifest")
    return written


def _written(manifest: Mapping[str, Any]) -> bytes:
    return json.dumps(manifest, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def sha256_of(parts: Parts) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(part)
    return total.hexdigest()


def blob_names(manifest: bytes, most_values: int = MOST_VALUES) -> list[str]:
    """The sha256 of every blob that a manifest needs."""
    return _blob_names(_parse(manifest, most_values))


def _blob_names(parsed: Mapping[str, Any]) -> list[str]:
    found: list[str] = [parsed["arrays"]] if parsed["arrays"] is not None else []
    nodes: list[Any] = [parsed["body"]]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            if "$blob" in node:
                found.append(node["$blob"])
            nodes.extend(node.values())
        elif isinstance(node, list):
            nodes.extend(node)
    for name in found:
        if not isinstance(name, str):
            raise ParcelError(f"the manifest names a blob {name!r}: expected its sha256. Fetch it again.")
    return sorted(set(found))


def narrowed(manifest: bytes, item: str) -> bytes:
    """The manifest of a tree with this one of its items, which may need fewer blobs."""
    parsed = _parse(manifest)
    if not isinstance(parsed["body"], dict) or item not in parsed["body"]:
        raise ParcelError(f"the manifest has no item {item!r}: expected a tree that has. Fetch it again.")
    parsed["body"] = {item: parsed["body"][item]}
    if "$array" not in _keys(parsed["body"]):
        parsed["arrays"] = None
    return json.dumps(parsed, sort_keys=True, separators=(",", ":")).encode()


def _keys(node: Any) -> set[str]:
    if isinstance(node, dict):
        return set(node).union(*map(_keys, node.values()))
    return set().union(*map(_keys, node)) if isinstance(node, list) else set()


def unpack(manifest: bytes, blobs: Mapping[str, bytes], most_values: int = MOST_VALUES) -> dict[str, Any]:
    """The tree again; a blob that is missing or whose bytes do not match its name is refused. Where ``blobs`` are for
    `Later`, so are the models of the tree: every item that holds nothing but bytes."""
    parsed = _parse(manifest, most_values)
    _verify(parsed, blobs)
    arrays = _arrays(blobs[parsed["arrays"]], most_values) if parsed["arrays"] is not None else {}
    try:
        tree = _decode(parsed["body"], arrays, blobs)
    except RecursionError as error:
        raise ParcelError("the manifest is nested too deeply: expected what Peerwise writes.") from error
    if not isinstance(tree, dict):
        raise ParcelError(f"the manifest holds a {type(tree).__name__}: expected an object of named items.")
    return tree


def _arrays(blob: bytes, most_values: int) -> dict[str, NDArray[Any]]:
    """Bounded before it is parsed: an array of no numbers takes a few bytes of the header and much more memory."""
    _check_header(blob[8 : 8 + int.from_bytes(blob[:8], "little")], most_values)
    try:
        arrays: dict[str, NDArray[Any]] = load_arrays(blob)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ParcelError(f"the arrays blob is not safetensors ({error}): expected what Peerwise writes.") from error
    for name, array in arrays.items():
        if array.dtype not in NAMES:
            raise ParcelError(f"array {name[:80]!r} is of {array.dtype}: expected numbers or booleans.")
    return arrays


def _check_header(header: bytes | memoryview, most_values: int) -> None:
    what = "the header of the arrays"
    bounded(bytes(header), most_bytes=MOST_BYTES, most_depth=4, most_values=most_values, what=what)


def _verify(parsed: Mapping[str, Any], blobs: Mapping[str, bytes]) -> None:
    for name in _blob_names(parsed):
        if name not in blobs:
            raise ParcelError(
                f"blob {name[:12]} is missing: expected every blob that the manifest names. Fetch it again."
            )
        if sha256(blobs[name]) != name:
            raise ParcelError(
                f"blob {name[:12]} does not match its sha256: it was changed or cut short. Fetch it again."
            )


def _parse(manifest: bytes, most_values: int = MOST_VALUES) -> dict[str, Any]:
    parsed = strict_json(
        manifest,
        most_bytes=MOST_BYTES,
        most_depth=MOST_DEPTH,
        most_values=most_values,
        most_bits=MOST_BITS,
        what="the manifest",
    )
    if not isinstance(parsed, dict) or parsed.get("format") != 1 or set(parsed) != {"format", "body", "arrays"}:
        raise ParcelError("the manifest is not of format 1: expected the fields format, body and arrays.")
    return parsed


def _encode(
    node: Any,
    arrays: dict[str, NDArray[Any]],
    keep: Callable[[str, Parts], object],
    path: str,
    named: Callable[[Parts], str],
) -> Any:
    if isinstance(node, np.ndarray):
        return _encode_array(node, arrays, path)
    if isinstance(node, bytes):
        name = named([node])
        keep(name, [node])
        return {"$blob": name}
    if isinstance(node, Mapping):
        check_names(node)
        # In sorted order, because arrays are numbered as they come and equal trees must give equal manifests.
        return {key: _encode(node[key], arrays, keep, f"{path}/{key}", named) for key in sorted(node)}
    if isinstance(node, list | tuple):
        return [_encode(value, arrays, keep, f"{path}/{place}", named) for place, value in enumerate(node)]
    return plain_value(node, path)


def check_names(node: Mapping[Any, Any]) -> None:
    for key in node:
        if not isinstance(key, str) or key.startswith("$") or HALF_PAIR.search(key):
            raise ParcelError(f"{key!r} cannot name an item: expected text that does not start with '$'.")


def plain_value(node: Any, path: str) -> Any:
    if (type(node) is float and math.isfinite(node)) or node is None or type(node) is bool:  # most are
        return node
    if isinstance(node, np.generic) and node.dtype.newbyteorder("=") in NAMES:
        node = node.item()
    if isinstance(node, float) and not math.isfinite(node):
        raise ParcelError(f"{path} is {node}, which JSON cannot hold: put it into an array, or use None.")
    if isinstance(node, str) and HALF_PAIR.search(node):
        raise ParcelError(f"{path} is text with half a surrogate pair: expected text that UTF-8 can hold.")
    if isinstance(node, int) and node.bit_length() > MOST_BITS:
        raise ParcelError(f"{path} is a whole number of {node.bit_length()} bits: expected at most {MOST_BITS}.")
    if node is None or isinstance(node, bool | int | float | str):
        return node
    raise ParcelError(f"{path or 'the tree'} is a {type(node).__name__}: expected JSON values, arrays or bytes.")


def _encode_array(array: NDArray[Any], arrays: dict[str, NDArray[Any]], path: str) -> dict[str, str]:
    # A number, not the path: {"a/b": ...} and {"a": {"b": ...}} have the same path.
    name = str(len(arrays))
    arrays[name] = np.asarray(array, dtype=native_dtype(array, path), order="C")
    return {"$array": name}


def native_dtype(array: NDArray[Any], path: str) -> np.dtype[Any]:
    native = array.dtype.newbyteorder("=")
    if native not in NAMES:
        raise ParcelError(f"{path} is an array of {array.dtype}: expected numbers or booleans of at most 64 bits.")
    return native


def _decode(node: Any, arrays: Mapping[str, NDArray[Any]], blobs: Mapping[str, bytes | memoryview]) -> Any:
    if isinstance(node, dict):
        if "$array" in node:
            name = node["$array"]
            if not isinstance(name, str) or name not in arrays:
                raise ParcelError(f"array {name!r} is missing from the arrays blob: expected {sorted(arrays)}.")
            return arrays[name]
        if "$blob" in node:
            return bytes(blobs[node["$blob"]])
        if isinstance(blobs, Later) and node and all(_is_blob(value) for value in node.values()):
            return renamed(blobs, {key: value["$blob"] for key, value in node.items()})
        check_names(node)  # what is read can be written again
        return {key: _decode(value, arrays, blobs) for key, value in node.items()}
    if isinstance(node, list):
        return [_decode(value, arrays, blobs) for value in node]
    return node


def _is_blob(node: Any) -> bool:
    return isinstance(node, dict) and set(node) == {"$blob"}
