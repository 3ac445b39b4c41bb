"""One encoding for all that is kept or sent: a tree of JSON values, arrays and bytes, without code.

``pack`` turns a tree into a JSON manifest and blobs addressed by sha256: every array in one safetensors blob, every
bytes value (a model) in a blob of its own, so that equal models are stored once. ``unpack`` is its inverse.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from peerwise.errors import ParcelError

Blobs = dict[str, bytes]


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
    found: list[str] = [parsed["arrays"]] if parsed["arrays"] else []
    nodes: list[Any] = [parsed["body"]]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            if "$blob" in node:
                found.append(str(node["$blob"]))
            nodes.extend(node.values())
        elif isinstance(node, list):
            nodes.extend(node)
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
        arrays = load_arrays(blobs[parsed["arrays"]]) if parsed["arrays"] else {}
    except SafetensorError as error:
        raise ParcelError(f"the arrays blob is not safetensors ({error}): expected what Peerwise writes.") from error
    tree = _decode(parsed["body"], arrays, blobs)
    if not isinstance(tree, dict):
        raise ParcelError(f"the manifest holds a {type(tree).__name__}: expected an object of named items.")
    return tree


def _parse(manifest: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(manifest)
    except ValueError as error:
        raise ParcelError(
            f"the manifest is not JSON ({error}): it was changed or cut short. Fetch it again."
        ) from error
    if not isinstance(parsed, dict) or parsed.get("format") != 1 or set(parsed) != {"format", "body", "arrays"}:
        raise ParcelError("the manifest is not of format 1: expected the fields format, body and arrays.")
    return parsed


def _encode(node: Any, arrays: dict[str, NDArray[Any]], blobs: Blobs, path: str) -> Any:
    if isinstance(node, np.ndarray):
        if node.dtype.kind not in "biuf":
            raise ParcelError(f"{path or 'the tree'} is an array of {node.dtype}: expected numbers or booleans.")
        arrays[path] = np.ascontiguousarray(node)
        return {"$array": path}
    if isinstance(node, bytes):
        blobs[sha256(node)] = node
        return {"$blob": sha256(node)}
    if isinstance(node, np.generic):
        return node.item()
    if isinstance(node, Mapping):
        for key in node:
            if not isinstance(key, str) or key.startswith("$"):
                raise ParcelError(f"{key!r} cannot name an item: expected text that does not start with '$'.")
        return {key: _encode(value, arrays, blobs, f"{path}/{key}") for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [_encode(value, arrays, blobs, f"{path}/{place}") for place, value in enumerate(node)]
    if node is None or isinstance(node, bool | int | float | str):
        return node
    raise ParcelError(f"{path or 'the tree'} is a {type(node).__name__}: expected JSON values, arrays or bytes.")


def _decode(node: Any, arrays: Mapping[str, NDArray[Any]], blobs: Mapping[str, bytes]) -> Any:
    if isinstance(node, dict):
        if "$array" in node:
            if node["$array"] not in arrays:
                raise ParcelError(f"array {node['$array']!r} is missing from the arrays blob.")
            return arrays[node["$array"]]
        if "$blob" in node:
            return blobs[node["$blob"]]
        return {key: _decode(value, arrays, blobs) for key, value in node.items()}
    if isinstance(node, list):
        return [_decode(value, arrays, blobs) for value in node]
    return node
