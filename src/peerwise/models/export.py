"""Write a wrapped model as an ONNX file that gives the same answers, or say why that cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data.rows import Sequences
from peerwise.errors import ModelError
from peerwise.models.member import EstimatorMember, FittedMember, Member, OnnxMember, TorchMember
from peerwise.models.onnx_model import OnnxModel
from peerwise.models.wrap import wrap

TOLERANCE = 1e-5


def export(model: Any, example: Any, *, classes: Sequence[Any] | None = None, features: Sequence[str] = ()) -> bytes:
    """``model`` (or a `Member`) as an ONNX file with one output "logits" and its class names in the metadata.

    ``example``: some rows as the model takes them, an array, a DataFrame or Sequences. A DataFrame of numbers gives a
    file with one input, any other, or a pipeline that picks columns by name, one input a column; both find their
    columns by name. The file is run on these rows and refused if its answers differ by more than 1e-5, so give
    enough of them. A ``transform`` given to `wrap` is not part of the file: apply it there too.
    """
    member = wrap(model, classes=classes)
    if not len(example):
        raise ModelError(
            "example has no rows: give some rows as the model takes them, so that the file can be checked."
        )
    names = tuple(features) or tuple(str(column) for column in getattr(example, "columns", ()))
    data, inputs = _written(member, example, names)
    written = OnnxModel(data, name=member.name).predict_proba(inputs)
    difference = float(np.abs(written - member.predict_proba(example)).max())
    if difference > TOLERANCE:
        raise ModelError(
            f"the ONNX file of {member.name!r} differs from the model by {difference:.2g}, allowed is {TOLERANCE}: "
            "it computes in float32: fit the model on float32 inputs (X.astype('float32')), and impute missing values "
            "in a pipeline step."
        )
    return data


def _written(member: Member, example: Any, features: tuple[str, ...]) -> tuple[bytes, Any]:
    """The file, and the example as the file takes it."""
    from peerwise.models.onnx_graph import finished, probabilities_to_logits

    options: dict[str, Any] = {"classes": member.classes, "features": features}
    if isinstance(member, TorchMember):
        return _torch_file(member, example, options)
    if isinstance(member, FittedMember | OnnxMember):
        import onnx

        data = member.model.to_onnx() if isinstance(member, FittedMember) else member.model.data
        return finished(onnx.load_from_string(data), **options), member.inputs(example)
    if isinstance(member, EstimatorMember):
        inputs = member.inputs(example)
        graph = _estimator_graph(member.model, inputs)
        width = len(member.classes)
        return finished(probabilities_to_logits(graph, range(width), width), **options), inputs
    raise ModelError(
        f"{member.name!r} is a {type(member.model).__name__}, which has no ONNX form. Export a sklearn pipeline, "
        "an XGBClassifier or LGBMClassifier or a torch module, or keep this model at its own site."
    )


def _estimator_graph(model: Any, inputs: Any) -> Any:
    from peerwise.models.sklearn_onnx import sklearn_graph

    if hasattr(inputs, "columns") and all(_is_number(dtype) for dtype in inputs.dtypes):
        with suppress(ModelError):  # it picks columns by name
            return sklearn_graph(model, input_types(inputs.to_numpy()))
    return sklearn_graph(model, input_types(inputs))


def _torch_file(member: TorchMember, example: Any, options: dict[str, Any]) -> tuple[bytes, Any]:
    from peerwise.models.onnx_graph import finished, torch_graph

    made = tuple(tensor.cpu() for tensor in member.tensors(example))
    # traced on one row and checked on all: a value the tracer took for a constant shows as a difference
    first = tuple(tensor[:1] for tensor in made)
    if len(made) == 1:
        return finished(torch_graph(member.model, first, ("x",)), **options), made[0].numpy()
    if len(made) == 2:
        pair = Sequences(made[0].numpy(), made[1].numpy())
        return finished(torch_graph(member.model, first, ("static", "series")), **options), pair
    raise ModelError(f"{member.name!r} takes {len(made)} tensors: expected one, or two (static and series).")


def input_types(example: Any) -> list[tuple[str, Any]]:
    """One float input "x" for an array; for a DataFrame one input a column, text as text and all else as float."""
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    if not hasattr(example, "columns"):
        values: NDArray[Any] = np.asarray(example)
        return [("x", FloatTensorType([None, *values.shape[1:]]))]
    return [
        (str(column), FloatTensorType([None, 1]) if _is_number(dtype) else StringTensorType([None, 1]))
        for column, dtype in example.dtypes.items()
    ]


def _is_number(dtype: Any) -> bool:
    return bool(getattr(dtype, "kind", "O") in "fiub")
