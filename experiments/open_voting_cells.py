"""The federations of `open_voting.py`: data, split, sites, net and methods, at the paper's sizes or small ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from peerwise.data import Dataset, load
from peerwise.data.loaders.coloured import coloured_digits

SITES = (10, 5, 20)  # the paper's middle one first
ALPHAS = (0.05, 0.5, 0.9, 0.7, 0.8)  # besides 0.01 and 0.1
SHARES = (50, 95, 99, 80)  # percent of the weights that are left out; 90 is that of ten sites
NETS = ("lenet", "large_cnn", "alexnet")
VOTES = ("fedov", "fedsov", "fedsov:full")
MAIN = (*VOTES, "distilled_vote", "fedavg", "fedgf")
STUDIES = {
    "disjoint": "tables 2, 9 and 14",
    "dirichlet": "tables 4, 5 and 9",
    "placeholders": "table 13",
    "alpha": "table 12",
    "students": "tables 15 to 18",
    "colour": "table 8",
    "pruning": "figure 3",
    "many": "tables 7, 9 and 14: the votes of 50 and 100 sites",
    "cifar": "tables 2, 4, 5, 9 and 14 on CIFAR-10",
    "nets": "table 10",
    "averaged": "table 7: FedGF of 50 and 100 sites",
}


@dataclass(frozen=True)
class Size:
    """Rows of all sites together and test rows (None: all there are), public rows; epochs of an open-set net, of a
    stage of its pruning and of a student; their batches and learning rate; rounds of averaging and epochs in one."""

    rows: int | None
    tested: int | None
    public: int
    epochs: int
    prune_epochs: int
    student_epochs: int
    batch: int
    lr: float
    rounds: int
    local_epochs: int


PAPER = {
    "fashion_mnist": Size(None, None, 5000, 10, 1, 100, 16, 0.001, 20, 5),
    "cifar10": Size(None, None, 2000, 100, 10, 100, 16, 0.001, 100, 10),
    "coloured_digits": Size(None, None, 0, 10, 1, 0, 16, 0.001, 100, 5),
}
# Few rows leave a fiftieth of the paper's steps: with batches of 8 and a larger rate they go far enough.
FAST = {
    "fashion_mnist": Size(600, 1000, 200, 8, 1, 30, 8, 0.003, 10, 5),
    "cifar10": Size(600, 1000, 200, 8, 1, 30, 8, 0.003, 10, 5),
    "coloured_digits": Size(600, 300, 0, 8, 1, 0, 8, 0.003, 10, 5),
}
FAST_MANY = replace(FAST["fashion_mnist"], rows=1000)  # 50 or 100 sites would have a dozen rows each


@dataclass(frozen=True)
class Cell:
    """One federation and the methods on it. ``name`` is its folder."""

    study: str
    dataset: str
    split: str
    sites: int
    methods: tuple[str, ...]
    net: str = "simple_cnn"

    @property
    def name(self) -> str:
        return "_".join([self.study, self.dataset, self.split.replace(" ", "-"), f"{self.sites}sites", self.net])

    def size(self, *, fast: bool) -> Size:
        if not fast:
            return PAPER[self.dataset]
        return FAST_MANY if self.study in ("many", "averaged") else FAST[self.dataset]


def cells(study: str, *, fast: bool) -> Iterator[Cell]:
    """Those of a study, the most important first; with ``fast`` fewer of what is only varied."""
    fashion, dirichlet = "fashion_mnist", ("dirichlet 0.1", "dirichlet 0.01")
    if study == "disjoint":
        yield from (Cell(study, fashion, "disjoint", sites, MAIN) for sites in SITES)
    elif study == "dirichlet":
        yield from (Cell(study, fashion, split, sites, MAIN) for sites in SITES for split in dirichlet)
    elif study == "placeholders":  # those without the change are in the study "disjoint"
        yield from (Cell(study, fashion, "disjoint", sites, ("fedsov:proser", "fedov:plain")) for sites in (10, 5))
    elif study == "colour":
        methods = ("fedov", "fedsov", "fedavg", "fedgf")
        yield from (Cell(study, "coloured_digits", "by colour", sites, methods) for sites in SITES)
    elif study == "alpha":
        alphas = ALPHAS[:3] if fast else ALPHAS
        yield from (Cell(study, fashion, f"dirichlet {alpha:g}", 10, ("fedsov",)) for alpha in alphas)
    elif study == "averaged":
        splits = ("disjoint", "dirichlet 0.1")
        yield from (Cell(study, fashion, split, sites, ("fedgf",)) for sites in (50, 100) for split in splits)
    elif study == "nets":
        nets = NETS[:2] if fast else NETS  # simple_cnn is in the study "disjoint"
        yield from (Cell(study, fashion, "disjoint", 10, (*VOTES, "distilled_vote"), net) for net in nets)
    elif study == "cifar":
        where = [(split, sites) for sites in SITES for split in ("disjoint", *dirichlet)]
        methods = MAIN[:-1] if fast else MAIN
        yield from (Cell(study, "cifar10", split, sites, methods) for split, sites in where[: 2 if fast else None])
    elif study == "pruning":
        shares = SHARES[:3] if fast else SHARES
        ways = tuple(f"fedsov:{how}-{share}" for share in shares for how in ("tickets", "magnitude"))
        yield Cell(study, fashion, "disjoint", 10, ("fedsov:magnitude-90", *ways))
    else:
        raise SystemExit(f"unknown study {study!r}: expected one of {', '.join(STUDIES)}.")


def data_of(cell: Cell, size: Size) -> Dataset:
    """So many train rows (public ones among them) and test rows of the official parts, the same for all seeds."""
    rng = np.random.default_rng(0)
    if cell.dataset == "coloured_digits":
        data = coloured_digits(colours=cell.sites)
        if size.rows is None or size.tested is None:
            return data
        return data.take(np.sort(rng.choice(len(data), size.rows + size.tested, False)))
    data = load(cell.dataset)
    if size.rows is None or size.tested is None:
        return data
    parts = {"train": size.rows + size.public, "test": size.tested}
    official = data.columns["official_split"]
    drawn = [rng.choice(np.flatnonzero(official == part), many, False) for part, many in parts.items()]
    return data.take(np.sort(np.concatenate(drawn)))


def settings_of(cell: Cell, size: Size, seeds: int) -> dict[str, Any]:
    """For `peerwise.run.simulate`."""
    averaging = {"rounds": size.rounds, "local_epochs": size.local_epochs}
    return {
        "sites": None if cell.dataset == "coloured_digits" else cell.sites,
        "public": size.public,
        "models": [cell.net],
        "methods": cell.methods,
        "method": {name: method_settings(name, cell.sites, size) for name in cell.methods if name in _voting(cell)},
        "seeds": seeds,
        "test": "common",
        "fractions": [0.8, 0.0, 0.2],  # without validation rows averaging answers with its last round, as published
        **({"training": {**averaging, "optimizer": "adam", "lr": 0.001, "batch_size": 16}} if _rounds(cell) else {}),
        **split_settings(cell),
    }


def split_settings(cell: Cell) -> dict[str, Any]:
    if cell.split == "by colour":
        return {"partition": "natural"}
    if cell.split.startswith("dirichlet"):
        alpha = float(cell.split.removeprefix("dirichlet "))
        least = {"min_rows": 1} if alpha < 0.1 or cell.sites > 20 else {}
        return {"partition": "dirichlet", "partition_settings": {"alpha": alpha, **least}}
    if cell.sites > 10:  # several sites share a class, as in the paper
        return {"partition": "pathological", "partition_settings": {"classes_per_site": 1}}
    return {"partition": "disjoint"}


def method_settings(name: str, sites: int, size: Size) -> dict[str, Any]:
    """What a name stands for, such as fedsov:magnitude-95."""
    common: dict[str, Any] = {"local_epochs": size.epochs, "batch_size": size.batch, "lr": size.lr}
    pruning = {"prune_epochs": size.prune_epochs}
    method, _, kind = name.partition(":")
    if method == "distilled_vote":
        return common | {"student_epochs": size.student_epochs}
    if method == "fedov":
        return common | ({"second_best": False, "between": False} if kind == "plain" else {})
    if kind in ("full", "proser"):
        return common | {"compress": "none"} | ({"second_best": True, "between": True} if kind == "proser" else {})
    if kind:
        how, share = kind.split("-")
        return common | pruning | {"compress": how, "sparsity": int(share) / 100}
    return common | pruning | {"sites": sites}


def _rounds(cell: Cell) -> set[str]:
    return set(cell.methods) & {"fedavg", "fedgf"}


def _voting(cell: Cell) -> set[str]:
    return set(cell.methods) - _rounds(cell)
