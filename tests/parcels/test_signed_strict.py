"""JSON from strangers: one meaning, or none."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerwise.errors import ParcelError
from peerwise.parcels import pack, unpack
from peerwise.parcels.signed import canonical, strict_json

leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
values = st.recursive(
    leaves,
    lambda node: st.lists(node, max_size=4) | st.dictionaries(st.text(max_size=5), node, max_size=4),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(values)
def test_what_is_written_is_read_again_and_written_the_same(value):
    data = canonical(value)
    assert strict_json(data) == value
    assert canonical(strict_json(data)) == data
    assert strict_json(json.dumps(value, indent=1).encode()) == value


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60) | st.text('[]{}":,\\ud8e1-+.NaInfity0', max_size=40).map(str.encode))
def test_any_bytes_are_read_as_json_reads_them_or_refused(data):
    try:
        found = strict_json(data)
    except ParcelError:
        return
    assert found == json.loads(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"a":1,"a":1}', "'a' is there twice"),
        (b'[{"b":{"a":1,"\\u0061":2}}]', "'a' is there twice"),
        (b"NaN", "NaN is no JSON number"),
        (b"[1,Infinity]", "Infinity is no JSON number"),
        (b"[-Infinity]", "-Infinity is no JSON number"),
        (b"1e999", "too large for a number"),
        (b"-1" + b"0" * 400 + b".5", "too large for a number"),
        (b"[18446744073709551616]", "more than 64 bits"),
        (b"-18446744073709551616", "more than 64 bits"),
        (b"9" * 5000, "more than 64 bits"),
        (b'"\xff"', "utf-8"),
        (b'"\xed\xa0\x80"', "utf-8"),
        (b'"\\ud800"', "surrogates not allowed"),
        (b'{"\\uDC00x":1}', "surrogates not allowed"),
        (b'"\\ude00\\ud83d"', "surrogates not allowed"),
        (b"{} {}", "Extra data"),
        (b"1\x00", "Extra data"),
        (b'\xef\xbb\xbf{"a":1}', "BOM"),
        ('{"a":1}'.encode("utf-16"), "utf-8"),
        (b"", "Expecting value"),
        (b'{"a":1', "left open"),
        (b"[1 2]", "delimiter"),
        (b"[1,]", "Expecting value|trailing comma"),
        (b"{'a':1}", "property name"),
        (b'"a\nb"', "control character"),
        (b"[01]", "delimiter"),
        (b'"open', "Unterminated"),
        (b'"open\\', "Unterminated"),
    ],
)
def test_what_two_readers_might_read_differently_is_refused(data, message):
    with pytest.raises(ParcelError, match=message):
        strict_json(data)


def test_a_pair_of_surrogates_is_one_letter():
    assert strict_json(b'"\\ud83d\\ude00"') == "\N{GRINNING FACE}"


def test_depth_values_and_bytes_are_bounded_to_the_last_one():
    assert strict_json(b"[" * 32 + b"]" * 32)
    with pytest.raises(ParcelError, match="nested 33 deep: expected at most 32"):
        strict_json(b"[" * 33 + b"]" * 33)
    assert strict_json(b'{"a":{"b":[]}}', most_depth=3)
    with pytest.raises(ParcelError, match="nested 3 deep"):
        strict_json(b'{"a":{"b":[]}}', most_depth=2)
    assert len(strict_json(b"[" + b"1," * 98 + b"1]", most_values=100)) == 99
    with pytest.raises(ParcelError, match="has 100 values: expected at most 99"):
        strict_json(b"[" + b"1," * 98 + b"1]", most_values=99)
    assert strict_json(b'"abc"', most_bytes=5) == "abc"
    with pytest.raises(ParcelError, match="has 5 bytes: expected at most 4"):
        strict_json(b'"abc"', most_bytes=4)


def test_brackets_and_commas_within_text_count_for_nothing():
    text = '[[{{,,,"\\' * 50
    assert strict_json(json.dumps([text]).encode(), most_depth=1, most_values=2) == [text]


@pytest.mark.parametrize("piece", [b"[", b'"', b'\\"', b'"\\', b'{"a":', b"[],", b"\\u", b'"[', b"1" * 99 + b","])
def test_hostile_text_of_a_megabyte_is_refused_without_pondering(piece):
    data = (piece * (1 + (1 << 20) // len(piece)))[: 1 << 20]
    for hostile in (data, b'"' + data[:-1], b"[" + data[:-1]):
        began = time.process_time()
        with pytest.raises(ParcelError):
            strict_json(hostile)
        # A search that starts anew at each quote would take minutes.
        assert time.process_time() - began < 20


def test_a_name_twice_among_very_many_is_found_without_pondering():
    names = [*(f'"{place}":0' for place in range(90_000)), '"last":0', '"last":0']
    began = time.process_time()
    with pytest.raises(ParcelError, match="'last' is there twice"):
        strict_json(("{" + ",".join(names) + "}").encode(), most_bytes=1 << 21)
    # Counting each name among all of them would take minutes.
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({1: 2}, "1 cannot name an item"),
        ([{"a": {None: 2}}], "None cannot name an item"),
        (float("nan"), "cannot be written as JSON"),
        ([float("inf")], "cannot be written as JSON"),
        ("\ud800", "surrogates not allowed"),
        ({"a": b"bytes"}, "cannot be written as JSON"),
        ({"a": {1, 2}}, "cannot be written as JSON"),
    ],
)
def test_what_json_cannot_say_is_not_written(value, message):
    with pytest.raises(ParcelError, match=message):
        canonical(value)


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (b'{"format":1,"body":{"x":1,"x":2},"arrays":null}', "'x' is there twice"),
        (b'{"format":1,"body":{"x":NaN},"arrays":null}', "NaN"),
        (b'{"format":1,"body":{"x":1e999},"arrays":null}', "too large"),
        (b'{"format":1,"body":{"x":"\\ud800"},"arrays":null}', "surrogates"),
        (b'{"format":1,"body":{"x":' + b"9" * 100 + b'},"arrays":null}', "more than 256 bits"),
        (b'{"format":1,"body":{"x":' + b"[" * 99 + b"]" * 99 + b'},"arrays":null}', "nested 101 deep"),
        (b'{"format":1,"body":{"x":[' + b"{}," * 5_000_000 + b'1]},"arrays":null}', "values: expected at most 5000000"),
        ('{"format":1,"body":{},"arrays":null}'.encode("utf-16"), "utf-8"),
    ],
)
def test_a_tree_of_a_peer_is_read_as_strictly(manifest, message):
    with pytest.raises(ParcelError, match=message):
        unpack(manifest, {})


def test_a_tree_that_could_not_be_read_again_is_not_written():
    deep: list = []
    for _ in range(99):
        deep = [deep]
    for tree, message in (
        ({"x": deep}, "nested 102 deep"),
        ({"x": "\udc80"}, "half a surrogate pair"),
        ({"\udc80": 1}, "cannot name an item"),
        ({"x": 2**256}, "whole number of 257 bits"),
    ):
        with pytest.raises(ParcelError, match=message):
            pack(tree)


def test_a_tree_of_some_megabytes_and_the_state_of_a_generator_come_back():
    state = np.random.default_rng(0).bit_generator.state
    tree = {"words": [f"word {n}" for n in range(200_000)], "numbers": list(range(200_000)), "state": state}
    manifest, blobs = pack(tree)
    assert len(manifest) > 3 << 20
    assert unpack(manifest, blobs) == tree
