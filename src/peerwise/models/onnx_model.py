"""Run an ONNX file: any framework in, one runtime out, no code."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data.rows import Sequences
from peerwise.errors import BrokenFile, ModelError
from peerwise.models.outputs import checked, checked_probabilities, count_rows, log_probabilities, slices, softmax

TYPES: dict[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(uint8)": np.uint8,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
    "tensor(string)": np.object_,
}

Feed = dict[str, NDArray[Any]]


class OnnxAnswers(ABC):
    """How rows become what an ONNX file takes, and what it says becomes answers; where it runs is left open.

    ``inputs``: the types by name; ``input_shapes``: their sizes, -1 for one that is left open; ``width``: how many
    classes the file declares, where it does.
    """

    name: str
    has_logits: bool
    width: int | None
    classes: tuple[Any, ...] | None
    features: tuple[str, ...] | None
    inputs: dict[str, str]
    input_shapes: dict[str, tuple[int, ...]]

    def predict_logits(self, X: Any) -> NDArray[np.float64]:
        return self.logits_of(list(self.run_all(self.feeds(X))), count_rows(X))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        return self.probabilities_of(list(self.run_all(self.feeds(X))), count_rows(X))

    @property
    @abstractmethod
    def data(self) -> bytes:
        """The file."""

    @abstractmethod
    def run_all(self, feeds: Iterable[Feed]) -> Iterator[NDArray[Any]]:
        """What the file says of each slice of rows, as it says it."""

    def feeds(self, X: Any) -> Iterator[Feed]:
        """The rows as the file takes them, slice by slice."""
        if not isinstance(X, Sequences) and not hasattr(X, "iloc"):
            X = np.asarray(X)
        rows = X.iloc if hasattr(X, "iloc") else X
        for part in slices(X):
            yield self._feed(rows[part])

    def logits_of(self, parts: Sequence[NDArray[Any]], rows: int) -> NDArray[np.float64]:
        """Checked logits, from what the file says of each slice."""
        outputs = self._checked(parts, rows)
        return outputs if self.has_logits else log_probabilities(outputs)

    def probabilities_of(self, parts: Sequence[NDArray[Any]], rows: int) -> NDArray[np.float64]:
        outputs = self._checked(parts, rows)
        return softmax(outputs) if self.has_logits else outputs

    def _checked(self, parts: Sequence[NDArray[Any]], rows: int) -> NDArray[np.float64]:
        outputs = np.concatenate(parts) if parts else np.zeros((0, self.width or 0))
        check = checked if self.has_logits else checked_probabilities
        return check(outputs, rows, self.width or outputs.shape[-1], self.name)

    def _refused(self, feed: Feed, error: Exception) -> ModelError:
        shapes = ", ".join(f"{name}{value.shape}" for name, value in feed.items())
        return ModelError(
            f"{self.name!r} cannot run on {shapes}: {short(error)}. Give it inputs of the shape it was made for."
        )

    def _feed(self, X: Any) -> Feed:
        if isinstance(X, Sequences):
            given: dict[str, Any] = {"static": X.static, "series": X.series}
        elif len(self.inputs) == 1:
            given = {next(iter(self.inputs)): self._in_order(X)}
        elif hasattr(X, "columns"):
            given = {str(column): X[[column]] for column in X.columns}
        else:
            given = {"x": X}
        absent = [name for name in self.inputs if name not in given]
        if absent:
            raise ModelError(
                f"{self.name!r} needs inputs {list(self.inputs)}, got {list(given)} (missing: {absent}). "
                "Pass a DataFrame with these columns, or Sequences for 'static' and 'series'."
            )
        return {name: np.asarray(given[name]).astype(TYPES[kind], copy=False) for name, kind in self.inputs.items()}

    def _in_order(self, X: Any) -> Any:
        """A data frame's columns as the file wants them, by name; whatever has no such names, as it is."""
        if not hasattr(X, "columns") or not self.features:
            return X
        columns = {str(column): place for place, column in enumerate(X.columns)}
        absent = [name for name in self.features if name not in columns]
        if absent:
            raise ModelError(f"{self.name!r} needs the columns {list(self.features)}, and X lacks {absent}.")
        return X.iloc[:, [columns[name] for name in self.features]]


class OnnxModel(OnnxAnswers):
    """An ONNX classifier on one thread; ``classes`` and ``features`` come from the file's metadata, if it has them.

    An output called "logits" is read as logits; in a file from elsewhere the output is read as probabilities.
    """

    def __init__(self, data: bytes, *, name: str = "onnx model") -> None:
        import onnxruntime as ort  # late: it starts a thread, which no process that forks should have

        ort.disable_telemetry_events()
        self._data, self.name = bytes(data), name
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # Kept blocks for the next call are no faster, and take some 40 MB a model.
        options.enable_cpu_mem_arena = options.enable_mem_pattern = False
        try:
            self._session = ort.InferenceSession(self._data, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise BrokenFile(
                f"{name!r} ({len(data)} bytes) is no readable ONNX file: {short(error)}. It may be truncated: "
                "fetch or export it again."
            ) from error
        self.inputs = {item.name: item.type for item in self._session.get_inputs()}
        for input_name, kind in self.inputs.items():
            if kind not in TYPES:
                raise ModelError(
                    f"{name!r} takes {kind} for its input {input_name!r}: expected one of {', '.join(TYPES)}. "
                    f"Export it with such an input."
                )
        self.input_shapes = {item.name: _sizes(item.shape) for item in self._session.get_inputs()}
        self._output, self.has_logits = self._pick_output()
        meta = self._session.get_modelmeta().custom_metadata_map
        self.classes = _names(meta.get("classes"), name)
        self.features = _names(meta.get("features"), name)
        shape = next(item.shape for item in self._session.get_outputs() if item.name == self._output)
        declared = shape[1] if len(shape) == 2 else None
        self.width = declared if isinstance(declared, int) else (len(self.classes) if self.classes else None)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.data, self.name)

    @property
    def data(self) -> bytes:
        return self._data

    def forget_data(self) -> None:
        """For one who has the file elsewhere: the session does without."""
        self._data = b""

    def run_all(self, feeds: Iterable[Feed]) -> Iterator[NDArray[Any]]:
        for feed in feeds:
            try:
                said = self.run(feed)
            except Exception as error:
                raise self._refused(feed, error) from error
            yield said

    def run(self, feed: Feed) -> NDArray[Any]:
        return np.asarray(self._session.run([self._output], feed)[0])

    def _pick_output(self) -> tuple[str, bool]:
        tensors = [
            item.name for item in self._session.get_outputs() if item.type in ("tensor(float)", "tensor(double)")
        ]
        if not tensors:
            found = ", ".join(f"{item.name}: {item.type}" for item in self._session.get_outputs())
            raise ModelError(
                f"{self.name!r} has no float output, only {found}: expected logits or probabilities as a matrix. "
                "Export it with options={'zipmap': False}."
            )
        if "logits" in tensors:
            return "logits", True
        return next((name for name in tensors if "prob" in name), tensors[-1]), False


def _sizes(shape: Sequence[Any]) -> tuple[int, ...]:
    return tuple(size if isinstance(size, int) and size >= 0 else -1 for size in shape)


def _again(data: bytes, name: str) -> OnnxModel:
    return OnnxModel(data, name=name)


def _names(text: str | None, name: str) -> tuple[Any, ...] | None:
    if text is None:
        return None
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or any(isinstance(value, list | dict) for value in names):
        raise BrokenFile(f"{name!r} has metadata {text[:60]!r}: expected a JSON list of names. Export it again.")
    return tuple(names)


def short(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
