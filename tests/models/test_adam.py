"""The optimiser: torch's numbers without torch's compiler."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from peerwise.models.adam import Adam


class Branches(nn.Module):
    """One of its layers has no part in the answer, so it never has a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.used = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
        self.unused = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Any:
        return self.used(x)


def trained(make: Callable[[Any], Any], memory_format: torch.memory_format) -> list[Tensor]:
    torch.manual_seed(0)
    net = Branches().to(memory_format=memory_format)  # type: ignore[call-overload]
    x, y = torch.rand(64, 1, 8, 8), torch.randint(0, 3, (64,))
    optimiser = make(net.parameters())
    for step in range(40):
        optimiser.param_groups[0]["lr"] = 0.01 / (1 + step // 10)
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimiser.step()
    return [parameter.detach() for parameter in net.parameters()]


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_it_takes_the_very_steps_of_torch(memory_format: torch.memory_format) -> None:
    ours = trained(lambda parameters: Adam(parameters, lr=1.0), memory_format)
    theirs = trained(lambda parameters: torch.optim.Adam(parameters, lr=1.0, fused=True), memory_format)
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))


TRAINING = """
import sys
import numpy as np
from peerwise.data import Rows
from peerwise.models import find_recipe
X, y = np.random.default_rng(0).integers(0, 256, (40, 1, 28, 28)).astype(np.uint8), np.arange(40) % 2
find_recipe("cnn8").fit(Rows(X, y), None, classes=2, features=(), seed=0, max_epochs=1).to_onnx()
sys.stdout.write(" ".join(name for name in ("torch._dynamo", "sympy") if name in sys.modules))
"""


def test_training_a_net_does_not_import_a_compiler() -> None:
    done = subprocess.run([sys.executable, "-c", TRAINING], capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout == ""
