"""A look into an ONNX file of one's own: its operators, every number and text that it holds, what it makes of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from peerwise.data.rows import Inputs, Sequences
from peerwise.errors import BrokenFile, MayNotLeave, reason

SLICE = 1000
WIDEST = 4096  # values a row, of what the graph makes of it on its way
STANDARD = ("", "ai.onnx", "ai.onnx.ml")
_TYPES: dict[int, Any] = {
    TensorProto.FLOAT: np.float32,
    TensorProto.DOUBLE: np.float64,
    TensorProto.UINT8: np.uint8,
    TensorProto.INT64: np.int64,
    TensorProto.INT32: np.int32,
    TensorProto.BOOL: np.bool_,
}


def opened(data: bytes) -> ModelProto:
    try:
        model = onnx.load_from_string(data)
    except Exception as error:
        raise BrokenFile(f"{len(data)} bytes are no ONNX file ({reason(error)}): export the model again.") from error
    if not model.graph.node:
        raise BrokenFile(f"{len(data)} bytes hold no graph: expected an ONNX file. Export the model again.")
    return model


def graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """The graph and all that are within it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs) if attribute.type in _WITH_GRAPHS else ():
                yield from graphs(inner)


_WITH_GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


def nodes(model: ModelProto) -> Iterator[NodeProto]:
    for graph in graphs(model.graph):
        yield from graph.node
    for function in model.functions:
        yield from function.node


def tensors(model: ModelProto) -> Iterator[tuple[str, TensorProto]]:
    """Every tensor of the file, used or not, with the name of what holds it."""
    for graph in graphs(model.graph):
        for tensor in graph.initializer:
            yield tensor.name, tensor
        for sparse in graph.sparse_initializer:
            yield sparse.values.name, sparse.values
    for node in nodes(model):
        for attribute in node.attribute:
            for tensor in (attribute.t, *attribute.tensors):
                if tensor.data_type:
                    yield f"{node.op_type}.{attribute.name}", tensor
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                if sparse.values.data_type:
                    yield f"{node.op_type}.{attribute.name}", sparse.values


def numbers(model: ModelProto) -> Iterator[tuple[str, NDArray[Any]]]:
    """Every number of the file: tensors, and lists of numbers among the attributes, but for how trees are laid out."""
    for name, tensor in tensors(model):
        if tensor.data_type != TensorProto.STRING:
            yield name, array(tensor)
    for node in nodes(model):
        for attribute in node.attribute:
            if len(attribute.floats):
                yield f"{node.op_type}.{attribute.name}", np.array(attribute.floats, dtype=np.float32)
            elif len(attribute.ints) and not node.op_type.startswith("TreeEnsemble"):
                yield f"{node.op_type}.{attribute.name}", np.array(attribute.ints, dtype=np.int64)


def array(tensor: TensorProto) -> NDArray[Any]:
    if tensor.external_data or tensor.data_location == TensorProto.EXTERNAL:
        raise MayNotLeave(
            f"tensor {tensor.name!r} is kept in another file: expected all numbers in the model's own file, where they "
            "can be looked at. Export the model without external data."
        )
    return np.asarray(numpy_helper.to_array(tensor))


def parameters(model: ModelProto) -> int:
    return sum(values.size for _, values in numbers(model))


def row_values(model: ModelProto, X: Inputs) -> list[str]:
    """Names of what the graph makes of each row on its way: one line of at most `WIDEST` numbers a row."""
    made = [name for node in model.graph.node for name in node.output if name]
    found = []
    # The first row, twice and three times: what grows with the rows is a value of theirs.
    pairs = zip(made, *(run(model, made, X[np.zeros(rows, dtype=np.int64)]) for rows in (2, 3)), strict=True)
    for name, two, three in pairs:
        of_rows = (
            isinstance(two, np.ndarray) and two.dtype.kind == "f" and (two.shape[:1], three.shape[:1]) == ((2,), (3,))
        )
        if of_rows and 2 <= two[0].size <= WIDEST:
            found.append(name)
    return found


def run(model: ModelProto, names: Sequence[str], X: Inputs) -> list[Any]:
    """These values of the graph for all rows."""
    session = _session(model, names)
    try:
        parts = [session.run(list(names), feed(model, X[at : at + SLICE])) for at in range(0, len(X), SLICE)]
    except MayNotLeave:
        raise
    except Exception as error:
        raise _cannot_run(error) from error
    return parts[0] if len(parts) == 1 else [np.concatenate(values) for values in zip(*parts, strict=True)]


def feed(model: ModelProto, X: Inputs) -> dict[str, NDArray[Any]]:
    """Rows as the file takes them: one array, static and series, or one input a column in the order of the columns."""
    inputs = {item.name: item for item in _inputs(model)}
    given: dict[str, Any]
    if isinstance(X, Sequences):
        given = {"static": X.static, "series": X.series}
    elif len(inputs) == 1:
        given = {next(iter(inputs)): X}
    else:
        given = {name: X[:, place : place + 1] for place, name in enumerate(inputs) if place < X.shape[1]}
    strange = [name for name, item in inputs.items() if name not in given or _kind(item) not in _TYPES]
    if strange or len(given) != len(inputs):
        raise MayNotLeave(
            f"the file takes {list(inputs)}, which the training rows do not fill: expected inputs of numbers as in the "
            "rows, or what the model holds of them cannot be looked at. Export it with one input of numbers."
        )
    return {name: np.asarray(given[name]).astype(_TYPES[_kind(item)], copy=False) for name, item in inputs.items()}


def _inputs(model: ModelProto) -> list[onnx.ValueInfoProto]:
    stored = {tensor.name for tensor in model.graph.initializer}
    return [item for item in model.graph.input if item.name not in stored]


def _kind(item: onnx.ValueInfoProto) -> int:
    return int(item.type.tensor_type.elem_type)


def _session(model: ModelProto, names: Sequence[str]) -> Any:
    import onnxruntime as ort  # late: it starts a thread, which no process that forks should have

    cut = ModelProto()
    cut.CopyFrom(model)
    del cut.graph.output[:]
    cut.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    try:
        return ort.InferenceSession(cut.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise _cannot_run(error) from error


def _cannot_run(error: Exception) -> BrokenFile:
    return BrokenFile(
        f"the model cannot be run on its rows ({reason(error)}): expected a file that ONNX Runtime runs. Export it "
        "again."
    )
