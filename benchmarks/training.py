"""Base training: our loop against a plainly written torch loop on the same rows, and what bounds a step; one thread.

python benchmarks/training.py [--nets lenet5,cnn16,cnn8] [--rows 320] [--epochs 3]

The plain loop has the same layers in torch's default memory order and torch.optim.Adam as it comes. Both run in turn,
and the least CPU time of --repeats counts. What a step costs whatever its batch (Python, dispatch, choosing kernels,
optimiser) is where the straight line through the times of 4 and of 32 rows meets no rows.
"""

from __future__ import annotations

import argparse
import copy
import math

import measure
import numpy as np
import torch
from torch import Tensor, nn

from peerwise.models.training import train
from peerwise.models.zoo import find_build

BATCH, SMALL = 32, 4


class Plain(nn.Module):
    """The layers of one of our nets, in the default memory order."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.body = copy.deepcopy(net.body).to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.body(x.to(torch.float32) / 127.5 - 1.0)
        return logits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", default="lenet5,cnn16,cnn8")
    for name, default in {"rows": 320, "epochs": 3, "repeats": 6}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    a = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (a.rows, 1, 28, 28), dtype=np.uint8)
    X, y = torch.from_numpy(pixels), torch.from_numpy(rng.integers(0, 10, a.rows))
    peak = gemm_peak()
    print(f"matrix product of 1,024: {peak:.0f} GFLOP/s; milliseconds a step of {BATCH} rows")
    for name in a.nets.split(","):
        torch.manual_seed(0)
        net = find_build(name)(pixels, (), 10)
        ours, small, plain = step_seconds(net, X, y, a.epochs, a.repeats)
        fixed = small - SMALL * (ours - small) / (BATCH - SMALL)
        work = 3 * BATCH * flops(net, X[:1]) / 1e9
        print(
            f"{name:>9}: ours {1000 * ours:.2f}, plain {1000 * plain:.2f}, ratio {plain / ours:.2f} x; "
            f"{work / ours:.0f} GFLOP/s; at the peak {1000 * work / peak:.2f} ({100 * work / peak / ours:.0f} %), "
            f"whatever the batch {1000 * fixed:.2f} ({100 * fixed / ours:.0f} %)"
        )
    print(measure.load_line())


def step_seconds(net: nn.Module, X: Tensor, y: Tensor, epochs: int, repeats: int) -> tuple[float, float, float]:
    """CPU seconds of a step: ours, ours with a small batch, the plain loop's."""
    few, other = 10 * SMALL, Plain(net)
    found = [
        (
            measure.timed(lambda: _ours(net, X, y, BATCH, epochs))[0] / math.ceil(len(X) / BATCH),
            measure.timed(lambda: _ours(net, X[:few], y[:few], SMALL, epochs))[0] / 10,
            measure.timed(lambda: _plain(other, X, y, epochs))[0] / math.ceil(len(X) / BATCH),
        )
        for _ in range(repeats)
    ]
    ours, small, plain = (min(times) / epochs for times in zip(*found, strict=True))
    return ours, small, plain


def gemm_peak() -> float:
    a, b = torch.rand(1024, 1024), torch.rand(1024, 1024)
    return 2 * 1024**3 / measure.fastest(lambda: a @ b, 20) / 1e9


def flops(net: nn.Module, row: Tensor) -> float:
    """Of the multiplications and additions of one row's forward pass; a step takes about three times as many."""
    found = []

    def count(layer: nn.Module, _: object, output: Tensor) -> None:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            found.append(2 * output.numel() * layer.weight[0].numel())

    hooks = [layer.register_forward_hook(count) for layer in net.modules()]
    with torch.no_grad():
        net(row)
    for hook in hooks:
        hook.remove()
    return float(sum(found))


def _ours(net: nn.Module, X: Tensor, y: Tensor, batch: int, epochs: int) -> None:
    train(net, (X, y), epochs=epochs, batch_size=batch, patience=None)


def _plain(net: nn.Module, X: Tensor, y: Tensor, epochs: int) -> None:
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4)
    for _ in range(epochs):
        order = torch.randperm(len(X))
        for start in range(0, len(X), BATCH):
            pick = order[start : start + BATCH]
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(X[pick]), y[pick])
            loss.backward()
            optimizer.step()
            loss.item()


if __name__ == "__main__":
    main()
