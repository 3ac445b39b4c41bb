"""One training step of a GATv2 edge type: our CPU kernel against PyTorch Geometric on the same graph, in one run.

python benchmarks/attention.py [--nodes 500] [--degree 30]
"""

from __future__ import annotations

import argparse

import measure
import numpy as np
import torch
from torch_geometric.nn import GATv2Conv

from peerwise.space.graph import Incoming
from peerwise.trust.gnn import Edges, GATv2


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, default in {"nodes": 500, "degree": 30, "width": 128, "heads": 4, "repeats": 10}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    a = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    source = rng.integers(0, a.nodes, a.nodes * a.degree)
    start = np.arange(a.nodes + 1) * a.degree
    weight = rng.random(len(source), dtype=np.float32)
    h = torch.randn(a.nodes, a.width)
    edges = Edges.of(Incoming(start, source, weight))
    mine = GATv2(a.width, a.heads, dropout=0.0, edge_weights=True)
    target = torch.arange(a.nodes).repeat_interleave(a.degree)
    peer = GATv2Conv(a.width, a.width, heads=a.heads, concat=False, edge_dim=1, add_self_loops=False)
    index, attributes = torch.stack([torch.as_tensor(source), target]), torch.as_tensor(weight)[:, None]

    def ours() -> None:
        mine(mine.source(h), h, edges).square().mean().backward()

    def geometric() -> None:
        peer(h, index, attributes).square().mean().backward()

    ours()  # compiles the kernel before the clock starts
    geometric()
    seconds = {f.__name__: measure.fastest(f, a.repeats) for f in (ours, geometric)}
    for name, value in seconds.items():
        print(f"{name:>9} {1000 * value:8.1f} ms")
    print(f"    ratio {seconds['geometric'] / seconds['ours']:8.1f} x")


if __name__ == "__main__":
    main()
