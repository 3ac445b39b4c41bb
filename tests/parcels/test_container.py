"""One file for one tree: it comes back as it was, weighs what it weighs on the wire, and damage is noticed."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

from peerwise.errors import ParcelError
from peerwise.parcels import Parcel, pack, read_packed, read_tree, write_tree
from peerwise.parcels.flat import flat_parts, flat_views

TREE = {
    "w": np.arange(6.0).reshape(2, 3),
    "deep": {"n": [1, None, "x"], "model": b"onnx" * 9},
    "flags": np.array([True]),
}


def test_a_tree_comes_back_as_it_was_and_weighs_what_it_weighs_when_sent(tmp_path: Path) -> None:
    for tree in (TREE, {}, {"text": "only"}):
        assert write_tree(tmp_path / "deep" / "file", tree) == sum(
            map(len, [(packed := pack(tree))[0], *packed[1].values()])
        )
        assert pack(read_tree(tmp_path / "deep" / "file")) == packed
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["file"]


def test_two_values_with_the_same_checksum_are_both_there_and_equal_ones_are_kept_once(tmp_path: Path) -> None:
    one, two = bytes.fromhex("0e8b3f02fe0211a8"), bytes.fromhex("b5b8851ac84e0949")
    assert zlib.crc32(one) == zlib.crc32(two)
    tree = {"a": one, "b": [two, one, two]}
    weight = write_tree(tmp_path / "file", tree)
    assert read_tree(tmp_path / "file") == tree
    manifest, blobs = pack(tree)
    assert weight == len(manifest) + 16 == len(manifest) + sum(map(len, blobs.values()))


def test_a_parcel_read_back_knows_its_bytes(tmp_path: Path) -> None:
    parcel = Parcel(**TREE)
    write_tree(tmp_path / "file", parcel)
    found = read_packed(tmp_path / "file").parcel()
    assert found == parcel
    assert found.nbytes == parcel.nbytes


def test_arrays_read_back_can_be_written_to(tmp_path: Path) -> None:
    write_tree(tmp_path / "file", TREE)
    found = read_tree(tmp_path / "file")["w"]
    found += 1
    assert found[0, 0] == 1
    assert read_tree(tmp_path / "file")["w"][0, 0] == 0


TYPES = ["?", *(f"{kind}{size}" for kind, sizes in (("i", "1248"), ("u", "1248"), ("f", "248")) for size in sizes)]


@given(st.lists(st.tuples(st.sampled_from(TYPES), st.lists(st.integers(0, 3), max_size=3)), max_size=14))
def test_arrays_are_laid_out_as_safetensors_does_it(wanted: list[tuple[str, list[int]]]) -> None:
    arrays = {str(place): np.full(shape, place, kind) for place, (kind, shape) in enumerate(wanted)}
    data = b"".join(flat_parts(arrays))
    assert data == save(arrays)
    found = flat_views(memoryview(data))
    assert set(found) == set(load(data))
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert np.array_equal(found[name], array)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_changed_missing_or_added_byte_is_noticed(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "file"
    write_tree(path, TREE)
    whole = path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    how = data.draw(st.sampled_from(["changed", "cut", "zeros", "added"]))
    path.write_bytes(
        {
            "changed": whole[:place] + bytes([whole[place] ^ data.draw(st.integers(1, 255))]) + whole[place + 1 :],
            "cut": whole[:place],
            "zeros": whole[:place].ljust(len(whole) + 1, bytes(1)),
            "added": whole + b"x",
        }[how]
    )
    with pytest.raises(ParcelError, match="is damaged"):
        read_tree(path)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ParcelError, match="nothing is not there"):
        read_tree(tmp_path / "nothing")
