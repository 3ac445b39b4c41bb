"""Texts of a model file: those that it needs stay, all others go before it leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onnx import AttributeProto, ModelProto, TensorProto, helper

from peerwise.parcels.egress import graph

KEPT = ("classes", "features")
MOST, LONGEST = 1000, 200
_SETTINGS = ("nodes_modes", "activations", "keepdims")  # lists of settings, not of anything learned


def cleaned(data: bytes) -> bytes:
    """The same model without doc strings, metadata other than classes and features, names of nodes, and who made it.

    Its answers stay the same. Fields that ONNX does not know are dropped, too.
    """
    model = graph.opened(data)
    model.DiscardUnknownFields()
    kept = {item.key: item.value for item in model.metadata_props if item.key in KEPT}
    del model.metadata_props[:]
    helper.set_model_props(model, kept)
    model.producer_name, model.producer_version, model.domain, model.model_version = "peerwise", "", "", 0
    for part in _parts(model):
        part.doc_string = ""
        if hasattr(part, "metadata_props") and part is not model:
            del part.metadata_props[:]
    for node in graph.nodes(model):
        node.name = ""
    for number, inner in enumerate(graph.graphs(model.graph)):
        inner.name = f"graph{number}" if number else "model"
    return bytes(model.SerializeToString(deterministic=True))


def _parts(model: ModelProto) -> Iterator[Any]:
    """All that may carry a doc string."""
    yield model
    yield from model.functions
    for inner in graph.graphs(model.graph):
        yield inner
        for group in (inner.initializer, inner.input, inner.output, inner.value_info):
            yield from group
    for node in graph.nodes(model):
        yield node
        yield from node.attribute
    for _, tensor in graph.tensors(model):
        yield tensor


def strings(model: ModelProto) -> tuple[str, ...]:
    """Texts that the file holds apart from names of its parts: values of categories, class names, notes."""
    found = [item.value for item in model.metadata_props if item.key not in KEPT]
    found += [part.doc_string for part in _parts(model) if part.doc_string]
    for node in graph.nodes(model):
        for attribute in node.attribute:
            if attribute.type == AttributeProto.STRINGS and attribute.name not in _SETTINGS:
                found += [text.decode(errors="replace") for text in attribute.strings]
    for _, tensor in graph.tensors(model):
        if tensor.data_type == TensorProto.STRING:
            found += [text.decode(errors="replace") for text in tensor.string_data]
    return tuple(text[:LONGEST] for text in list(dict.fromkeys(found))[:MOST])
