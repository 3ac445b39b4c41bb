"""Parcels: what a site says in one round."""

from __future__ import annotations

import numpy as np
import pytest

from peerwise import Parcel
from peerwise.errors import ParcelError


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
