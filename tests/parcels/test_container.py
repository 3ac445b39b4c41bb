"""One file for one tree: it comes back as it was, weighs what it weighs on the wire, and damage is noticed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from peerwise.errors import ParcelError
from peerwise.parcels import frozen, pack, read_tree, write_tree
from peerwise.parcels.flat import flat_parts

TREE = {
    "w": np.arange(6.0).reshape(2, 3),
    "deep": {"n": [1, None, "x"], "model": b"onnx" * 9},
    "flags": np.array([True]),
}


def test_a_tree_comes_back_as_it_was(tmp_path: Path) -> None:
    for tree in (TREE, {}, {"text": "only"}):
        write_tree(tmp_path / "deep" / "file", tree)
        assert pack(read_tree(tmp_path / "deep" / "file")) == pack(tree)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["file"]


def test_what_a_tree_holds_in_many_places_is_written_once_and_one_object_again(tmp_path: Path) -> None:
    shared, model = np.arange(100_000.0), bytes(100_000)
    tree = {"sites": [{"w": shared, "model": model, "own": np.full(3, place)} for place in range(50)]}
    write_tree(tmp_path / "file", tree)
    assert (tmp_path / "file").stat().st_size < 1_000_000
    sites = read_tree(tmp_path / "file")["sites"]
    assert all(site["w"] is sites[0]["w"] and site["model"] is sites[0]["model"] for site in sites)
    assert [site["own"].tolist() for site in sites] == [[place] * 3 for place in range(50)]


def test_read_only_arrays_stay_read_only(tmp_path: Path) -> None:
    write_tree(tmp_path / "file", {**frozen({"a": np.arange(3)}), "b": np.arange(3)})
    found = read_tree(tmp_path / "file")
    assert [found[name].flags.writeable for name in "ab"] == [False, True]


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
