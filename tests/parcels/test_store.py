"""The folder that keeps trees: whole writes, blobs once, nothing outside."""

from __future__ import annotations

import os
import resource
import stat

import numpy as np
import pytest

from peerwise.errors import ParcelError, StorageError
from peerwise.parcels import Keep, Store, sha256, write_atomic
from peerwise.parcels.store import UNFINISHED, remove_leftovers


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_write_replaces_the_whole_file(tmp_path):
    path = tmp_path / "deep" / "file"
    write_atomic(path, b"old and long")
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert files(tmp_path) == ["deep/file"]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    write_atomic(path, b"old")
    with pytest.raises(TypeError):
        write_atomic(path, "text is no bytes")
    assert path.read_bytes() == b"old"
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match="folder cannot be written"):
        write_atomic(tmp_path / "folder", b"a file cannot take the place of a folder")
    assert files(tmp_path) == ["file"]


def test_without_room_the_old_file_stays_and_the_error_says_what_to_do(tmp_path):
    path = tmp_path / "file"
    write_atomic(path, b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(
            StorageError, match=r"file cannot be written \(.*\): expected room for 5000 bytes.*Free some"
        ):
            write_atomic(path, b"x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_bytes() == b"old"
    assert files(tmp_path) == ["file"]


def test_only_what_killed_writers_left_is_removed(tmp_path):
    store = Store(tmp_path)
    store.save("a/b", {"model": b"onnx"})
    before = files(tmp_path)
    for place in (tmp_path, tmp_path / "blobs", tmp_path / "a"):
        (place / f".{'f' * 32}{UNFINISHED}").write_bytes(b"half")
    (tmp_path / f"mine{UNFINISHED}").write_bytes(b"mine")
    remove_leftovers(tmp_path)
    assert files(tmp_path) == sorted([*before, f"mine{UNFINISHED}"])


def test_others_may_read_what_the_umask_lets_them(tmp_path):
    before = os.umask(0o022)
    try:
        write_atomic(tmp_path / "file", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o644


def test_trees_are_kept_by_name(tmp_path):
    store = Store(tmp_path)
    assert not store.has("a/b")
    store.save("a/b", {"x": np.arange(3), "n": 1})
    assert store.has("a/b")
    again = Store(tmp_path).load("a/b")
    assert again["n"] == 1
    assert again["x"].tolist() == [0, 1, 2]


def test_equal_blobs_are_stored_once(tmp_path):
    store = Store(tmp_path)
    store.save("first", {"model": b"onnx"})
    written = (tmp_path / "blobs" / sha256(b"onnx")).stat().st_mtime_ns
    store.save("second", {"model": b"onnx", "other": b"more"})
    assert len(list((tmp_path / "blobs").iterdir())) == 2
    assert (tmp_path / "blobs" / sha256(b"onnx")).stat().st_mtime_ns == written


def test_a_damaged_blob_is_refused_and_mended_by_saving_again(tmp_path):
    store = Store(tmp_path)
    store.save("tree", {"model": b"onnx"})
    blob = tmp_path / "blobs" / sha256(b"onnx")
    blob.write_bytes(b"onn")
    with pytest.raises(ParcelError, match="sha256"):
        store.load("tree")
    store.save("tree", {"model": b"onnx"})
    assert store.load("tree") == {"model": b"onnx"}


def test_missing_things_are_refused(tmp_path):
    store = Store(tmp_path)
    with pytest.raises(ParcelError, match="is not there"):
        store.load("absent")
    store.save("tree", {"model": b"onnx"})
    (tmp_path / "blobs" / sha256(b"onnx")).unlink()
    with pytest.raises(ParcelError, match="missing"):
        store.load("tree")


@pytest.mark.parametrize("name", ["../up", "a/../../up", "/etc/x", "", "a//b", ".", "a/.", "a\\b", "a\0b"])
def test_names_cannot_leave_the_folder(tmp_path, name):
    store = Store(tmp_path / "store")
    for call in (lambda: store.save(name, {"model": b"onnx"}), lambda: store.load(name), lambda: store.has(name)):
        with pytest.raises(ParcelError, match="cannot name a tree"):
            call()
    assert files(tmp_path) == []


@pytest.mark.parametrize("key", ["../../../etc/passwd", "0" * 63, "G" * 64, ""])
def test_blob_names_cannot_leave_the_folder(tmp_path, key):
    manifest = b'{"format":1,"body":{"x":{"$blob":"%s"}},"arrays":null}' % key.encode()
    (tmp_path / "tree.json").write_bytes(manifest)
    with pytest.raises(ParcelError, match="no sha256"):
        Store(tmp_path).load("tree")
    with pytest.raises(ParcelError, match="no sha256"):
        Store(tmp_path).save_packed("other", manifest, {key: b""})


@pytest.mark.parametrize("in_folder", [False, True])
def test_work_is_done_once_for_the_same_inputs(tmp_path, in_folder):
    keep, done = Keep(tmp_path if in_folder else None), []

    def work():
        done.append(1)
        return {"sum": np.array([len(done)])}

    first = keep({"x": np.arange(3), "seed": 0}, work)
    assert keep({"seed": 0, "x": np.arange(3)}, work)["sum"].tolist() == first["sum"].tolist() == [1]
    assert keep({"x": np.arange(3), "seed": 1}, work)["sum"].tolist() == [2]
    assert keep({"x": np.arange(3.0), "seed": 0}, work)["sum"].tolist() == [3]
    assert len(done) == 3


def test_kept_work_outlives_the_object_in_a_folder_only(tmp_path):
    def never():
        raise AssertionError("worked twice")

    Keep(tmp_path)({"a": 1}, lambda: {"b": 2})
    assert Keep(tmp_path)({"a": 1}, never) == {"b": 2}
    Keep()({"a": 1}, lambda: {"b": 2})
    with pytest.raises(AssertionError, match="worked twice"):
        Keep()({"a": 1}, never)


def test_work_is_told_once_it_is_kept_and_never_when_it_was_found(tmp_path):
    told = []

    def on_work(key, parts):
        assert (tmp_path / "kept" / f"{key}.json").is_file()
        told.append(parts["a"])

    for _ in range(2):
        Keep(tmp_path, on_work)({"a": 1}, lambda: {"b": 2})
    assert told == [1]


def test_work_that_fails_is_not_kept(tmp_path):
    def fail():
        raise ValueError("no")

    for keep in (Keep(), Keep(tmp_path)):
        with pytest.raises(ValueError, match="no"):
            keep({"a": 1}, fail)
        assert keep({"a": 1}, lambda: {"b": 2}) == {"b": 2}
