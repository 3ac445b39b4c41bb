"""ONNX files from fitted models: torch and sklearn converters, the common "logits" output, fixed versions."""

from __future__ import annotations

import copy
import io
import json
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import torch
from onnx import ModelProto, TensorProto, helper, numpy_helper
from torch import Tensor, nn

from peerwise.errors import ModelError
from peerwise.models.outputs import FLOOR

OPSET, ML_OPSET, IR_VERSION = 17, 3, 8


def torch_graph(
    net: nn.Module, example: tuple[Tensor, ...], names: Sequence[str], output: str = "logits"
) -> ModelProto:
    """``net`` as ONNX, for any number of rows."""
    net = copy.deepcopy(net).cpu().eval()
    example = tuple(tensor.detach().cpu() for tensor in example)
    buffer: Any = io.BytesIO()
    options: dict[str, Any] = {
        "input_names": list(names),
        "output_names": [output],
        "dynamic_axes": {name: {0: "rows"} for name in (*names, output)},
        "opset_version": OPSET,
    }
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        try:
            torch.onnx.export(net, example, buffer, dynamo=False, **options)
        except Exception as legacy:
            buffer = io.BytesIO()
            try:
                torch.onnx.export(net, example, buffer, dynamo=True, verbose=False, **options)
            except Exception as error:
                raise ModelError(
                    f"{type(net).__name__} cannot be written as ONNX ({first_line(legacy)}). Use plain torch "
                    "operations in forward(), or install onnxscript for the newer exporter."
                ) from error
    return onnx.load_from_string(buffer.getvalue())


def probabilities_to_logits(model: ModelProto, present: Sequence[int], classes: int) -> ModelProto:
    """Replace the outputs by one "logits" ``(rows, classes)``: log of probabilities, absent classes at the floor.

    ``present`` gives the class code of each probability column; a matrix of zeros and ones puts it there.
    """
    graph = model.graph
    source = next(item.name for item in graph.output if "prob" in item.name.lower())
    place = np.zeros((len(present), classes), dtype=np.float32)
    place[np.arange(len(present)), np.asarray(present)] = 1.0
    constants = {"tail_place": place, "tail_floor": np.array([FLOOR], dtype=np.float32)}
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    # operators as old as these mean the same in every opset, and converters choose the opset themselves
    graph.node.extend(
        [
            helper.make_node("MatMul", [source, "tail_place"], ["tail_all"], name="tail_scatter"),
            helper.make_node("Max", ["tail_all", "tail_floor"], ["tail_clipped"], name="tail_clip"),
            helper.make_node("Log", ["tail_clipped"], ["logits"], name="tail_log"),
        ]
    )
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["rows", classes]))
    return model


def chain(first: ModelProto, second: ModelProto, link: str) -> ModelProto:
    """``second`` after ``first``: the output ``link`` of the one is the input ``link`` of the other."""
    for model in (first, second):
        model.ir_version = IR_VERSION
    return onnx.compose.merge_models(first, second, io_map=[(link, link)])


def finished(model: ModelProto, *, classes: Sequence[Any] | None = None, features: Sequence[str] = ()) -> bytes:
    """The file's bytes: one IR version, nothing about the machine that wrote it, names in the metadata."""
    model.ir_version = IR_VERSION
    model.producer_name, model.producer_version, model.domain, model.doc_string = "peerwise", "", "", ""
    model.graph.name, model.graph.doc_string = "model", ""
    for node in model.graph.node:
        node.doc_string = ""
        del node.metadata_props[:]  # an exporter's notes, such as the lines of code that a node comes from
    meta = {"classes": json.dumps([_plain(value) for value in classes])} if classes is not None else {}
    if features:
        meta["features"] = json.dumps(list(features))
    del model.metadata_props[:]
    helper.set_model_props(model, meta)
    opsets = sorted({(item.domain, item.version) for item in model.opset_import})
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in opsets)
    return bytes(model.SerializeToString(deterministic=True))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
