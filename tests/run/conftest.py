"""Methods of the tests, offered as an installed package would; and federations of real sites, each stage made once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from peer_sites import Sites, copied, formed

from packages import installed
from peerwise.models.worker import Worker
from peerwise.run.peer import fit


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], None]:
    def add(name: str, where: str) -> None:
        folder = tmp_path_factory.mktemp("package")
        monkeypatch.syspath_prepend(str(installed(folder, {"peerwise.methods": {name: where}}, name)))

    return add


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    """Where the tests run peers' models."""
    with Worker() as process:
        yield process


@pytest.fixture(scope="session")
def formed_once(tmp_path_factory: pytest.TempPathFactory) -> Sites:
    return formed(tmp_path_factory.mktemp("formed"))


@pytest.fixture(scope="session")
def published_once(formed_once: Sites, tmp_path_factory: pytest.TempPathFactory) -> Sites:
    sites = copied(formed_once, tmp_path_factory.mktemp("published"))
    for name in sites:
        sites.publish(name)
    return sites


@pytest.fixture(scope="session")
def fitted_once(published_once: Sites, worker: Worker, tmp_path_factory: pytest.TempPathFactory) -> Sites:
    sites = copied(published_once, tmp_path_factory.mktemp("fitted"))
    sites.pull("north", worker)
    for name in ("south", "east"):
        sites.accept("north", name)
    fit(sites["north"], worker, use_peers=True)
    return sites


@pytest.fixture
def formed_sites(formed_once: Sites, tmp_path: Path) -> Sites:
    """Three members that have published nothing yet; a copy, to be spoilt."""
    return copied(formed_once, tmp_path)


@pytest.fixture
def published_sites(published_once: Sites, tmp_path: Path) -> Sites:
    """All three have published; nobody has pulled."""
    return copied(published_once, tmp_path)


@pytest.fixture
def fitted_sites(fitted_once: Sites, tmp_path: Path) -> Sites:
    """Beyond that, north has pulled, accepted both others and fitted."""
    return copied(fitted_once, tmp_path)
