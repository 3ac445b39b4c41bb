"""Parts of what a folder keeps: one item of a tree without the rest, and blobs that no tree needs any more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from peerwise.errors import ParcelError
from peerwise.parcels import Store


def test_one_item_is_read_although_the_blobs_of_the_others_are_gone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save("a", {"about": {"n": 3}, "model": b"bytes", "rows": np.arange(3)})
    for blob in (tmp_path / "blobs").iterdir():
        blob.unlink()
    assert store.load_item("a", "about") == {"n": 3}
    with pytest.raises(ParcelError, match="is missing"):
        store.load_item("a", "model")
    with pytest.raises(ParcelError, match="no item 'card'"):
        store.load_item("a", "card")


def test_blobs_that_another_tree_has_too_stay(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save("x/a", {"model": b"shared", "other": b"alone"})
    store.save("x/b", {"model": b"shared"})
    store.remove("x/a")
    store.remove_unused()
    assert len(list((tmp_path / "blobs").iterdir())) == 1
    assert store.load("x/b") == {"model": b"shared"}
    assert not store.has("x/a")
