"""Who owes what to whom, by stacking's importances and by PeerwiseClassifier's trust: both contribution graphs of one
federation, how alike they are, and a picture of each.

python experiments/stacking_graph.py heart_disease --models logistic,forest,boosting --seeds 3 --out runs/graphs
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from peerwise import simulate, summarise
from peerwise.evaluate.contribution import agreement, contribution_graph, standing
from peerwise.evaluate.contribution_files import save_graph
from peerwise.report.contribution_drawing import contribution_svg

METHODS = ["local", "stacking", "peerwise"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", help="one with natural sites")
    parser.add_argument("--models", default="logistic,forest,boosting", help="by comma")
    parser.add_argument("--rows", type=int, help="so many rows only")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("runs/graphs"))
    wanted = parser.parse_args()
    run = simulate(
        wanted.dataset,
        partition="natural",
        models=wanted.models.split(","),
        rows=wanted.rows,
        methods=METHODS,
        seeds=wanted.seeds,
        out=wanted.out / wanted.dataset,
    )
    columns = ["accuracy", "accuracy_gain", "balanced_accuracy", "balanced_accuracy_gain", "balanced_accuracy_losses"]
    sys.stdout.write(summarise(run.results)[columns].round(3).to_string() + "\n")
    for seed in (*range(wanted.seeds), None):
        ours, theirs = (contribution_graph(run, method, seed) for method in METHODS[1:])
        sys.stdout.write(f"seed {seed}: {agreement(ours, theirs)}\n")
    for method in METHODS[1:]:
        graph = contribution_graph(run, method)
        sys.stdout.write(f"\n{method}\n{standing(graph).round(3).to_string()}\n")
        for form in ("json", "graphml"):
            save_graph(graph, wanted.out / f"{wanted.dataset}_{method}.{form}")
        title = f"{wanted.dataset}: who owes what to whom, by {method} (mean of {wanted.seeds} seeds)"
        (wanted.out / f"{wanted.dataset}_{method}.svg").write_text(contribution_svg(graph, title), "utf-8")


if __name__ == "__main__":
    main()
