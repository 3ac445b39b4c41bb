"""The service against calling the same pool directly: latency of one case, many clients at once, start to first answer.

python benchmarks/serving.py [--repeats 500] [--seconds 60] [--clients 50] [--restarts 5] [--models 12 20]

One run. The tables: a saved PeerwiseClassifier over ``--models`` sklearn models of four sites (one case as JSON) and
small CNNs of ten sites (one 28 px image as PNG), the first site's models being the service's own. The service is a
process of its own and is asked over one connection that is kept open; directly, the saved learner answers in this
process, and so does the one that was saved, with its sklearn or torch models. All three take turns, on different rows
each time. Then ``--clients`` ask at once for ``--seconds``; memory is that of the service and of its worker. One thread
a process.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import measure
import numpy as np
import psutil
from PIL import Image

ROWS = 300  # to fit, and as many to ask about
FEATURES = 13
SIDE = 28
PATIENCE = 120.0
JSON, PNG = {"Content-Type": "application/json"}, {"Content-Type": "image/png"}

Body = tuple[bytes, dict[str, str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--restarts", type=int, default=5)
    parser.add_argument("--models", type=int, nargs=2, default=[12, 20], metavar=("SKLEARN", "CNN"))
    a = parser.parse_args()
    warnings.simplefilter("ignore")
    print(measure.load_line())
    with tempfile.TemporaryDirectory() as folder:
        table, cases = _table(Path(folder) / "table", a.models[0])
        images, pictures = _images(Path(folder) / "images", a.models[1])
        print(f"{'one case, ms':<48} {'least':>8} {'p50':>8} {'p99':>8}")
        _latency(f"table, {a.models[0]} sklearn models", Path(folder) / "table", table, cases, a.repeats)
        _latency(f"image, {a.models[1]} small CNNs", Path(folder) / "images", images, pictures, a.repeats)
        _many(Path(folder) / "table", cases, a.clients, a.seconds)
        _restarts(Path(folder) / "table", cases[0][1], a.restarts)
    print(measure.load_line())


# ---- bundles -------------------------------------------------------------------------------------------------------


def _table(folder: Path, models: int) -> tuple[Any, list[tuple[Any, Body]]]:
    from sklearn.datasets import make_classification
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    from peerwise import PeerwiseClassifier

    per_site = 60
    X, y = make_classification(2 * ROWS + models * per_site, FEATURES, random_state=0)
    X = X.astype(np.float32)
    kinds = (LogisticRegression(max_iter=500), RandomForestClassifier(50), MLPClassifier((16,), max_iter=200))
    pool = {}
    for place in range(models):
        part = slice(2 * ROWS + place * per_site, 2 * ROWS + (place + 1) * per_site)
        kind = kinds[place % 3]
        made = type(kind)(**kind.get_params()).set_params(random_state=place)
        pool[f"model{place}"] = made.fit(X[part], y[part])
    own = [f"model{place}" for place in range(min(3, models - 1))]
    learner = PeerwiseClassifier(pool, own=own, random_state=0).fit(X[:ROWS], y[:ROWS])
    learner.save(folder)
    asked = X[ROWS : 2 * ROWS]
    bodies = [
        json.dumps({"row": {f"x{place}": float(value) for place, value in enumerate(row)}}).encode() for row in asked
    ]
    return learner, [(asked[place : place + 1], (body, JSON)) for place, body in enumerate(bodies)]


def _images(folder: Path, models: int) -> tuple[Any, list[tuple[Any, Body]]]:
    import torch

    from peerwise import PeerwiseClassifier
    from peerwise.models import wrap
    from peerwise.models.zoo import find_build

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    X = rng.integers(0, 256, (2 * ROWS, 1, SIDE, SIDE)).astype(np.uint8)
    y = rng.integers(0, 10, len(X))
    pool = []
    for place in range(models):
        torch.manual_seed(place)
        net = find_build("small_cnn")(X, (), 10).eval()
        pool.append(wrap(net, name=f"cnn{place}", classes=range(10)))
    learner = PeerwiseClassifier(pool, own=[f"cnn{place}" for place in range(min(2, models - 1))], random_state=0)
    learner.fit(X[:ROWS], y[:ROWS]).save(folder)
    asked = X[ROWS:]
    return learner, [(asked[place : place + 1], (_png(row[0]), PNG)) for place, row in enumerate(asked)]


def _png(pixels: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


# ---- the service ---------------------------------------------------------------------------------------------------


@contextmanager
def _service(bundle: Path) -> Iterator[tuple[psutil.Process, int]]:
    """The process and its port; it listens before it is ready, and answers when it is."""
    port = _free_port()
    options = ["--port", str(port), "--no-token", "--quiet", "--rate", "1000000", "--queue", "256"]
    command = [sys.executable, "-m", "peerwise", "serve", str(bundle), *options]
    process = subprocess.Popen(command, env={**os.environ, **measure.SINGLE}, stderr=subprocess.DEVNULL)
    try:
        yield psutil.Process(process.pid), port
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _connected(port: int, process: psutil.Process) -> http.client.HTTPConnection:
    end = time.monotonic() + PATIENCE
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    while time.monotonic() < end and process.is_running():
        try:
            connection.connect()
            return connection
        except ConnectionRefusedError:
            time.sleep(0.005)
    raise SystemExit(f"the service did not listen within {PATIENCE:g} s")


def _asked(connection: http.client.HTTPConnection, body: Body) -> dict[str, Any]:
    connection.request("POST", "/v1/predict", *body)
    answer = connection.getresponse()
    said: dict[str, Any] = json.loads(answer.read())
    if answer.status != 200:
        raise SystemExit(f"the service answered {answer.status}: {said}")
    return said


# ---- figures -------------------------------------------------------------------------------------------------------


def _latency(name: str, bundle: Path, original: Any, cases: list[tuple[Any, Body]], repeats: int) -> None:
    from peerwise import PeerwiseClassifier

    loaded = PeerwiseClassifier.load(bundle)
    with _service(bundle) as (process, port):
        connection = _connected(port, process)
        ways: dict[str, Callable[[Any, Body], Any]] = {
            "over HTTP": lambda X, body: _asked(connection, body)["answers"][0]["probabilities"],
            "directly": lambda X, body: loaded.predict_proba(X),
            "directly, original models": lambda X, body: original.predict_proba(X),
        }
        _agree(*(np.asarray(list(_values(ask(*cases[0])))) for ask in ways.values()))
        times: dict[str, list[float]] = {way: [] for way in ways}
        for turn in range(repeats):
            for way, ask in ways.items():
                _forget(loaded, original)
                started = time.perf_counter()
                ask(*cases[turn % len(cases)])
                times[way].append(1e3 * (time.perf_counter() - started))
    found = {way: np.percentile(taken, (0, 50, 99)) for way, taken in times.items()}
    for way, figures in found.items():
        _line(name if way == "over HTTP" else "", way, figures)
    _line("", "overhead", found["over HTTP"] - found["directly"])
    _line("", "ratio", found["over HTTP"] / found["directly"])


def _line(name: str, way: str, figures: Any) -> None:
    """The least is what is left when nothing disturbs."""
    print(f"{name:<22} {way:<25}" + "".join(f" {value:>8.2f}" for value in figures))


def _forget(*learners: Any) -> None:
    """A pool keeps its last answers; here each row is new."""
    for learner in learners:
        learner.pool_._kept.clear()


def _values(said: Any) -> Any:
    return said.values() if isinstance(said, dict) else said[0]


def _agree(*answers: Any) -> None:
    for other in answers[1:]:
        if not np.allclose(answers[0], other, atol=0.02):
            raise SystemExit(f"the answers differ: {answers}")


def _many(bundle: Path, cases: list[tuple[Any, Body]], clients: int, seconds: float) -> None:
    with _service(bundle) as (process, port):
        _asked(_connected(port, process), cases[0][1])
        found = asyncio.run(_load(process, port, [body for _, body in cases], clients, seconds))
    taken = np.sort(1e3 * np.asarray(found["taken"]))
    half, most = np.percentile(taken, (50, 99))
    print(
        f"{clients} clients for {seconds:g} s: {found['errors']} errors in {len(taken)} requests, "
        f"{len(taken) / seconds:.0f} a second, p50 {half:.0f} ms, p99 {most:.0f} ms"
    )
    for when, (own, workers) in found["memory"].items():
        print(f"  memory {when:<8} service {own:.0f} MB, workers {workers:.0f} MB")
    start, end = (sum(found["memory"][when]) for when in ("warm", "end"))
    print(f"  growth from warm to end: {end - start:+.1f} MB, ratio {end / start:.3f}")


async def _load(process: psutil.Process, port: int, bodies: list[Body], clients: int, seconds: float) -> dict[str, Any]:
    """``warm`` is after a tenth of the time, when every buffer has had its use."""
    found: dict[str, Any] = {"taken": [], "errors": 0, "memory": {"start": _memory(process)}}
    end = time.perf_counter() + seconds

    async def client(first: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        turn = first
        while time.perf_counter() < end:
            started = time.perf_counter()
            status = await _exchange(reader, writer, bodies[turn % len(bodies)])
            found["taken"].append(time.perf_counter() - started)
            found["errors"] += status != 200
            turn += 1
        writer.close()

    async def watch() -> None:
        for when, share in (("warm", 0.1), ("middle", 0.5), ("end", 0.95)):
            await asyncio.sleep(max(0.0, end - seconds * (1 - share) - time.perf_counter()))
            found["memory"][when] = _memory(process)

    await asyncio.gather(watch(), *(client(place) for place in range(clients)))
    return found


async def _exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: Body) -> int:
    content, headers = body
    lines = [f"{name}: {value}" for name, value in {**headers, "Content-Length": str(len(content))}.items()]
    writer.write("\r\n".join(["POST /v1/predict HTTP/1.1", "Host: localhost", *lines, "", ""]).encode() + content)
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(head.partition("content-length:")[2].partition("\r\n")[0])
    await reader.readexactly(length)
    return int(head.split()[1])


def _memory(process: psutil.Process) -> tuple[float, float]:
    """Of the service, and of all processes below it; their own pages, as shared ones depend on who else runs."""
    own = process.memory_full_info().uss / measure.MEGABYTE
    below = [child.memory_full_info().uss for child in process.children(recursive=True)]
    return own, sum(below) / measure.MEGABYTE


def _restarts(bundle: Path, body: Body, times: int) -> None:
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        with _service(bundle) as (process, port):
            _asked(_connected(port, process), body)
            taken.append(time.perf_counter() - started)
    print(f"restart to first answer: {np.median(taken):.2f} s (of {times}, {min(taken):.2f} to {max(taken):.2f})")


if __name__ == "__main__":
    main()
