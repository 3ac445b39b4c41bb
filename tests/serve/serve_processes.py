"""The service as a process of its own, to be asked over the network, signalled and killed. Run as a program, it serves
the small desks of the tests."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
from serve_desks import TOKEN, open_written

from peerwise.environment import ARROW_ALONE, ONE_THREAD

PATIENCE = 60.0
COMMAND = [sys.executable, "-m", "peerwise", "serve"]


def until(true: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"not within {PATIENCE:g} seconds: {what}"
        time.sleep(0.02)


class Service:
    """Started at once; ``url`` waits until it is ready. What it says is in a file."""

    def __init__(self, said: Path, bundle: Path, *options: str, small: bool = False) -> None:
        self._said = said
        command = [sys.executable, __file__] if small else COMMAND
        port = () if "--port" in options else ("--port", "0")
        with said.open("w") as file:
            self.process = subprocess.Popen(
                [*command, str(bundle), *port, *options],
                stdout=subprocess.DEVNULL,
                stderr=file,
                env={**os.environ, **ONE_THREAD, **ARROW_ALONE},
                start_new_session=True,
            )

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    @property
    def said(self) -> str:
        return self._said.read_text()

    def _address(self) -> re.Match[str]:
        until(lambda: " answer at " in self.said or self.process.poll() is not None, "the service is ready")
        found = re.search(r"(https?://[^/\s]+)/(?:#token=(\S+))?", self.said)
        assert found, self.said
        return found

    @property
    def url(self) -> str:
        return self._address()[1]

    def client(self, token: str | None = None, **how: Any) -> httpx.Client:
        found = self._address()
        given = token or found[2]
        headers = {"Authorization": f"Bearer {given}"} if given else {}
        return httpx.Client(base_url=found[1], headers=headers, timeout=PATIENCE, trust_env=False, **how)

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Its exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


def save_learner(folder: Path, seed: int = 0, models: int = 4) -> None:
    """A PeerwiseClassifier over a pool of small models, half of them its own."""
    from sklearn.datasets import make_classification
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    from peerwise import PeerwiseClassifier

    X, y = make_classification(400, 5, random_state=seed)
    X = X.astype(np.float32)
    pool = {}
    for place in range(models):
        part = slice(40 * place, 40 * place + 40)
        pool[f"m{place}"] = make_pipeline(SimpleImputer(), LogisticRegression()).fit(X[part], y[part])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        PeerwiseClassifier(pool, own=[f"m{place}" for place in range(models // 2)]).fit(X[200:], y[200:]).save(folder)


def replace_bundle(old: Path, new: Path) -> None:
    """As whoever writes a bundle does it: blobs first, the manifest at once, then the old blobs go."""
    before = {path.name for path in (old / "blobs").iterdir()}
    for path in (new / "blobs").iterdir():
        shutil.copy2(path, old / "blobs" / path.name)
    shutil.copy2(new / "bundle.json", old / ".bundle.new")
    os.replace(old / ".bundle.new", old / "bundle.json")
    for name in before - {path.name for path in (new / "blobs").iterdir()}:
        (old / "blobs" / name).unlink()


def main() -> None:
    from peerwise.serve.addresses import Address
    from peerwise.serve.running import serve
    from peerwise.serve.settings import Settings

    settings = Settings(TOKEN, rate=10_000, desks=int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    tell = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731, T201
    serve(Path(sys.argv[1]), settings, Address(port=0), tell, open_desk=open_written, shown=TOKEN)


if __name__ == "__main__":
    main()
