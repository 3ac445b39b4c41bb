"""The tables and the picture of `open_voting.py`: ours beside the figures of the FedSOV paper.

python experiments/open_voting_tables.py runs/open_voting      # Markdown
python experiments/open_voting_tables.py runs/open_voting --page docs/results/open_voting.md \\
    --picture docs/results/open_voting.png
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pandas as pd
from open_voting_picture import draw
from open_voting_published import ACCURACY, ALPHA, AUROC, BY_SHARE, BY_SITES, NETS, PLACEHOLDERS
from open_voting_sizes import sizes
from pages import put, table

FOUR = ("fedavg", "fedgf", "fedov", "fedsov")
THREE = ("fedov", "fedsov:full", "fedsov")
COMPRESSED = ("fedsov:full", "distilled_vote", "fedsov")
KEYS = ["study", "dataset", "split", "sites", "net"]
NOT_RUN = "Not run yet.\n"
NOTES = {
    "Table 2: disjoint labels": "In brackets: published, the same data set in full.",
    "Table 4: Dirichlet 0.01": "In brackets: published, the same data set in full.",
    "Table 5: Dirichlet 0.1": "In brackets: published, the same data set in full.",
    "Table 6: how large": "Counted on `simple_cnn`, not trained. Parameters: of all nets together. Published, at 5, 10 "
    "and 20 sites: 150 k for averaging, 750, 1,500 and 3,000 k for FedOV, 150 k for FedSOV.",
    "Table 7: 50 and 100 sites": "1,000 rows, so 20 or 10 a site; the vote is held at one place. In brackets: "
    "published, CIFAR-10, without spread.",
    "Table 8: feature skew": "Coloured digits (8 x 8, enlarged) instead of coloured MNIST. In brackets: published; "
    "there averaging had 100 rounds.",
    "Table 9: whole, distilled, pruned": "The student has 200 public rows without labels. In brackets: published, "
    "CIFAR-10 in full, also beside our Fashion-MNIST.",
    "Table 10: other nets": "Fashion-MNIST, disjoint, 10 sites. In brackets: published, CIFAR-10.",
    "Table 12: from many alphas": "10 sites, Fashion-MNIST. In brackets: published, CIFAR-10.",
    "Table 13: PROSER's terms": "Disjoint, whole nets, Fashion-MNIST. In brackets: published, CIFAR-10, 10 sites.",
    "Table 14: open AUROC": "Disjoint, in percent, mean of the sites' own nets. In brackets: published, CIFAR-10.",
    "Tables 15 to 18: whose data teach the student": "10 sites, Fashion-MNIST. Source train: the sites' own train "
    "rows; test: as many other rows of the same classes, no test rows. In brackets: published, CIFAR-10.",
    "Figure 3: how much is left out": "Disjoint, 10 sites, Fashion-MNIST. Published as a curve, without numbers.",
}


def markdown(methods: pd.DataFrame, students: pd.DataFrame) -> str:
    """Every table of the paper, with what differs there; of what was not run it says so."""
    found = tables(methods, students)
    text = "".join(f"\n### {head}\n\n{NOTES[head]}\n\n{found[head] or NOT_RUN}" for head in NOTES)
    return text + "\n### Wall time\n\n" + (_seconds(methods, students) or NOT_RUN) + _collapsed(methods)


def tables(methods: pd.DataFrame, students: pd.DataFrame) -> dict[str, str]:
    """By the headings of `NOTES`."""

    def of(*studies: str) -> pd.DataFrame:
        return methods[methods["study"].isin(studies)]

    grid, many = of("disjoint", "dirichlet", "cifar"), of("disjoint", "dirichlet", "cifar", "many")
    texts = [
        *(_by_sites(grid[grid["split"] == split], FOUR) for split in ("disjoint", "dirichlet 0.01", "dirichlet 0.1")),
        _table(["sites", *sizes(5)], [[str(count), *sizes(count).values()] for count in (5, 10, 20, 50, 100)]),
        _by_sites(of("many", "averaged"), ("fedgf", "fedov", "fedsov"), "cifar10"),
        _by_sites(of("colour"), FOUR),
        _by_sites(many[many["split"] != "dirichlet 0.01"], COMPRESSED, "cifar10"),
        _nets(_beside(methods, "nets")),
        _alphas(methods),
        _placeholders(_beside(methods, "placeholders")),
        _auroc(many[many["split"] == "disjoint"]),
        _students(students) if len(students) else "",
        _pruning(_beside(methods, "pruning")),
    ]
    return dict(zip(NOTES, texts, strict=True))


def _beside(methods: pd.DataFrame, study: str) -> pd.DataFrame:
    """A study, and what the grid has of the same federations; nothing where the study was not run."""
    chosen = methods[methods["study"] == study]
    same = methods["study"].eq("disjoint") & methods["sites"].isin(chosen["sites"])
    return pd.concat([chosen, methods[same]])


def _by_sites(methods: pd.DataFrame, names: tuple[str, ...], published: str | None = None) -> str:
    """A line a federation, a column a method; ``published``: the data set whose figures stand in brackets."""
    lines = []
    for key, part in sorted(methods.groupby(["dataset", "split", "sites"]), key=lambda one: one[0]):
        dataset, split, sites = key
        paper = {name: ACCURACY.get((published or dataset, split, name), {}).get(int(sites)) for name in names}
        lines.append([dataset, split, str(sites), *(_cell(part, name, paper[name]) for name in names)])
    return _table(["data", "split", "sites", *names], lines)


def _cell(part: pd.DataFrame, name: str, paper: float | None = None, column: str = "accuracy") -> str:
    """ours ± over seeds (published)."""
    found = part[part["method"] == name]
    if not len(found):
        return ""
    line = found.iloc[0]
    spread = line.get(f"{column}_seed_std", float("nan"))
    text = f"{100 * line[column]:.1f}" + ("" if pd.isna(spread) else f" ± {100 * spread:.1f}")
    return text + ("" if paper is None else f" ({paper:.1f})")


def _table(head: list[str], lines: list[list[str]]) -> str:
    return table(head, lines) if lines else ""


def _nets(methods: pd.DataFrame) -> str:
    names = ("fedov", "fedsov:full", "distilled_vote", "fedsov")
    lines = [
        [net, *(_cell(part, name, NETS[net][name]) for name in names)]
        for net, part in methods.groupby("net", sort=False)
    ]
    return _table(["net", *names], lines)


def _alphas(methods: pd.DataFrame) -> str:
    chosen = methods[methods["study"].isin(["alpha", "dirichlet"]) & (methods["sites"] == 10)]
    by_alpha = sorted((float(str(split).split()[1]), part) for split, part in chosen.groupby("split"))
    lines = [[f"{alpha:g}", _cell(part, "fedsov", ALPHA[alpha]), _cell(part, "fedov")] for alpha, part in by_alpha]
    return _table(["alpha", "fedsov", "fedov"], lines)


def _placeholders(methods: pd.DataFrame) -> str:
    names = ("fedsov:full", "fedsov:proser", "fedov:plain", "fedov")
    lines = [
        [str(sites), *(_cell(part, name, PLACEHOLDERS.get(name) if sites == 10 else None) for name in names)]
        for sites, part in methods.groupby("sites")
    ]
    return _table(["sites", "FedSOV whole", "with PROSER", "FedOV without PROSER", "FedOV"], lines)


def _auroc(methods: pd.DataFrame) -> str:
    lines = [
        [str(dataset), str(sites), *(_cell(part, name, AUROC[name].get(int(sites)), "open_auroc") for name in THREE)]
        for (dataset, sites), part in methods.groupby(["dataset", "sites"])
    ]
    return _table(["data", "sites", *THREE], lines)


def _students(students: pd.DataFrame) -> str:
    text = ""
    for column, published in (("sites", BY_SITES), ("share", BY_SHARE)):
        other = "share" if column == "sites" else "sites"
        whole = students[students["source"].isin(["train", "test"]) & (students[other] == students[other].max())]
        points = sorted(whole[column].unique(), reverse=True)
        lines = []
        for (split, source), part in whole.groupby(["split", "source"], sort=False):
            ours = part.groupby(column)["accuracy"].agg(lambda values: _spread(values))
            paper = published[str(split), str(source)]
            lines.append([str(split), str(source), *(f"{ours[at]} ({paper[at]:.1f})" for at in points)])
        text += _table(["split", "source", *(f"{at:g} {column}" for at in points)], lines) + "\n"
    votes = students[students["source"] == "vote"].groupby("split", sort=False)["accuracy"].agg(_spread)
    return text + "The vote itself: " + "; ".join(f"{split} {value}" for split, value in votes.items()) + ".\n"


def _spread(values: pd.Series[float]) -> str:
    return f"{100 * values.mean():.1f} ± {100 * values.std(ddof=0):.1f}"


def _pruning(methods: pd.DataFrame) -> str:
    named = {"0": {"tickets": "fedsov:full", "magnitude": "fedsov:full"}}
    for share in ("50", "80", "90", "95", "99"):
        named[share] = {how: f"fedsov:{how}-{share}" for how in ("tickets", "magnitude")}
    named["90"]["tickets"] = "fedsov"
    lines = [
        [share, *(_cell(methods, names[how]) for how in ("tickets", "magnitude"))] for share, names in named.items()
    ]
    return _table(["left out, %", "tickets", "magnitude"], lines) if len(methods) else ""


def _seconds(methods: pd.DataFrame, students: pd.DataFrame) -> str:
    cells = methods.drop_duplicates(KEYS)
    lines = [[str(study), str(len(part)), f"{part['cell_seconds'].sum():.0f}"]
             for study, part in cells.groupby("study", sort=False)]  # fmt: skip
    if len(students):
        each = students.drop_duplicates(["split", "seed"])
        lines.append(["students", str(students["split"].nunique()), f"{each['seconds'].sum():.0f}"])
    return _table(["study", "federations", "wall s"], lines)


def _collapsed(methods: pd.DataFrame) -> str:
    lines = [
        f"- {line['dataset']}, {line['split']}, {line['sites']} sites: {line['method']}: {line['collapsed']}\n"
        for _, line in methods[methods["collapsed"].notna() & (methods["collapsed"] != "")].iterrows()
    ]
    said = "\nFlagged by a run itself (of sites and seeds together):\n\n"
    return said + "".join(lines) if lines else ""


def read(folder: Path, pattern: str) -> pd.DataFrame:
    """The tables of this name, one below the other; without any, one with the columns by which lines are chosen."""
    found = [pd.read_csv(path) for path in sorted(folder.glob(pattern))]
    return pd.concat(found) if found else pd.DataFrame(columns=[*KEYS, "method", "collapsed", "cell_seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--page", type=Path, help="put the tables between the marks of this page")
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    methods, students = read(arguments.folder, "*/methods.csv"), read(arguments.folder, "students/*.csv")
    text = markdown(methods, students)
    if arguments.page:
        put(arguments.page, {"measured": text})
    else:
        sys.stdout.write(text)
    if arguments.picture:
        draw(methods, read(arguments.folder, "*/by_k.csv"), arguments.picture)


if __name__ == "__main__":
    main()
