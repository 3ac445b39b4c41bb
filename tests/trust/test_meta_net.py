"""The network against PyTorch Geometric, forward and backward."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.nn import GATv2Conv, HeteroConv

from peerwise.space.graph import Incoming, TrainGraph
from peerwise.trust.gnn import Edges, GATv2, MetaNet, TorchGraph

N, QUERIES, MODELS, HIDDEN, HEADS, WIDTH = 25, 9, 5, 32, 4, 6
NEAR, KNOWS, TELLS = ("sample", "near", "sample"), ("classifier", "knows", "sample"), ("sample", "tells", "classifier")


def random_edges(rng, destinations, sources, isolated):
    """0 to 4 distinct sources a destination; some destinations have none."""
    picked = [
        [] if j in isolated else sorted(rng.choice(sources, rng.integers(0, min(5, sources + 1)), replace=False))
        for j in range(destinations)
    ]
    start = np.concatenate([[0], np.cumsum([len(p) for p in picked])]).astype(np.int64)
    source = np.array([s for p in picked for s in p], np.int64)
    return Incoming(start, source, rng.random(len(source)).astype(np.float32))


def pairs(edges, shift=0):
    """An edge list (2, E) with destinations moved by ``shift``, and its weights, as PyTorch Geometric wants them."""
    at = np.repeat(np.arange(len(edges.start) - 1), np.diff(edges.start)) + shift
    return torch.tensor(np.stack([edges.source, at])), torch.tensor(edges.weight)[:, None]


class Twin(torch.nn.Module):
    """The same network out of PyTorch Geometric's parts; queries are sample nodes that send nothing."""

    def __init__(self, net: MetaNet, edge_weights: bool) -> None:
        super().__init__()
        self.net, self.convs = net, {}
        names = {"first.samples": NEAR, "first.classifiers": KNOWS, "back": TELLS}
        names |= {"second.samples": NEAR, "second.classifiers": KNOWS}
        for name in names:
            self.convs[name] = self._copy(net.get_submodule(name), edge_weights)
        self.one = HeteroConv({kind: self.convs[n] for n, kind in names.items() if not n.startswith("second")}, "sum")
        self.two = HeteroConv({kind: self.convs[n] for n, kind in names.items() if n.startswith("second")}, "sum")

    @staticmethod
    def _copy(ours: GATv2, edge_weights: bool) -> GATv2Conv:
        conv = GATv2Conv(
            HIDDEN, HIDDEN, HEADS, concat=False, add_self_loops=False, edge_dim=1 if edge_weights else None
        )
        with torch.no_grad():
            for theirs, mine in ((conv.lin_l, ours.source), (conv.lin_r, ours.target)):
                theirs.weight.copy_(mine.weight)
                theirs.bias.copy_(mine.bias)
            if edge_weights:
                conv.lin_edge.weight.copy_(ours.edge.weight)
            conv.att.copy_(ours.attention[None])
            conv.bias.copy_(ours.bias)
        return conv

    def forward(self, samples, classifiers, edge_index, edge_attr):
        h0, c0 = self.net.sample_in(samples), self.net.classifier_in(classifiers)
        one = self.one({"sample": h0, "classifier": c0}, edge_index, edge_attr_dict=edge_attr)
        heard = torch.bincount(edge_index[TELLS][1], minlength=MODELS) > 0
        c1 = torch.where(heard[:, None], one["classifier"].relu(), c0)
        into = {kind: edge_index[kind] for kind in (NEAR, KNOWS)}
        weights = {kind: edge_attr[kind] for kind in (NEAR, KNOWS)}
        two = self.two({"sample": one["sample"].relu(), "classifier": c1}, into, edge_attr_dict=weights)
        h2 = two["sample"].relu()
        return self.net.out(h2 + h0 if self.net.residual else h2)

    def gradients(self):
        found = {}
        for name, conv in self.convs.items():
            found |= {
                f"{name}.source.weight": conv.lin_l.weight.grad,
                f"{name}.source.bias": conv.lin_l.bias.grad,
                f"{name}.target.weight": conv.lin_r.weight.grad,
                f"{name}.target.bias": conv.lin_r.bias.grad,
                f"{name}.attention": conv.att.grad[0],
                f"{name}.bias": conv.bias.grad,
            }
            if conv.lin_edge is not None:
                found[f"{name}.edge.weight"] = conv.lin_edge.weight.grad
        return found


