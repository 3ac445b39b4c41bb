"""What bounds each phase of ours: its rate beside what one core of this machine can do at most.

The most is measured here: a product of large matrices for arithmetic, a sum of arrays larger than any cache for memory.
A fixed cost for each training step, whatever the batch, is what Python and the dispatch of operations take.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from race.processes import cores, ours
from race.settings import Race

BATCHES = (8, 16, 32, 64, 128)
NETS = ("lenet5", "cnn16", "cnn8")


def measure(race: Race) -> dict[str, Any]:
    rows = race.size.rows_fixed
    return ours("race.bounds:rates", cores()[:1], rows=rows, models=race.size.models_fixed)["said"]


def rates(rows: int, models: int) -> dict[str, Any]:
    from peerwise.models import one_thread

    with one_thread():
        machine = {"single": _product(np.float32), "double": _product(np.float64), "memory": _memory()}
        training = {net: _training(net) for net in NETS}
        outputs = {net: _outputs(net) for net in NETS}
        return {
            "machine": machine,
            "training": training,
            "outputs": outputs,
            "fit": _fit(rows, models),
            "neighbours": _neighbours(rows, models),
        }


def _best(work: Callable[[], Any], seconds: float = 0.7) -> float:
    """The shortest of the calls that go into so many seconds, at least three."""
    spent: list[float] = []
    work()
    until = time.perf_counter() + seconds
    while len(spent) < 3 or time.perf_counter() < until:
        started = time.perf_counter()
        work()
        spent.append(time.perf_counter() - started)
    return min(spent)


def _product(kind: Any, size: int = 1024) -> float:
    """Floating point operations a second of a matrix product."""
    a = np.random.default_rng(0).normal(size=(size, size)).astype(kind)
    return 2 * size**3 / _best(lambda: a @ a)


def _memory(numbers: int = 2**25) -> float:
    """Bytes a second of a = b + c over arrays of 128 MB: two are read and one is written."""
    b, c, a = (np.ones(numbers, dtype=np.float32) for _ in range(3))
    return 3 * b.nbytes / _best(lambda: np.add(b, c, out=a))


def _training(name: str) -> dict[str, float]:
    """One step of base training with batches of 32: operations a second, and the share of a step that no row adds."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from peerwise.models.adam import Adam
    from peerwise.models.training import cross_entropy

    net, X, y = _net(name), _images(max(BATCHES)), torch.arange(max(BATCHES)) % 10
    loss, optimizer = cross_entropy(torch.ones(10)), Adam(net.parameters(), lr=1e-3)

    def step(size: int) -> None:
        optimizer.zero_grad()
        loss(net, (X[:size], y[:size])).backward()
        optimizer.step()

    seconds = [_best(lambda size=size: step(size), 0.4) for size in BATCHES]
    a_row, fixed = np.polyfit(BATCHES[:4], seconds[:4], 1)
    with FlopCounterMode(display=False) as counter:
        step(32)
    step_seconds = seconds[BATCHES.index(32)]
    rate = counter.get_total_flops() / step_seconds
    return {"step": step_seconds, "rate": rate, "fixed": float(max(fixed, 0.0) / step_seconds), "a_row": float(a_row)}


def _outputs(name: str) -> dict[str, float]:
    """What a pool's model says of 400 rows, as onnxruntime runs it."""
    from torch.utils.flop_counter import FlopCounterMode

    from peerwise.models import OnnxModel
    from peerwise.models.fitted import NetFitted

    net, X = _net(name), _images(400)
    model = OnnxModel(NetFitted(net, X[:1].numpy(), None).to_onnx(), name=name)
    with FlopCounterMode(display=False) as counter:
        net(X)
    seconds = _best(lambda: model.predict_logits(X.numpy()))
    return {"seconds": seconds, "rate": counter.get_total_flops() / seconds}


def _net(name: str) -> Any:
    from peerwise.models.zoo import find_build

    return find_build(name)(_images(1).numpy(), (), 10)


def _images(rows: int) -> Any:
    import torch

    return torch.randint(0, 256, (rows, 1, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def _fit(rows: int, models: int, classes: int = 10) -> dict[str, float]:
    """Fitting PeerwiseClassifier's kernel over the decision space, which is most of its fit: with n rows, d numbers
    a row, and for each of two widths, similarities three times 2 n n d, products twice 2 n n n, a Cholesky factor
    n^3 / 3, three triangular solutions n^3 each, and eigenvectors, about 9 n^3."""
    from peerwise.trust.kernel import WIDTHS, Smooth

    rng = np.random.default_rng(0)
    n, d = min(rows, 1000), models * classes
    features, y = rng.random((n, d), dtype=np.float32), rng.integers(0, classes, n)
    targets = np.eye(classes, dtype=np.float32)[y]
    seconds = _best(lambda: Smooth.fit(features, targets, y, classes, 0))
    work = len(WIDTHS) * (3 * 2 * n * n * d + (4 + 1 / 3 + 3 + 9) * n**3)
    return {"rows": n, "width": d, "seconds": seconds, "rate": work / seconds}


def _neighbours(rows: int, models: int, classes: int = 10, queries: int = 500) -> dict[str, float]:
    """The class-aware neighbours: three operations for each number of each pair of rows; and how fast the numbers of
    the train rows pass by, as if each were read from memory."""
    from pools import decision_vectors

    from peerwise.space.neighbours import neighbourhood

    vectors, y = decision_vectors(rows + queries, models, classes)
    train, asked = vectors[:rows], vectors[rows:]
    seconds = _best(lambda: neighbourhood(asked, train, y[:rows], 5))
    pairs = rows * queries * vectors.shape[1]
    return {"rows": rows, "seconds": seconds, "rate": 3 * pairs / seconds, "bytes": 4 * pairs / seconds}
