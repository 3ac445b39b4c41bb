"""The child: a program of its own that opens ONNX files, runs them and says what they say, for its parent alone."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peerwise.models.onnx_model import OnnxModel
    from peerwise.models.worker.frames import Frame, Header, Wire

ROOT = Path(__file__).resolve().parents[2]
GRACE = 5.0  # seconds after which a child whose parent is gone ends what it is at
ROOMY = 2**40


def light_packages() -> None:
    """Our packages without what they import for their users, which is ten times what a child needs."""
    for name in ("peerwise", "peerwise.data", "peerwise.models", "peerwise.models.worker"):
        package = ModuleType(name)
        package.__path__ = [str(ROOT.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package


class Sessions:
    """Open models by their sha256; the one least recently used goes when the files of all are too many bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._open: dict[str, tuple[OnnxModel, int]] = {}

    def get(self, key: str) -> OnnxModel | None:
        if key in self._open:
            self._open[key] = self._open.pop(key)
            return self._open[key][0]
        return None

    def put(self, key: str, data: bytes, name: str) -> OnnxModel:
        from peerwise.models.onnx_model import OnnxModel

        self._open.pop(key, None)
        while self._open and sum(size for _, size in self._open.values()) + len(data) > self._most_bytes:
            del self._open[next(iter(self._open))]
        model = OnnxModel(data, name=name)
        model.forget_data()  # the parent has it
        self._open[key] = model, len(data)
        return model


def main() -> None:
    light_packages()
    from peerwise.models.worker.frames import Ended, Wire

    # Whatever a library prints goes to stderr, and never among the frames.
    wire = Wire(os.dup(0), os.dup(1))
    os.dup2(2, 1)
    os.close(0)
    try:
        start, _ = wire.receive(ROOMY)
        wire.send([({"isolation": _prepared(start)}, [])])
        _serve(wire, start)
    except Ended:
        return


def _prepared(start: Header) -> dict[str, str]:
    """Everything imported, and every layer on that is wanted and can be had."""
    from peerwise.models.worker.layers import after_imports, applied, before_imports

    wanted = frozenset(start["layers"])
    found = applied(before_imports(start["memory_bytes"]), wanted)
    sys.path += start["path"]
    import onnxruntime

    import peerwise.models.onnx_model

    if start["with_onnx"]:
        import peerwise.models.onnx_shapes  # noqa: F401
    onnxruntime.disable_telemetry_events()
    return found | applied(after_imports(start["parent"]), wanted)


def _serve(wire: Wire, start: Header) -> None:
    sessions = Sessions(start["most_open_bytes"])
    while True:
        asked, parts = wire.receive(ROOMY)
        # By default the signal ends the process, without a line of Python: also when the parent is no more.
        signal.setitimer(signal.ITIMER_REAL, start["seconds"] + GRACE)
        reply = _answer(sessions, asked, parts, start["most_reply_bytes"])
        signal.setitimer(signal.ITIMER_REAL, 0)
        wire.send([reply])


def _answer(sessions: Sessions, asked: Header, parts: list[bytearray], most_reply_bytes: int) -> Frame:
    from peerwise.models.onnx_model import short

    try:
        if asked["what"] == "open":
            return _facts(sessions.put(asked["model"], bytes(parts.pop()), asked["name"])), []
        if asked["what"] == "shapes":
            from peerwise.models.onnx_shapes import inferred

            return {"shapes": inferred(bytes(parts[0]), asked["rows"])}, []
        return _run(sessions, asked, parts, most_reply_bytes)
    except MemoryError:
        return {"error": "WorkerError", "text": "out of memory"}, []
    except Exception as error:
        ours = type(error).__module__ == "peerwise.errors"
        return {"error": type(error).__name__ if ours else "", "text": str(error) if ours else short(error)}, []


def _facts(model: OnnxModel) -> Header:
    return {
        "inputs": model.inputs,
        "input_shapes": model.input_shapes,
        "has_logits": model.has_logits,
        "width": model.width,
        "classes": model.classes,
        "features": model.features,
    }


def _run(sessions: Sessions, asked: Header, parts: list[bytearray], most_reply_bytes: int) -> Frame:
    import numpy as np

    model = sessions.get(asked["model"])
    if model is None:
        return {"absent": True}, []
    feed: dict[str, Any] = {
        name: np.frombuffer(part, dtype).reshape(shape)
        for (name, dtype, shape), part in zip(asked["inputs"], parts, strict=True)
    }
    said = np.ascontiguousarray(model.run(feed))
    if said.nbytes > most_reply_bytes:
        text = f"its answer has the shape {said.shape}, {said.nbytes} bytes: expected at most {most_reply_bytes}"
        return {"error": "BadOutputs", "text": text}, []
    return {"dtype": said.dtype.str, "shape": list(said.shape)}, [said.reshape(-1).view(np.uint8).data]


if __name__ == "__main__":
    main()
