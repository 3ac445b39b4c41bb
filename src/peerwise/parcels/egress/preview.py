"""Exactly what would leave, item by item, as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays

from peerwise.errors import BrokenFile, ParcelError
from peerwise.parcels.egress import graph
from peerwise.parcels.strict import canonical, strict_json
from peerwise.parcels.tree import blob_names, sha256


@dataclass(frozen=True)
class Item:
    """One thing that leaves. ``kind``: "model", "arrays", "JSON", or "bytes" for what is none of these; ``holds``: the
    shapes of arrays, or the fields of JSON. ``operators`` and ``parameters`` are those of a model."""

    name: str
    kind: str
    bytes: int
    sha256: str
    holds: tuple[str, ...] = ()
    operators: Mapping[str, int] | None = None
    parameters: int | None = None


def contents(manifest_payload: Mapping[str, Any], blobs: Mapping[str, bytes]) -> list[Item]:
    """What a manifest and its blobs say, the manifest first. Its bytes are those of the payload, to which a signature
    of fixed length is added. Blobs that the manifest does not name, lacks or names otherwise are refused."""
    said = canonical(dict(manifest_payload))
    items = [Item("manifest", "JSON", len(said), sha256(said), tuple(sorted(manifest_payload)))]
    sizes: Mapping[str, int] = manifest_payload["blobs"]
    if dict(sizes) != {name: len(data) for name, data in blobs.items()}:
        odd = sorted(name[:12] for name in set(sizes) ^ set(blobs))
        raise ParcelError(
            f"the manifest names {len(sizes)} blobs, and {len(blobs)} are here (others: {odd}): expected the same, of "
            "the same sizes. Publish again."
        )
    names = _names(blobs[manifest_payload["parcel"]], manifest_payload["parcel"]) if sizes else {}
    for name, data in blobs.items():
        if sha256(data) != name:
            raise ParcelError(f"blob {name[:12]} does not match its sha256: it was changed. Publish again.")
        items.append(_item(names.get(name, "not named by the parcel"), name, data))
    return items


def _names(tree: bytes, own: str) -> dict[str, str]:
    """What the parcel calls each of its blobs."""
    needed = blob_names(tree)
    parsed = strict_json(tree, most_bytes=len(tree), most_values=10**7)
    names = {own: "parcel"}
    if parsed["arrays"] is not None:
        names[parsed["arrays"]] = "arrays"
    nodes: list[tuple[str, Any]] = [("", parsed["body"])]
    while nodes:
        path, node = nodes.pop()
        if isinstance(node, dict) and "$blob" in node:
            names[node["$blob"]] = path
        elif isinstance(node, dict):
            nodes.extend((f"{path}/{key}" if path else key, value) for key, value in node.items())
        elif isinstance(node, list):
            nodes.extend((f"{path}/{place}", value) for place, value in enumerate(node))
    return {name: names[name] for name in (own, *needed)}


def _item(name: str, digest: str, data: bytes) -> Item:
    about = (len(data), digest)
    if name == "parcel":
        return Item(
            name, "JSON", *about, tuple(sorted(strict_json(data, most_bytes=len(data), most_values=10**7)["body"]))
        )
    try:
        arrays = load_arrays(data)
        return Item(name, "arrays", *about, tuple(f"{key} {v.dtype} {v.shape}" for key, v in sorted(arrays.items())))
    except (SafetensorError, ValueError):
        pass
    try:
        model = graph.opened(data)
    except BrokenFile:
        return Item(name, "bytes", *about)
    operators = dict(sorted(Counter(node.op_type for node in graph.nodes(model)).items()))
    return Item(name, "model", *about, (), operators, graph.parameters(model))
