"""The learning rate of open-set nets comes to rest, because they are compared by how sure they are."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from peerwise.models.adam import Adam
from peerwise.models.nets import Net
from peerwise.models.open_set import learning
from peerwise.models.open_set.learning import OpenPlan, learn_open
from peerwise.models.open_set.losses import Terms
from peerwise.models.open_set.outliers import Outliers


class Watched(Adam):
    """Notes the rate of every step."""

    used: list[float] = []  # noqa: RUF012

    def step(self) -> None:
        Watched.used.append(self.param_groups[0]["lr"])
        super().step()


@pytest.mark.parametrize("phased", [False, True])
def test_the_rate_falls_along_a_line_over_all_phases(monkeypatch: pytest.MonkeyPatch, phased: bool) -> None:
    monkeypatch.setattr(learning, "Adam", Watched)
    Watched.used = []
    net = Net(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 3)), None, seed=0)
    outliers = Outliers(lambda rows: rows.flip(0), lambda rows: rows.roll(1, 0), torch.ones(3))
    plan = OpenPlan(epochs=3, terms=Terms(smooth=True), phased=phased, batch_size=10, lr=0.1)
    learn_open(net, (torch.randn(40, 3), torch.arange(40) % 2), plan, outliers, seed=0)
    assert Watched.used == pytest.approx([0.1 * max(learning.LAST, 1 - step / 12) for step in range(12)])
