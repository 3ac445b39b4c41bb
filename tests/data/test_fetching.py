"""Fetching: checksum, cache, no half-written file. A real server on the loopback address."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import pytest

from peerwise.data.loaders.files import Remote, fetch
from peerwise.errors import BrokenFile, MissingData

CONTENT = b"rows " * 50_000


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


class BreaksOff(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[:1000])

    def log_message(self, format: str, *args: object) -> None:
        pass


def serve(handler: object) -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), handler)  # type: ignore[arg-type]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join(timeout=5)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "rows.bin").write_bytes(CONTENT)
    yield from serve(partial(Quiet, directory=str(folder)))


@pytest.fixture
def breaking_server() -> Iterator[str]:
    yield from serve(BreaksOff)


def get(base: str, cache: Path, content: bytes = CONTENT) -> Path:
    remote = Remote(f"{base}/rows.bin", "md5:" + hashlib.md5(content).hexdigest(), "rows.bin")
    return fetch("made", remote, layout="made/rows.bin", address="https://example.org/made", cache=cache)


def test_a_file_is_fetched_once_and_then_found_in_the_cache(server: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert get(server, cache).read_bytes() == CONTENT
    (tmp_path / "served" / "rows.bin").unlink()
    assert get(server, cache).read_bytes() == CONTENT
    assert [path.name for path in cache.iterdir()] == ["rows.bin"]


def test_a_wrong_checksum_is_refused_and_nothing_remains(server: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with pytest.raises(BrokenFile, match=r"does not have the checksum md5:.*nothing was kept.*example.org"):
        get(server, cache, content=b"something else")
    assert list(cache.iterdir()) == []


def test_a_damaged_file_in_the_cache_is_fetched_again(server: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "rows.bin").write_bytes(CONTENT[:100])
    assert get(server, cache).read_bytes() == CONTENT


def test_a_good_file_stays_when_its_new_version_is_bad(server: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    get(server, cache)
    with pytest.raises(BrokenFile):
        get(server, cache, content=b"a newer checksum that the server does not have")
    assert (cache / "rows.bin").read_bytes() == CONTENT


def test_a_download_that_breaks_off_leaves_nothing(breaking_server: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with pytest.raises((BrokenFile, MissingData)):
        get(breaking_server, cache)
    assert list(cache.iterdir()) == []


def test_without_network_one_sentence_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        MissingData, match=r"get it from https://example.org/made, lay it out as made/rows.bin"
    ) as caught:
        get("http://127.0.0.1:9", tmp_path / "cache")
    assert "PEERWISE_DATA" in str(caught.value)
    assert list((tmp_path / "cache").glob("*")) == []


def test_a_page_that_is_not_there_is_no_data(server: str, tmp_path: Path) -> None:
    (tmp_path / "served" / "rows.bin").unlink()
    with pytest.raises(MissingData, match="HTTPError"):
        get(server, tmp_path / "cache")
    assert list((tmp_path / "cache").glob("*")) == []
