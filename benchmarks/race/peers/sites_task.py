"""One FedAvg task for packages that simulate rounds: its nets, the rows of every site, CPU seconds at round ends."""

from __future__ import annotations

import json
import resource
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn


class Cnn8(nn.Module):
    """Peerwise's ``cnn8`` on 28x28 grey pixels, in the memory order in which CPU convolutions are fastest."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(1, 8, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()),
            *(nn.Conv2d(8, 16, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10)),
        )

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.body(x.contiguous(memory_format=torch.channels_last))
        return logits


class Mlp64(nn.Module):
    """784-64-10."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.body(x)
        return logits


NETS: dict[str, type[nn.Module]] = {"cnn8": Cnn8, "mlp64": Mlp64}


@dataclass
class Task:
    """``train``: the rows and labels of each site, pixels from -1 to 1; ``val`` and ``test``: those of all sites
    together, ``val`` with the site of each row."""

    net: nn.Module
    train: list[tuple[Tensor, Tensor]]
    val: tuple[Tensor, Tensor, Tensor]
    test: tuple[Tensor, Tensor]

    @torch.no_grad()
    def accuracy(self) -> float:
        self.net.eval()
        return float((self.net(self.test[0]).argmax(dim=1) == self.test[1]).double().mean())


def load_task(file: str | Path, net: str) -> Task:
    with np.load(file) as arrays:
        client, split, labels = arrays["client"], arrays["split"], torch.from_numpy(arrays["y"].astype(np.int64))
        rows = torch.from_numpy(arrays["x"]).unsqueeze(1).to(torch.float32) / 127.5 - 1.0
        sites = json.loads(str(arrays["meta"]))["num_clients"]
    of_site = [torch.from_numpy(np.flatnonzero((client == site) & (split == 0))) for site in range(sites)]
    val, test = torch.from_numpy(split == 1), torch.from_numpy(split == 2)
    torch.manual_seed(0)
    return Task(
        NETS[net](),
        [(rows[each], labels[each]) for each in of_site],
        (rows[val], labels[val], torch.from_numpy(client.astype(np.int64))[val]),
        (rows[test], labels[test]),
    )


class RoundEnds:
    """CPU seconds of this process and its children since it began, imports included, at the end of each round."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def note(self) -> None:
        spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        self.seconds.append(sum(each.ru_utime + each.ru_stime for each in spent))
