"""Trees of JSON values, arrays and bytes, without code."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from peerwise.errors import ParcelError
from peerwise.parcels import Parcel, pack, sha256, unpack

TYPES = [
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
]
keys = st.text(max_size=6).filter(lambda key: not key.startswith("$"))
some_arrays = st.sampled_from(TYPES).flatmap(
    lambda kind: arrays.arrays(np.dtype(kind), arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
)
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.binary(max_size=8)
    | some_arrays
)
nested = st.recursive(
    leaves, lambda node: st.lists(node, max_size=3) | st.dictionaries(keys, node, max_size=3), max_leaves=12
)
trees = st.dictionaries(keys, nested, max_size=4)


def same(a, b):
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@settings(max_examples=150, deadline=None)
@given(trees)
def test_a_tree_comes_back_as_it_was(tree):
    manifest, blobs = pack(tree)
    assert same(tree, unpack(manifest, blobs))
    assert all(sha256(data) == name for name, data in blobs.items())


@settings(max_examples=50, deadline=None)
@given(trees)
def test_equal_trees_give_equal_bytes_whatever_the_order_of_their_names(tree):
    assert pack(dict(reversed(list(tree.items())))) == pack(tree)


def test_names_with_a_slash_do_not_collide():
    tree = {"a/b": np.array([1]), "a": {"b": np.array([2])}}
    assert same(tree, unpack(*pack(tree)))


@pytest.mark.parametrize(
    "array",
    [
        np.array(3.5),
        np.zeros((0, 3), np.float32),
        np.arange(6).reshape(2, 3).T,
        np.arange(10)[::-2],
        np.array([np.nan, np.inf, -0.0]),
    ],
)
def test_shapes_orders_and_odd_values_of_arrays_survive(array):
    back = unpack(*pack({"x": array}))["x"]
    assert back.shape == array.shape
    np.testing.assert_array_equal(back, array)


def test_arrays_of_the_other_byte_order_keep_their_values():
    back = unpack(*pack({"x": np.array([1, 2, 300], ">i4")}))["x"]
    assert back.tolist() == [1, 2, 300]


def test_tuples_come_back_as_lists_and_numpy_scalars_as_numbers():
    tree = {"a": (1, 2), "b": np.float32(0.5), "c": np.int64(7), "d": np.bool_(True)}
    assert unpack(*pack(tree)) == {"a": [1, 2], "b": 0.5, "c": 7, "d": True}


def test_a_model_that_is_there_twice_is_one_blob():
    assert len(pack({"a": b"model", "b": [b"model", b"other"]})[1]) == 2


def test_a_changed_blob_is_refused():
    manifest, blobs = pack({"x": np.arange(5), "model": b"onnx"})
    for name, data in blobs.items():
        for broken in (data[:-1], data + b"0", bytes([data[0] ^ 1]) + data[1:]):
            with pytest.raises(ParcelError, match="does not match its sha256"):
                unpack(manifest, {**blobs, name: broken})


def test_a_missing_blob_is_refused():
    manifest, blobs = pack({"x": np.arange(5), "model": b"onnx"})
    for name in blobs:
        with pytest.raises(ParcelError, match=f"blob {name[:12]} is missing"):
            unpack(manifest, {key: data for key, data in blobs.items() if key != name})


def test_a_manifest_cut_short_anywhere_is_refused():
    manifest, blobs = pack({"x": np.arange(5), "note": "two", "list": [1, 2]})
    for end in range(len(manifest)):
        with pytest.raises(ParcelError):
            unpack(manifest[:end], blobs)


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"3",
        b'{"format":2,"body":{},"arrays":null}',
        b'{"format":1,"body":{}}',
        b'{"format":1,"body":[],"arrays":null}',
        b'{"format":1,"body":{"$blob":"' + b"0" * 64 + b'"},"arrays":null}',
        b'{"format":1,"body":{"x":{"$blob":7}},"arrays":null}',
        b'{"format":1,"body":{"x":{"$y":7}},"arrays":null}',
        b'{"format":1,"body":{"x":{"$blob":["a"]}},"arrays":null}',
        b'{"format":1,"body":{"x":{"$array":"0"}},"arrays":null}',
        b'{"format":1,"body":{"x":{"$array":["0"]}},"arrays":null}',
        b'{"format":1,"body":{},"arrays":5}',
        b'{"format":1,"body":{},"arrays":""}',
        b"[" * 100_000,
        b'{"format":1,"body":{"x":' + b"[" * 900 + b"]" * 900 + b'},"arrays":null}',
    ],
)
def test_a_manifest_of_somebody_else_is_refused(manifest):
    with pytest.raises(ParcelError):
        unpack(manifest, {})


def test_an_arrays_blob_that_is_no_safetensors_is_refused():
    data = b"\x80\x04pickle"
    manifest = json.dumps({"format": 1, "body": {}, "arrays": sha256(data)}).encode()
    with pytest.raises(ParcelError, match="not safetensors"):
        unpack(manifest, {sha256(data): data})


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"a": {"b": object()}}, "/a/b is a object"),
        ({"a": {1, 2}}, "/a is a set"),
        ({"a": lambda: 1}, "/a is a function"),
        ({"a": [0, 1j]}, "/a/1 is a complex"),
        ({"a": np.complex64(1)}, "/a is a complex64"),
        ({"a": np.array(["x"])}, "/a is an array of <U1"),
        ({"a": np.array([None])}, "/a is an array of object"),
        ({"a": np.array([1 + 1j])}, "/a is an array of complex128"),
        ({"a": np.zeros(2, "datetime64[s]")}, "/a is an array of datetime64"),
        ({"a": float("nan")}, "/a is nan"),
        ({"a": [np.float64("inf")]}, "/a/0 is inf"),
        ({1: 2}, "1 cannot name an item"),
        ({"a": {"$array": "0"}}, "cannot name an item"),
    ],
)
def test_what_is_no_json_array_or_bytes_is_refused_with_its_place(tree, message):
    with pytest.raises(ParcelError, match=message):
        pack(tree)


def test_long_doubles_are_refused():
    for odd in (np.zeros(2, np.longdouble), np.longdouble(1)):
        with pytest.raises(ParcelError):
            pack({"a": odd})


def test_no_pickle_is_in_the_bytes():
    manifest, blobs = pack({"x": np.arange(1000.0), "words": ["a"] * 50, "model": b"onnx"})
    for data in (manifest, *blobs.values()):
        assert not data.startswith((b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK"))
        assert b"numpy" not in data


def header_of(arrays: dict[str, object], data: bytes = b"") -> bytes:
    text = json.dumps(arrays).encode()
    return len(text).to_bytes(8, "little") + text + data


def with_arrays(blob: bytes, body: object) -> tuple[bytes, dict[str, bytes]]:
    manifest = json.dumps({"format": 1, "arrays": sha256(blob), "body": body}).encode()
    return manifest, {sha256(blob): blob}


def test_complex_numbers_are_refused_as_they_could_not_have_been_packed():
    blob = header_of({"0": {"dtype": "C64", "shape": [1], "data_offsets": [0, 8]}}, bytes(8))
    with pytest.raises(ParcelError, match="is of complex64"):
        unpack(*with_arrays(blob, {"a": {"$array": "0"}}))


def test_a_parcel_with_more_arrays_than_anybody_sends_is_refused_before_they_are_made():
    """A hundred thousand arrays of no numbers are some megabytes, and gigabytes once they are made."""
    empty = {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}
    packed = with_arrays(header_of({str(place): empty for place in range(100_000)}), {"a": 1})
    with pytest.raises(ParcelError, match="the header of the arrays has 700001 values"):
        Parcel.decode(*packed)


def test_a_parcel_with_more_values_than_anybody_sends_is_refused_before_they_are_read():
    body = {"a": [[]] * 200_000}
    with pytest.raises(ParcelError, match="the manifest has"):
        Parcel.decode(json.dumps({"format": 1, "arrays": None, "body": body}).encode(), {})