def case(seed):
    rng = np.random.default_rng(seed)
    chosen = random_edges(rng, N, MODELS - 1, {3})  # nobody chooses the last model
    at = np.repeat(np.arange(N), np.diff(chosen.start))
    order = np.lexsort((at, chosen.source))
    counts = np.bincount(chosen.source, minlength=MODELS)
    back = Incoming(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), at[order], chosen.weight[order])
    graph = TrainGraph(
        samples=random_edges(rng, N, N, {0, 3, N - 1}),
        classifiers=chosen,
        back=back,
        classifier_features=rng.normal(size=(MODELS, 7)).astype(np.float32),
    )
    queries = random_edges(rng, QUERIES, N, {1, 4}), random_edges(rng, QUERIES, MODELS, {4, 5})
    features = rng.normal(size=(N + QUERIES, WIDTH)).astype(np.float32)
    return graph, queries, torch.tensor(features)


@pytest.mark.filterwarnings("ignore:There exist node types")
@pytest.mark.parametrize("edge_weights", [True, False])
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("seed", [0, 1])
def test_scores_and_gradients_are_those_of_pytorch_geometric(seed, edge_weights, residual):
    graph, queries, features = case(seed)
    torch.manual_seed(seed)
    net = MetaNet(WIDTH, 7, MODELS, hidden=HIDDEN, heads=HEADS, edge_weights=edge_weights, residual=residual).eval()
    for parameter in net.parameters():  # also those that start at zero
        torch.nn.init.normal_(parameter, std=0.5)
    ours = TorchGraph.of(graph, features[:N])
    rows = torch.randperm(N)[: N // 2]
    train = net.train_scores(ours, rows)
    asked = net.query_scores(net.send(ours), features[N:], *(Edges.of(edges) for edges in queries))

    twin = Twin(net, edge_weights)
    index, weight = {}, {}
    for kind, inside, outside in ((NEAR, graph.samples, queries[0]), (KNOWS, graph.classifiers, queries[1])):
        both = [pairs(inside), pairs(outside, shift=N)]
        index[kind] = torch.cat([p[0] for p in both], dim=1)
        weight[kind] = torch.cat([p[1] for p in both]) if edge_weights else None
    index[TELLS], weight[TELLS] = pairs(graph.back)
    weight = weight if edge_weights else dict.fromkeys(index)
    push = torch.randn(N + QUERIES, MODELS)
    ((train * push[rows]).sum() + (asked * push[N:]).sum()).backward()
    shared = ("sample_in", "classifier_in", "out")
    mine = {name: p.grad.clone() for name, p in net.named_parameters()}
    net.zero_grad()
    expected = twin(features, torch.tensor(graph.classifier_features), index, weight)
    torch.testing.assert_close(train, expected[rows], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(asked, expected[N:], atol=1e-5, rtol=1e-5)
    ((expected[rows] * push[rows]).sum() + (expected[N:] * push[N:]).sum()).backward()
    theirs = twin.gradients() | {n: p.grad for n, p in net.named_parameters() if n.split(".")[0] in shared}
    assert theirs.keys() == mine.keys()
    for name, gradient in theirs.items():
        scale = max(1.0, float(gradient.abs().max()))
        torch.testing.assert_close(mine[name] / scale, gradient / scale, atol=1e-5, rtol=1e-5, msg=name)


def test_a_sample_without_edges_still_speaks_of_itself():
    net = MetaNet(2, 3, 4, hidden=8, heads=2).eval()
    nothing = Incoming(np.zeros(3, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))
    none_back = Incoming(np.zeros(5, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))
    graph = TorchGraph.of(
        TrainGraph(nothing, nothing, none_back, np.ones((4, 3), np.float32)), torch.tensor([[1.0, 2.0], [-3.0, 0.5]])
    )
    scores = net.train_scores(graph, torch.arange(2))
    assert torch.isfinite(scores).all()
    assert not torch.allclose(scores[0], scores[1])


def random_layer(seed, dropout=0.0):
    graph, _, _ = case(seed)
    torch.manual_seed(seed)
    layer = GATv2(HIDDEN, HEADS, dropout, edge_weights=True)
    edges = Edges.of(graph.samples)
    sent = torch.randn(N, HEADS * HIDDEN, requires_grad=True)
    target = torch.randn(N, HEADS * HIDDEN, requires_grad=True)
    return layer, edges, sent, target


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_kernel_does_what_plain_tensors_do_under_dropout(seed):
    layer, edges, sent, target = random_layer(seed)
    kept = torch.nn.functional.dropout(torch.ones(len(edges.source), HEADS), 0.4)
    push = torch.randn(N, HIDDEN)
    found = {}
    for name, path in (("kernel", layer._kernel), ("tensors", layer._tensors)):
        out = path(sent, target, edges, kept)
        inputs = (sent, target, layer.attention, layer.edge.weight)
        found[name] = (out, *torch.autograd.grad((out * push).sum(), inputs))
    for mine, theirs in zip(found["kernel"], found["tensors"], strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5)


def test_dropout_follows_the_seed_and_stops_in_evaluation():
    layer, edges, sent, _ = random_layer(0, dropout=0.5)
    h = torch.randn(N, HIDDEN)

    def run():
        torch.manual_seed(7)
        return layer(sent, h, edges)

    torch.testing.assert_close(run(), run(), atol=0, rtol=0)
    trained = run()
    layer.eval()
    assert not torch.allclose(trained, layer(sent, h, edges))


def test_the_kernel_gradient_matches_finite_differences():
    layer, edges, sent, target = random_layer(3)
    kept, push = torch.ones(len(edges.source), HEADS), torch.randn(N, HIDDEN)

    def value(s, t):
        return float((layer._kernel(s, t, edges, kept).detach().double() * push).sum())

    gradients = torch.autograd.grad((layer._kernel(sent, target, edges, kept) * push).sum(), (sent, target))
    for place, gradient in enumerate(gradients):
        direction = gradient / gradient.norm()
        moved = [[sent.detach(), target.detach()] for _ in range(2)]
        moved[0][place] = moved[0][place] + 1e-2 * direction
        moved[1][place] = moved[1][place] - 1e-2 * direction
        slope = (value(*moved[0]) - value(*moved[1])) / 2e-2
        assert slope == pytest.approx(float(gradient.norm()), rel=2e-2)


@pytest.mark.parametrize("path", ["_kernel", "_tensors"])
def test_no_destinations_and_no_edges_give_empty_and_zero_messages(path):
    layer, edges, sent, target = random_layer(0)
    none = edges.into(torch.zeros(0, dtype=torch.int64))
    kept = torch.ones(0, HEADS)
    assert getattr(layer, path)(sent, target[:0], none, kept).shape == (0, HIDDEN)
    empty = torch.zeros(3, dtype=torch.int64)
    alone = Edges(empty, empty, torch.zeros(0, dtype=torch.int64), torch.zeros(0))
    out = getattr(layer, path)(sent, target[:3], alone, kept)
    assert out.shape == (3, HIDDEN)
    assert (out == 0).all()


def test_attention_stays_finite_for_extreme_scores():
    layer, edges, sent, target = random_layer(1)
    kept = torch.ones(len(edges.source), HEADS)
    big, far = sent.detach() * 1e4, target.detach() * 1e4
    assert torch.isfinite(layer._kernel(big, far, edges, kept)).all()
    torch.testing.assert_close(
        layer._kernel(big, far, edges, kept), layer._tensors(big, far, edges, kept), rtol=1e-3, atol=1e-2
    )


def test_edges_into_some_rows_are_those_of_the_whole():
    layer, edges, sent, target = random_layer(2)
    rows = torch.tensor([4, 0, 4, 11])
    whole = layer._kernel(sent, target, edges, torch.ones(len(edges.source), HEADS))
    some = edges.into(rows)
    part = layer._kernel(sent, target[rows], some, torch.ones(len(some.source), HEADS))
    torch.testing.assert_close(part, whole[rows])


def test_other_numbers_and_widths_are_answered_by_plain_tensors_and_never_read_beyond_their_end():
    layer, edges, sent, _ = random_layer(0)
    layer.eval()
    exact = layer.double()(sent.double(), torch.randn(N, HIDDEN).double(), edges)
    assert exact.dtype == torch.float64
    assert torch.isfinite(exact).all()
    with pytest.raises(ValueError, match="do not fit"):
        layer.float()._kernel(sent[:, :HIDDEN], sent, edges, torch.ones(len(edges.source), HEADS))
