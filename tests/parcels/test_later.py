"""Models that stay on disk until they are asked for: the same bytes, one at a time in memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from peerwise.errors import ParcelError
from peerwise.parcels import Store
from peerwise.parcels.later import Later, joined, picked, renamed

SIZE, COUNT = 1 << 20, 40
FILES = {f"m{number}": bytes([number]) * 100 for number in range(5)}


def tree(files: object) -> dict[str, object]:
    return {"state": {"pool": files, "seen": np.arange(3), "note": b"one alone"}}


def test_what_is_read_later_is_what_is_read_now(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save("a", tree(FILES))
    now, later = store.load_item("a", "state"), store.load_item("a", "state", later=True)
    assert dict(later["pool"]) == now["pool"] == FILES
    assert isinstance(later["pool"], Later)
    assert later["note"] == b"one alone"
    assert later["seen"].tolist() == [0, 1, 2]


def test_what_is_saved_from_later_is_what_is_saved_from_memory(tmp_path: Path) -> None:
    first, second = Store(tmp_path / "1"), Store(tmp_path / "2")
    first.save("a", tree(FILES))
    second.save("a", tree(first.load_item("a", "state", later=True)["pool"]))
    assert (tmp_path / "1" / "a.json").read_bytes() == (tmp_path / "2" / "a.json").read_bytes()
    assert sorted(p.name for p in (tmp_path / "1/blobs").iterdir()) == sorted(
        p.name for p in (tmp_path / "2/blobs").iterdir()
    )


def test_files_are_picked_renamed_and_joined_without_being_read() -> None:
    """And alike, whether they are in memory or not."""
    read: list[str] = []

    def reader(name: str) -> bytes:
        read.append(name)
        return FILES[name]

    later = Later({name: lambda name=name: reader(name) for name in FILES})
    for files in (FILES, later):
        some = renamed(picked(files, ["m3", "m1"]), {"b@x": "m1", "a@x": "m3"})
        both = joined(some, {"own@here": b"own"})
        assert list(both) == ["b@x", "a@x", "own@here"]
        assert "a@x" in both
        assert "m3" not in both
        assert read == []
        assert dict(both) == {"b@x": FILES["m1"], "a@x": FILES["m3"], "own@here": b"own"}
    assert read == ["m1", "m3"]
    assert isinstance(joined(FILES, FILES), dict)


def test_many_large_models_go_from_folder_to_folder_one_at_a_time(tmp_path: Path) -> None:
    first, second = Store(tmp_path / "1"), Store(tmp_path / "2")
    first.save("a", tree(Later({f"m{n:02}": lambda n=n: bytes([n]) * SIZE for n in range(COUNT)})))
    tracemalloc.start()
    try:
        second.save("a", tree(first.load_item("a", "state", later=True)["pool"]))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < COUNT * SIZE / 4
    assert len(list((tmp_path / "2/blobs").iterdir())) == COUNT + 2


def test_a_damaged_model_is_refused_before_it_is_asked_for_and_a_lost_one_when_it_is(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save("a", tree(FILES))
    pool = store.load_item("a", "state", later=True)["pool"]
    blob = next(path for path in (tmp_path / "blobs").iterdir() if path.read_bytes() == FILES["m2"])
    blob.write_bytes(b"damaged")
    with pytest.raises(ParcelError, match="does not match its sha256"):
        store.load_item("a", "state", later=True)
    blob.unlink()
    with pytest.raises(ParcelError, match="is gone"):
        _ = pool["m2"]
    assert pool["m1"] == FILES["m1"]
