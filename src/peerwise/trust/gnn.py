"""The meta-learner's network: two layers of heterogeneous GATv2 over the competence graph, in plain torch.

Per edge type, for destination i and its sources j:
    e_ij = a . LeakyReLU(W_s h_j + W_t h_i + W_e w_ij)      alpha_i = softmax over j of e_ij      (each head)
    out_i = mean over heads of sum_j alpha_ij W_s h_j + b
Messages of the edge types are summed, then ReLU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from peerwise.space.graph import Incoming, TrainGraph
from peerwise.trust.attention import SLOPE, Attend
from peerwise.trust.lanes import LANES


@dataclass(frozen=True)
class Edges:
    """Edges into n destinations, sorted by destination, as tensors."""

    count: Tensor  # (n,) edges of each destination
    start: Tensor  # (n,)
    source: Tensor  # (E,)
    weight: Tensor  # (E,)

    @classmethod
    def of(cls, edges: Incoming, device: str = "cpu") -> Edges:
        start = torch.as_tensor(edges.start, device=device)
        count = start[1:] - start[:-1]
        return cls(
            count,
            start[:-1],
            torch.as_tensor(edges.source, device=device),
            torch.as_tensor(edges.weight, device=device),
        )

    def into(self, rows: Tensor) -> Edges:
        """The edges into some of the destinations only."""
        count = self.count[rows]
        first = torch.cumsum(count, 0) - count
        shift = torch.repeat_interleave(self.start[rows] - first, count)
        picked = torch.arange(len(shift), device=shift.device) + shift
        return Edges(count, first, self.source[picked], self.weight[picked])


class GATv2(nn.Module):
    """One edge type of one layer; heads are averaged, there are no self-loops."""

    def __init__(self, width: int, heads: int, dropout: float, edge_weights: bool) -> None:
        super().__init__()
        self.heads, self.width, self.dropout = heads, width, dropout
        self.source = nn.Linear(width, heads * width)
        self.target = nn.Linear(width, heads * width)
        self.edge = nn.Linear(1, heads * width, bias=False) if edge_weights else None
        self.attention = nn.Parameter(torch.empty(heads, width))
        self.bias = nn.Parameter(torch.zeros(width))
        for weight in (self.source.weight, self.target.weight, self.attention):
            nn.init.xavier_uniform_(weight)
        nn.init.zeros_(self.source.bias)
        nn.init.zeros_(self.target.bias)

    def forward(self, sent: Tensor, h: Tensor, edges: Edges) -> Tensor:
        """``sent``: W_s h_j of every possible source (n_source, heads * width); ``h``: the destinations' states."""
        kept = functional.dropout(sent.new_ones(len(edges.source), self.heads), self.dropout, self.training)
        fits = sent.device.type == "cpu" and sent.dtype == torch.float32 and self.width % LANES == 0
        messages = self._kernel if fits else self._tensors
        return messages(sent, self.target(h), edges, kept) + self.bias

    def _kernel(self, sent: Tensor, target: Tensor, edges: Edges, kept: Tensor) -> Tensor:
        edge = self._edge_weight().reshape(-1)
        where = (edges.start, edges.count, edges.source, edges.weight)
        out: Tensor = Attend.apply(sent, target, self.attention, edge, *where, kept)  # type: ignore[no-untyped-call]
        return out

    def _tensors(self, sent: Tensor, target: Tensor, edges: Edges, kept: Tensor) -> Tensor:
        sources = sent[edges.source].view(-1, self.heads, self.width)
        at = torch.repeat_interleave(torch.arange(len(target), device=sent.device), edges.count)
        joined = sources + target.view(-1, self.heads, self.width)[at]
        joined = joined + edges.weight[:, None, None] * self._edge_weight()
        scores = (functional.leaky_relu(joined, float(SLOPE)) * self.attention).sum(-1)
        # The maximum only keeps exp in range; softmax does not change with it, so no gradient flows through it.
        lowest = scores.new_full((len(target), self.heads), -torch.inf)
        highest = lowest.scatter_reduce(0, at[:, None].expand_as(scores), scores.detach(), "amax")
        raised = torch.exp(scores - highest[at])
        total = torch.zeros_like(highest).index_add(0, at, raised)
        messages = torch.einsum("eh,ehd->ed", kept * raised / total[at], sources) / self.heads
        return sent.new_zeros(len(target), self.width).index_add(0, at, messages)

    def _edge_weight(self) -> Tensor:
        if self.edge is None:
            return self.attention.new_zeros(self.heads, self.width)
        return self.edge.weight.view(self.heads, self.width)


