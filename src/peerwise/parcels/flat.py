"""Arrays laid out as safetensors lays them out, without copying them on the way. They are read with the library."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

# What safetensors can hold, in the order in which it lays them out.
NAMES = {
    np.dtype(kind): name
    for kind, name in (
        ("u8", "U64"), ("i8", "I64"), ("f8", "F64"), ("f4", "F32"), ("u4", "U32"), ("i4", "I32"), ("f2", "F16"),
        ("u2", "U16"), ("i2", "I16"), ("i1", "I8"), ("u1", "U8"), ("?", "BOOL"),
    )
}  # fmt: skip
PLACES = {dtype: place for place, dtype in enumerate(NAMES)}


def flat_parts(arrays: Mapping[str, NDArray[Any]]) -> list[bytes | memoryview]:
    """The bytes of a safetensors file in pieces; arrays are contiguous, of native byte order."""
    header: dict[str, Any] = {}
    parts: list[bytes | memoryview] = []
    end = 0
    for name, array in sorted(arrays.items(), key=lambda item: (PLACES[item[1].dtype], item[0])):
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [begin, end]}
        if array.nbytes:
            parts.append(array.reshape(-1).view(np.uint8).data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little") + text, *parts]
