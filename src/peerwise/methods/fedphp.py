"""FedPHP: FedAvg whose sites inherit what they were, and learn from it again."""

from __future__ import annotations

from typing import Unpack

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from peerwise.data import Site
from peerwise.methods.averaging import Weights
from peerwise.methods.by_rounds import Budget
from peerwise.methods.fedavg import FedAvg
from peerwise.methods.steps import within
from peerwise.models.nets import Net
from peerwise.models.training import Batch
from peerwise.parcels import Parcel

BANDWIDTHS = (10.0, 15.0, 20.0, 50.0)


class FedPHP(FedAvg):
    """Federated personalisation with inherited private models (Li et al., ECML PKDD 2021).

    loss = (1 - lam) CE + lam MMD^2(h(x), h_p(x));   after training:  p <- (1 - mu_t) w_i + mu_t p,   mu_t = mu t / T

    h, h_p: embeddings by the net in training, which starts from the weights received, and by the inherited private net
    p; MMD with Gaussian kernels of variance 10, 15, 20 and 50, summed. A site's first training is plain. Sent and
    received: the parameters of w, averaged as in FedAvg. Answers come from p, the running mean of the site's own
    trained nets, as in the paper; the public code answers with the net just trained, and its lam = 1 would drop CE.
    Departs from the paper: of its kinds of transfer, MMD alone.
    """

    def __init__(self, lam: float = 0.05, mu: float = 0.9, **budget: Unpack[Budget]) -> None:
        super().__init__(**budget)
        self.lam = within("lam", lam, 0, 1)
        self.mu = within("mu", mu, 0, 1)

    def share(self, site: Site, round: int) -> Parcel:
        parcel = super().share(site, round)
        trained, inherited = site.state["net"], site.state.get("personal", site.state["net"])
        site.state["personal"] = inherit(trained, inherited, self.mu * round / self.rounds)
        return parcel

    def learn(self, site: Site, net: Net, round: int) -> None:
        if "personal" not in site.state:
            return super().learn(site, net, round)
        teacher = self.net(site, "personal").eval()

        def loss(net: nn.Module, batch: Batch) -> Tensor:
            assert isinstance(net, Net)
            seen = net.embed(*batch[:-1])
            with torch.no_grad():
                known = teacher.embed(*batch[:-1])
            return (1 - self.lam) * cross_entropy(net.head(seen), batch[-1]) + self.lam * discrepancy(seen, known)

        self.fit(site, net, round, loss=loss)

    def answering(self, site: Site) -> Weights:
        key = "personal" if "personal" in site.state else "net"  # who has only listened so far has no past
        return site.state[key]  # type: ignore[no-any-return]


def inherit(trained: Weights, inherited: Weights, keep: float) -> Weights:
    """(1 - keep) trained + keep inherited; counts and column numbers are the trained net's."""
    return {
        name: value + np.float32(keep) * (inherited[name] - value) if value.dtype.kind == "f" else value
        for name, value in trained.items()
    }


def discrepancy(some: Tensor, others: Tensor) -> Tensor:
    """Squared maximum mean discrepancy of two sets of rows: mean k(a, a') + mean k(b, b') - 2 mean k(a, b),
    k(a, b) = sum over s of exp(-||a - b||^2 / (2 s))."""
    return _kernel(some, some).mean() + _kernel(others, others).mean() - 2 * _kernel(some, others).mean()


def _kernel(some: Tensor, others: Tensor) -> Tensor:
    # not torch.cdist, whose square root has no gradient where two rows are equal
    squares = (some.square().sum(1)[:, None] + others.square().sum(1) - 2 * some @ others.T).clamp_min(0)
    return sum((torch.exp(-squares / (2 * width)) for width in BANDWIDTHS), torch.zeros_like(squares))
