"""Where a data set's files are: in the user's folder, or fetched from the official place, whole or not at all."""

from __future__ import annotations

import gzip
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from peerwise.errors import BrokenFile, MissingData

ENVIRONMENT = "PEERWISE_DATA"


@dataclass(frozen=True)
class Remote:
    """A file at its official place, with its checksum ("md5:..." or "sha256:...")."""

    url: str
    checksum: str
    name: str


def user_folder(data_dir: str | Path | None) -> Path | None:
    """The folder the user named, by argument or by environment; None if none was named."""
    named = data_dir if data_dir is not None else os.environ.get(ENVIRONMENT) or None
    if named is None:
        return None
    path = Path(named).expanduser()
    if not path.is_dir():
        how = "data_dir" if data_dir is not None else ENVIRONMENT
        raise MissingData(f"{how} is {str(named)!r}, which is no folder; name a folder that exists.")
    return path


def first_of(folder: Path, *candidates: str) -> Path | None:
    """The first of these that lies in the folder."""
    return next((folder / name for name in candidates if (folder / name).exists()), None)


def missing(dataset: str, folder: Path | None, layout: str, address: str) -> MissingData:
    """One sentence that says what to do."""
    where = f"not found in {folder}" if folder is not None else "no data folder is named"
    return MissingData(
        f"{dataset}: {where}; get it from {address}, lay it out as {layout}, "
        f"and pass the folder above it as data_dir or set {ENVIRONMENT}."
    )


def fetch(dataset: str, remote: Remote, *, layout: str, address: str, cache: Path | None = None) -> Path:
    """Fetch a file into the cache, or find it there. A file with the wrong checksum is never kept."""
    import pooch

    folder = cache or Path(pooch.os_cache("peerwise")) / dataset
    try:
        with _Bar(remote.name) as bar:
            downloader = pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16)
            found = pooch.retrieve(
                remote.url, known_hash=remote.checksum, fname=remote.name, path=folder, downloader=downloader
            )
    except OSError as problem:  # requests' errors and a full disk are both of this kind
        sentence = missing(dataset, None, layout, address)
        raise MissingData(f"{sentence} (Fetching {remote.url} failed: {type(problem).__name__}.)") from problem
    except ValueError as problem:
        raise BrokenFile(
            f"{dataset}: {remote.url} does not have the checksum {remote.checksum}; nothing was kept. "
            f"Try again later, or get it from {address} and lay it out as {layout}."
        ) from problem
    return Path(found)


def read_bytes(path: Path) -> bytes:
    """The content of a file, unpacked if it is gzip; a truncated one is refused by name."""
    data = path.read_bytes()
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
        raise BrokenFile(f"{path} is truncated or damaged ({problem}); fetch it again.") from problem


class _Bar:
    """What pooch wants of a progress bar, drawn by rich; nothing is drawn where there is no terminal."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        console = Console(stderr=True)
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._progress.add_task(name, total=None)
        self.total = 0

    def __enter__(self) -> _Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def update(self, amount: int) -> None:
        self._progress.start()
        self._progress.update(self._task, total=self.total or None, advance=amount)

    def reset(self) -> None:
        self._progress.reset(self._task)

    def close(self) -> None:
        self._progress.stop()
