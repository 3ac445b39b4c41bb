"""Draw what FedMosaic did round by round, from the curves that a run folder keeps: small multiples, a line a site.

python experiments/curves.py runs/fedmosaic_flipped --method fedmosaic --mark site-0 --out flipped.png
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import matplotlib
import pandas as pd

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from PIL import Image

PANELS = {
    "lambda": "lambda: weight of the consensus",
    "own loss": "loss on own rows",
    "public loss": "loss on public rows (consensus)",
    "changed pseudo-labels": "changed pseudo-labels (share)",
    "validation accuracy": "validation accuracy",
}
SHARES = ("changed pseudo-labels", "validation accuracy")


def read(folder: Path, method: str, seed: int | None) -> pd.DataFrame:
    curves = pd.read_parquet(folder / "curves.parquet")
    known = sorted(curves["method"].unique())
    if method not in known:
        raise SystemExit(f"{folder} has no method {method!r}: expected one of {', '.join(known)}.")
    chosen = curves[curves["method"] == method]
    return chosen if seed is None else chosen[chosen["seed"] == seed]


def draw(axes: Axes, curves: pd.DataFrame, name: str, marked: str | None) -> None:
    """One line a site (its mean over seeds), a black one for the mean over sites; a marked site stands out."""
    lines = curves[curves["name"] == name].pivot_table(index="round", columns="site", values="value").sort_index()
    others = [site for site in lines if site != marked]
    rounds = lines.index + 1
    for place, site in enumerate(others):
        axes.plot(rounds, lines[site], color="tab:blue", alpha=0.35, lw=1, label="a site" if place == 0 else None)
    label = "mean over sites" if marked is None else "mean over the others"
    axes.plot(rounds, lines[others].mean(axis=1), color="black", lw=2, label=label)
    if marked is not None:
        axes.plot(rounds, lines[marked], color="tab:red", lw=2, label=marked)
    axes.set_title(PANELS[name], fontsize=10)
    axes.set_xlabel("round")
    axes.set_ylim(0, 1.05 if name in SHARES else None)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.25)


def save(figure: Figure, out: Path) -> None:
    """With 64 colours, which is a third of the size."""
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=90)
    Image.open(drawn).convert("RGB").quantize(64).save(out, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a run folder, with curves.parquet in it")
    parser.add_argument("--method", default="fedmosaic", help="as the run calls it, e.g. fedmosaic:confidence")
    parser.add_argument("--seed", type=int, help="one seed (default: the mean over all)")
    parser.add_argument("--mark", metavar="SITE", help="a site to be shown in red")
    parser.add_argument("--title", help="what is shown (default: the folder's name and the method)")
    parser.add_argument("--out", type=Path, default=Path("curves.png"))
    arguments = parser.parse_args()
    curves = read(arguments.folder, arguments.method, arguments.seed)
    names = [name for name in PANELS if name in set(curves["name"])]
    figure, panels = plt.subplots(
        1, len(names), figsize=(3.3 * len(names), 3.1), squeeze=False, sharex=True, layout="constrained"
    )
    for axes, name in zip(panels[0], names, strict=True):
        draw(axes, curves, name, arguments.mark)
    panels[0, -1].legend(fontsize=8)
    seeds = curves["seed"].nunique()
    title = arguments.title or f"{arguments.folder.name}, {arguments.method}"
    figure.suptitle(f"{title} ({'mean over ' if seeds > 1 else ''}{seeds} seed{'s' if seeds > 1 else ''})", fontsize=11)
    save(figure, arguments.out)


if __name__ == "__main__":
    main()
