"""The tables and the picture of `open_voting.py`: ours beside the figures of the FedSOV paper.

python experiments/open_voting_tables.py runs/open_voting                                  # Markdown
python experiments/open_voting_tables.py runs/open_voting --picture docs/results/open_voting.png
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from open_voting_picture import draw
from open_voting_published import ACCURACY, ALPHA, AUROC, BY_SHARE, BY_SITES, NETS, PLACEHOLDERS
from open_voting_sizes import sizes

FOUR = ("fedavg", "fedgf", "fedov", "fedsov")
THREE = ("fedov", "fedsov:full", "fedsov")
COMPRESSED = ("fedsov:full", "distilled_vote", "fedsov")
SPLIT_TABLES = {"disjoint": "Table 2", "dirichlet 0.01": "Table 4", "dirichlet 0.1": "Table 5"}


def markdown(methods: pd.DataFrame, students: pd.DataFrame) -> str:
    """Every table of the paper of which there is something."""
    main = methods[methods["study"].isin(["disjoint", "dirichlet", "cifar"])]
    parts = {name: _by_sites(main[main["split"] == split], FOUR) for split, name in SPLIT_TABLES.items()}
    parts["Table 6"] = _table(
        ["sites", *sizes(5)], [[str(count), *sizes(count).values()] for count in (5, 10, 20, 100)]
    )
    parts["Table 7"] = _by_sites(
        methods[methods["study"].isin(["many", "averaged"])], ("fedgf", "fedov", "fedsov"), "cifar10"
    )
    parts["Table 8"] = _by_sites(methods[methods["study"] == "colour"], FOUR)
    with_full = methods[methods["study"].isin(["disjoint", "dirichlet", "cifar", "many"])]
    parts["Table 9"] = _by_sites(with_full, COMPRESSED, "cifar10")
    parts["Table 10"] = _nets(_beside(methods, "nets"))
    parts["Table 12"] = _alphas(methods)
    parts["Table 13"] = _placeholders(_beside(methods, "placeholders"))
    parts["Table 14"] = _auroc(with_full[with_full["split"] == "disjoint"])
    parts["Tables 15 to 18"] = _students(students) if len(students) else ""
    parts["Figure 3"] = _pruning(_beside(methods, "pruning"))
    parts["Wall time"] = _seconds(methods, students)
    parts["Collapsed"] = "".join(_collapsed(methods))
    return "".join(f"\n## {name}\n\n{text}" for name, text in parts.items() if text)


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
    if not lines:
        return ""
    rows = [head, ["---"] * len(head), *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


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
    cells = methods.drop_duplicates(["study", "dataset", "split", "sites", "net"])
    lines = [[str(study), str(len(part)), f"{part['cell_seconds'].sum():.0f}"]
             for study, part in cells.groupby("study", sort=False)]  # fmt: skip
    if len(students):
        each = students.drop_duplicates(["split", "seed"])
        lines.append(["students", str(students["split"].nunique()), f"{each['seconds'].sum():.0f}"])
    return _table(["study", "federations", "wall s"], lines)


def _collapsed(methods: pd.DataFrame) -> Iterator[str]:
    for _, line in methods[methods["collapsed"].notna() & (methods["collapsed"] != "")].iterrows():
        yield f"- {line['dataset']}, {line['split']}, {line['sites']} sites: {line['method']}: {line['collapsed']}\n"


def read(folder: Path, pattern: str) -> pd.DataFrame:
    """The tables of this name, one below the other."""
    tables = [pd.read_csv(path) for path in sorted(folder.glob(pattern))]
    return pd.concat(tables) if tables else pd.DataFrame()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    methods = read(arguments.folder, "*/methods.csv")
    if arguments.picture:
        draw(methods, read(arguments.folder, "*/by_k.csv"), arguments.picture)
    else:
        sys.stdout.write(markdown(methods, read(arguments.folder, "students/*.csv")))


if __name__ == "__main__":
    main()
