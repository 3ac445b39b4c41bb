"""FedAvg as a loop of plain torch: python bare_rounds.py '{"how": "plain", "lean" or "scored", "file": ..., ...}'.

Plain: as most people would write it, with a copied net, torch.optim and state_dict. Lean: nothing that the arithmetic
does without, but one site after the other: the net built once, weights loaded in place, gradients by
``torch.autograd.grad``, updates by ``torch._foreach_*``. Neither evaluates anything before the end. Scored: the lean
loop, and after each round the accuracy and loss of the mean net on every site's validation rows, in one batch."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from clock import told
from sites_task import RoundEnds, Task, load_task
from torch import nn


def plain_round(task: Task, chosen: list[int], batch: int, lr: float) -> None:
    states = []
    for site in chosen:
        net = copy.deepcopy(task.net)
        net.train()
        optimizer = torch.optim.SGD(net.parameters(), lr=lr)
        X, y = task.train[site]
        for rows in torch.randperm(len(y)).split(batch):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(X[rows]), y[rows])
            loss.backward()
            optimizer.step()
        states.append((net.state_dict(), len(y)))
    total = sum(count for _, count in states)
    mean = {name: sum(state[name] * (count / total) for state, count in states) for name in states[0][0]}
    task.net.load_state_dict(mean)


def lean_round(task: Task, chosen: list[int], batch: int, lr: float) -> None:
    weights = list(task.net.parameters())
    start = [each.detach().clone() for each in weights]
    total = sum(len(task.train[site][1]) for site in chosen)
    mean = [torch.zeros_like(each) for each in start]
    for site in chosen:
        X, y = task.train[site]
        for rows in torch.randperm(len(y)).split(batch):
            loss = nn.functional.cross_entropy(task.net(X[rows]), y[rows])
            gradients = torch.autograd.grad(loss, weights)
            with torch.no_grad():
                torch._foreach_add_(weights, gradients, alpha=-lr)
        with torch.no_grad():
            torch._foreach_add_(mean, weights, alpha=len(y) / total)
            torch._foreach_copy_(weights, start)
    with torch.no_grad():
        torch._foreach_copy_(weights, mean)


@torch.no_grad()
def scores(task: Task) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean net's accuracy and loss on each site's validation rows."""
    X, y, owner = task.val
    logits = task.net(X)
    losses = nn.functional.cross_entropy(logits, y, reduction="none")
    counts = owner.bincount(minlength=len(task.train))
    right = (logits.argmax(dim=1) == y).float()
    accuracy, loss = (torch.zeros(len(counts)).index_add_(0, owner, each) / counts for each in (right, losses))
    return accuracy, loss


def run(file: str, net: str, rounds: int, batch: int, lr: float, join: float, how: str) -> dict[str, Any]:
    task, ends, rng = load_task(file, net), RoundEnds(), np.random.default_rng(0)
    one_round = plain_round if how == "plain" else lean_round
    sites = len(task.train)
    for _ in range(rounds):
        chosen = sorted(rng.choice(sites, max(1, round(join * sites)), replace=False).tolist())
        one_round(task, chosen, batch, lr)
        if how == "scored":
            scores(task)
        ends.note()
    return {"ends": ends.seconds, "accuracy": task.accuracy()}


if __name__ == "__main__":
    told(run)