class Layer(nn.Module):
    """Messages into samples, from samples and from models, summed."""

    def __init__(self, width: int, heads: int, dropout: float, edge_weights: bool) -> None:
        super().__init__()
        self.samples = GATv2(width, heads, dropout, edge_weights)
        self.classifiers = GATv2(width, heads, dropout, edge_weights)

    def forward(self, sent: tuple[Tensor, Tensor], h: Tensor, samples: Edges, classifiers: Edges) -> Tensor:
        return functional.relu(self.samples(sent[0], h, samples) + self.classifiers(sent[1], h, classifiers))

    def send(self, h_samples: Tensor, h_classifiers: Tensor) -> tuple[Tensor, Tensor]:
        return self.samples.source(h_samples), self.classifiers.source(h_classifiers)


@dataclass(frozen=True)
class Sent:
    """What train rows and models send in each layer: all that a query needs of the graph."""

    first: tuple[Tensor, Tensor]
    second: tuple[Tensor, Tensor]


class MetaNet(nn.Module):
    """Sample features -> one competence logit a model.

    Linear to ``hidden`` for each node type; two layers; the head reads the last sample state plus, with ``residual``,
    the projected input, so that a sample without any edge still speaks of itself.
    """

    def __init__(
        self,
        sample_width: int,
        classifier_width: int,
        models: int,
        *,
        hidden: int = 128,
        heads: int = 4,
        dropout: float = 0.2,
        edge_weights: bool = True,
        residual: bool = True,
    ) -> None:
        super().__init__()
        self.residual, self.dropout = residual, dropout
        self.sample_in = nn.Linear(sample_width, hidden)
        self.classifier_in = nn.Linear(classifier_width, hidden)
        self.first = Layer(hidden, heads, dropout, edge_weights)
        self.back = GATv2(hidden, heads, dropout, edge_weights)
        self.second = Layer(hidden, heads, dropout, edge_weights)
        self.out = nn.Linear(hidden, models)

    def send(self, graph: TorchGraph) -> Sent:
        """Run the train graph once: what train rows and models send to anybody."""
        h0, c0 = self.sample_in(graph.features), self.classifier_in(graph.classifier_features)
        first = self.first.send(h0, c0)
        h1 = self._drop(self.first(first, h0, graph.samples, graph.classifiers))
        return Sent(first, self.second.send(h1, self._classifiers(h0, c0, graph)))

    def train_scores(self, graph: TorchGraph, rows: Tensor) -> Tensor:
        """Competence logits of some train rows, inside their own graph.

        Layer 1 is run for these rows and their neighbours only: the rest of the graph has no part in the answer.
        """
        h0, c0 = self.sample_in(graph.features), self.classifier_in(graph.classifier_features)
        samples, classifiers = graph.samples.into(rows), graph.classifiers.into(rows)
        near = torch.unique(torch.cat([rows, samples.source]))
        some = graph.samples.into(near), graph.classifiers.into(near)
        h1 = self._drop(self.first(self.first.send(h0, c0), h0[near], *some))
        second = self.second.send(h1, self._classifiers(h0, c0, graph))
        place = torch.searchsorted(near, samples.source)
        h2 = self.second(second, h1[torch.searchsorted(near, rows)], replace(samples, source=place), classifiers)
        return self._read(h2, h0[rows])

    def _classifiers(self, h0: Tensor, c0: Tensor, graph: TorchGraph) -> Tensor:
        """The models' states after layer 1; one that no train row chose keeps its projected features."""
        received = functional.relu(self.back(self.back.source(h0), c0, graph.back))
        return self._drop(torch.where((graph.back.count > 0)[:, None], received, c0))

    def query_scores(self, sent: Sent, features: Tensor, samples: Edges, classifiers: Edges) -> Tensor:
        """Competence logits of rows that only receive."""
        h0 = self.sample_in(features)
        h1 = self._drop(self.first(sent.first, h0, samples, classifiers))
        h2 = self.second(sent.second, h1, samples, classifiers)
        return self._read(h2, h0)

    def _read(self, h2: Tensor, h0: Tensor) -> Tensor:
        scores: Tensor = self.out(h2 + h0 if self.residual else h2)
        return scores

    def _drop(self, h: Tensor) -> Tensor:
        return functional.dropout(h, self.dropout, self.training)


@dataclass(frozen=True)
class TorchGraph:
    """A train graph as tensors, with the sample features."""

    features: Tensor
    classifier_features: Tensor
    samples: Edges
    classifiers: Edges
    back: Edges

    @classmethod
    def of(cls, graph: TrainGraph, features: Tensor, device: str = "cpu") -> TorchGraph:
        return cls(
            features,
            torch.as_tensor(graph.classifier_features, device=device),
            Edges.of(graph.samples, device),
            Edges.of(graph.classifiers, device),
            Edges.of(graph.back, device),
        )
