"""Parcels: what a site says in one round."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from peerwise import Parcel
from peerwise.errors import ParcelError
from peerwise.parcels import frozen

NAMES = st.text(max_size=5).filter(lambda name: not name.startswith("$"))
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.binary(max_size=9)
    | arrays(st.sampled_from(["<f4", ">f8", "<i8", "?"]), array_shapes(min_side=0, max_dims=3, max_side=3))
    | st.builds(np.float32, st.floats(width=32, allow_nan=False, allow_infinity=False))
    | st.tuples(st.integers(0, 9))
)


def make():
    return Parcel(counts=np.array([3, 4]), model=b"onnx", note="two", nested={"a": [1, None]})


def test_a_parcel_is_a_mapping():
    parcel = make()
    assert list(parcel) == ["counts", "model", "note", "nested"]
    assert len(parcel) == 4
    assert parcel["note"] == "two"
    with pytest.raises(KeyError):
        parcel["absent"]


def test_a_parcel_comes_back_equal():
    parcel = make()
    back = Parcel.decode(*parcel.encode())
    assert back == parcel
    assert hash(back) == hash(parcel)
    assert back["counts"].tolist() == [3, 4]


@pytest.mark.parametrize("change", [{"note": "three"}, {"counts": np.array([3, 5])}, {"model": b"onny"}, {"more": 1}])
def test_another_content_is_another_parcel(change):
    assert Parcel(**{**make(), **change}) != make()
    assert make() != dict(make())


def test_its_size_is_what_is_sent():
    manifest, blobs = make().encode()
    assert make().nbytes == len(manifest) + sum(len(blob) for blob in blobs.values())
    assert f"{make().nbytes:,} bytes" in repr(make())


def test_an_empty_parcel_costs_nothing():
    assert Parcel().nbytes == 0
    assert Parcel.decode(*Parcel().encode()) == Parcel()


def test_a_model_sent_twice_is_counted_once():
    once, twice = Parcel(a=b"m" * 10_000), Parcel(a=b"m" * 10_000, b=b"m" * 10_000)
    assert twice.nbytes < once.nbytes + 200


def test_any_name_can_be_an_item():
    parcel = Parcel(self=1, items=2)
    assert Parcel.decode(*parcel.encode()) == parcel
    assert parcel["self"] == 1


def test_code_cannot_be_sent():
    with pytest.raises(ParcelError, match="/f is a function"):
        Parcel(f=lambda: 1).encode()


@given(st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3)))
def test_a_frozen_parcel_is_what_would_arrive(value: object) -> None:
    parcel = Parcel(value=value, again=[b"model", b"model"])
    arrived, found = Parcel.decode(*parcel.encode()), parcel.frozen()
    assert found == arrived
    assert found.nbytes == arrived.nbytes == sum(map(len, [parcel.encode()[0], *parcel.encode()[1].values()]))
    assert repr(dict(found)) == repr(dict(arrived)), "the same order and kinds"


def test_a_frozen_parcel_shares_what_cannot_change_and_copies_what_can() -> None:
    mine, fixed = np.zeros(3), frozen({"a": np.ones(3)})["a"]
    found = Parcel(mine=mine, fixed=fixed, view=np.broadcast_to(mine, (2, 3))).frozen()
    mine += 1
    assert found["mine"].tolist() == [0, 0, 0]
    assert found["view"].tolist() == [[0, 0, 0]] * 2
    assert found["fixed"] is fixed
    with pytest.raises(ValueError, match="read-only"):
        found["mine"][0] = 5
