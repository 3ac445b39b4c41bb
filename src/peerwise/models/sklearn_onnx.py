"""ONNX from sklearn, xgboost and lightgbm, with tree thresholds that do not flip in float32."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from peerwise.errors import ModelError
from peerwise.models.onnx_graph import ML_OPSET, OPSET, first_line


def sklearn_graph(model: Any, inputs: list[tuple[str, Any]]) -> ModelProto:
    """A fitted sklearn, xgboost or lightgbm classifier or a pipeline of them, with an output "probabilities"."""
    from skl2onnx import convert_sklearn
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    try:
        _register_boosters()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = convert_sklearn(
                model,
                name="model",
                initial_types=inputs,
                options={"zipmap": False},
                target_opset={"": OPSET, "ai.onnx.ml": ML_OPSET},
                custom_conversion_functions={
                    HistGradientBoostingClassifier: _convert_hist_boosting,
                    SimpleImputer: _convert_imputer,
                    StandardScaler: _convert_scaler,
                    MinMaxScaler: _convert_scaler,
                },
            )
        return _with_input_names(graph, [name for name, _ in inputs])
    except Exception as error:
        raise ModelError(
            f"{type(model).__name__} cannot be written as ONNX: {first_line(error)}. Every step needs a converter in "
            "skl2onnx or onnxmltools; replace the step, or keep the model at this site with wrap()."
        ) from error


def _with_input_names(model: ModelProto, names: list[str]) -> ModelProto:
    """Inputs under the names of their columns again: skl2onnx writes "mean radius" as "mean_radius"."""
    renamed = {given.name: name for given, name in zip(model.graph.input, names, strict=True)}
    for given in model.graph.input:
        given.name = renamed[given.name]
    for node in model.graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
    return model


def _register_boosters() -> None:
    """Tell skl2onnx of xgboost and lightgbm; a library that was never imported has no fitted model to convert."""
    from skl2onnx import update_registered_converter
    from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes as shape

    known: dict[str, tuple[type, Any]] = {}
    if "xgboost" in sys.modules:
        from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost

        known["XGBoostXGBClassifier"] = (sys.modules["xgboost"].XGBClassifier, convert_xgboost)
    if "lightgbm" in sys.modules:
        known["LightGbmLGBMClassifier"] = (sys.modules["lightgbm"].LGBMClassifier, _convert_lightgbm)
    for alias, (kind, converter) in known.items():
        options = {"zipmap": [True, False, "columns"], "nocl": [True, False]}
        update_registered_converter(kind, alias, shape, converter, overwrite=True, options=options)


def _convert_scaler(scope: Any, operator: Any, container: Any) -> None:
    """Scale by the very float32 operations of sklearn.

    The usual converter multiplies by the inverse. Its last bit differs, and a tree behind it flips wherever a value
    lies halfway between two training values, which is common where values have two decimals.
    """
    from onnx import TensorProto
    from skl2onnx.operator_converters.common import concatenate_variables

    current = concatenate_variables(scope, operator.inputs, container)
    steps = _scaler_steps(operator.raw_operator)
    for number, (operation, values) in enumerate(steps):
        last = number == len(steps) - 1
        scaled = operator.outputs[0].full_name if last else scope.get_unique_variable_name("scaled")
        constant = scope.get_unique_variable_name("constant")
        container.add_initializer(constant, TensorProto.FLOAT, [1, len(values)], [float(value) for value in values])
        container.add_node(operation, [current, constant], [scaled], name=scaled, op_version=8)
        current = scaled


def _scaler_steps(scaler: Any) -> list[tuple[str, Any]]:
    if hasattr(scaler, "data_min_"):
        low, high = scaler.feature_range
        limits = [("Max", [low]), ("Min", [high])] if scaler.clip else []
        return [("Mul", scaler.scale_), ("Add", scaler.min_), *limits]
    centre = scaler.mean_ if scaler.with_mean else np.zeros(scaler.n_features_in_)
    return [("Sub", centre), ("Div", scaler.scale_)] if scaler.with_std else [("Sub", centre)]


def _convert_imputer(scope: Any, operator: Any, container: Any) -> None:
    """Without the columns that had no value in training, which sklearn leaves out and the usual converter keeps."""
    from onnx import TensorProto
    from skl2onnx.common.data_types import FloatTensorType
    from skl2onnx.operator_converters.common import concatenate_variables
    from skl2onnx.operator_converters.imputer_op import convert_sklearn_imputer

    imputer, (output,) = operator.raw_operator, operator.outputs
    numbers = isinstance(operator.inputs[0].type, FloatTensorType)
    empty = np.array([numbers and np.isnan(value) for value in imputer.statistics_], dtype=bool)
    if imputer.keep_empty_features or not empty.any():
        convert_sklearn_imputer(scope, operator, container)
        return
    kept = np.flatnonzero(~empty)
    columns, picked = (scope.get_unique_variable_name(name) for name in ("columns", "picked"))
    container.add_initializer(columns, TensorProto.INT64, [len(kept)], kept.tolist())
    given = concatenate_variables(scope, operator.inputs, container)
    container.add_node("Gather", [given, columns], [picked], name=picked, axis=1, op_version=13)
    container.add_node(
        "Imputer",
        [picked],
        [output.full_name],
        name=output.full_name,
        op_domain="ai.onnx.ml",
        imputed_value_floats=imputer.statistics_[kept].astype(np.float32),
        replaced_value_float=float(imputer.missing_values),
    )


def _convert_hist_boosting(scope: Any, operator: Any, container: Any) -> None:
    from skl2onnx.operator_converters.random_forest import convert_sklearn_random_forest_classifier

    trees = [tree for trees in operator.raw_operator._predictors for tree in trees]
    exact = np.concatenate([tree.nodes["num_threshold"] for tree in trees])
    _convert_trees(convert_sklearn_random_forest_classifier, scope, operator, container, exact)


def _convert_lightgbm(scope: Any, operator: Any, container: Any) -> None:
    from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm

    _convert_trees(convert_lightgbm, scope, operator, container)


def _convert_trees(
    convert: Callable[..., None], scope: Any, operator: Any, container: Any, exact: NDArray[np.float64] | None = None
) -> None:
    convert(scope, operator, _TreeContainer(container, exact))


class _TreeContainer:
    """Mends the trees a converter writes: bools become ints, and thresholds are rounded down to float32.

    For float32 x, ``x <= t`` equals ``x <= floor32(t)``; rounding t up instead would flip rows that lie on it.
    ``exact`` are the thresholds in double precision, where the converter has already rounded them.
    """

    def __init__(self, container: Any, exact: NDArray[np.float64] | None) -> None:
        self._container, self._exact = container, exact

    def __getattr__(self, name: str) -> Any:
        return getattr(self._container, name)

    def add_node(self, op_type: str, *args: Any, **attributes: Any) -> None:
        if op_type.startswith("TreeEnsemble"):
            key = "nodes_missing_value_tracks_true"
            attributes[key] = [int(value) for value in attributes[key]]
            given = np.asarray(attributes["nodes_values"], dtype=np.float64)
            exact = given if self._exact is None else self._exact
            inner = np.asarray(attributes["nodes_modes"]) == "BRANCH_LEQ"
            attributes["nodes_values"] = np.where(inner, floor_float32(exact), given.astype(np.float32))
        self._container.add_node(op_type, *args, **attributes)


def floor_float32(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """The largest float32 that is not above each value.

    >>> float(floor_float32(np.array([0.1]))[0]) <= 0.1 < float(np.float32(0.1))
    True
    """
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32)
    return np.where(rounded > values, np.nextafter(rounded, np.float32(-np.inf)), rounded)
