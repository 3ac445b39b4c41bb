"""One encoding for all that is kept or sent: a tree of JSON values, arrays and bytes, without code.

``pack`` turns a tree into a JSON manifest and blobs addressed by sha256: every array in one safetensors blob, every
bytes value (a model) in a blob of its own, so that equal models are stored once. ``unpack`` is its inverse.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from peerwise.errors import ParcelError

Blobs = dict[str, bytes]

# what safetensors can hold
ARRAY_TYPES = {"bool", "float16", "float32", "float64"} | {
    f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)
}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def pack(tree: Mapping[str, Any]) -> tuple[bytes, Blobs]:
    """The manifest (canonical JSON) and the blobs of a tree."""
    arrays: dict[str, NDArray[Any]] = {}
    blobs: Blobs = {}
    body = _encode(tree, arrays, blobs, "")
    manifest = {"format": 1, "body": body, "arrays": None}
    if arrays:
        data = save_arrays(arrays)
        manifest["arrays"] = sha256(data)
        blobs[sha256(data)] = data
    return json.dumps(manifest, sort_keys=True, separators=(",", ":"), allow_nan=False).encode(), blobs


def blob_names(manifest: bytes) -> list[str]:
    """The sha256 of every blob that a manifest needs."""
    parsed = _parse(manifest)
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


def unpack(manifest: bytes, blobs: Mapping[str, bytes]) -> dict[str, Any]:
    """The tree again; a blob that is missing or whose bytes do not match its name is refused."""
    for name in blob_names(manifest):
        if name not in blobs:
            raise ParcelError(
                f"blob {name[:12]} is missing: expected every blob that the manifest names. Fetch it again."
            )
        if sha256(blobs[name]) != name:
            raise ParcelError(
                f"blob {name[:12]} does not match its sha256: it was changed or cut short. Fetch it again."
            )
    parsed = _parse(manifest)
    try:
        arrays = load_arrays(blobs[parsed["arrays"]]) if parsed["arrays"] is not None else {}
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ParcelError(f"the arrays blob is not safetensors ({error}): expected what Peerwise writes.") from error
    try:
        tree = _decode(parsed["body"], arrays, blobs)
    except RecursionError as error:
        raise ParcelError("the manifest is nested too deeply: expected what Peerwise writes.") from error
    if not isinstance(tree, dict):
        raise ParcelError(f"the manifest holds a {type(tree).__name__}: expected an object of named items.")
    return tree


def _parse(manifest: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(manifest)
    except (ValueError, RecursionError) as error:
        raise ParcelError(
            f"the manifest is not JSON ({error}): it was changed or cut short. Fetch it again."
        ) from error
    if not isinstance(parsed, dict) or parsed.get("format") != 1 or set(parsed) != {"format", "body", "arrays"}:
        raise ParcelError("the manifest is not of format 1: expected the fields format, body and arrays.")
    return parsed


def _encode(node: Any, arrays: dict[str, NDArray[Any]], blobs: Blobs, path: str) -> Any:
    if isinstance(node, np.ndarray):
        return _encode_array(node, arrays, path)
    if isinstance(node, bytes):
        blobs[sha256(node)] = node
        return {"$blob": sha256(node)}
    if isinstance(node, np.generic) and node.dtype.name in ARRAY_TYPES:
        node = node.item()
    if isinstance(node, Mapping):
        for key in node:
            if not isinstance(key, str) or key.startswith("$"):
                raise ParcelError(f"{key!r} cannot name an item: expected text that does not start with '$'.")
        # In sorted order, because arrays are numbered as they come and equal trees must give equal manifests.
        return {key: _encode(node[key], arrays, blobs, f"{path}/{key}") for key in sorted(node)}
    if isinstance(node, list | tuple):
        return [_encode(value, arrays, blobs, f"{path}/{place}") for place, value in enumerate(node)]
    if isinstance(node, float) and not math.isfinite(node):
        raise ParcelError(f"{path} is {node}, which JSON cannot hold: put it into an array, or use None.")
    if node is None or isinstance(node, bool | int | float | str):
        return node
    raise ParcelError(f"{path or 'the tree'} is a {type(node).__name__}: expected JSON values, arrays or bytes.")


def _encode_array(array: NDArray[Any], arrays: dict[str, NDArray[Any]], path: str) -> dict[str, str]:
    if array.dtype.name not in ARRAY_TYPES:
        raise ParcelError(f"{path} is an array of {array.dtype}: expected numbers or booleans of at most 64 bits.")
    # A number, not the path: {"a/b": ...} and {"a": {"b": ...}} have the same path.
    name = str(len(arrays))
    arrays[name] = np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")
    return {"$array": name}


def _decode(node: Any, arrays: Mapping[str, NDArray[Any]], blobs: Mapping[str, bytes]) -> Any:
    if isinstance(node, dict):
        if "$array" in node:
            name = node["$array"]
            if not isinstance(name, str) or name not in arrays:
                raise ParcelError(f"array {name!r} is missing from the arrays blob: expected {sorted(arrays)}.")
            return arrays[name]
        if "$blob" in node:
            return blobs[node["$blob"]]
        return {key: _decode(value, arrays, blobs) for key, value in node.items()}
    if isinstance(node, list):
        return [_decode(value, arrays, blobs) for value in node]
    return node
