"""Partitions that skew the labels. Each finds how many rows of each class a site gets; the rows are then dealt."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from peerwise.data.dataset import Dataset
from peerwise.data.partitions.share import (
    REDRAWS,
    Counts,
    Share,
    cut_by_counts,
    deal_kinds,
    enough_rows,
    even,
    positive,
    redraw,
)
from peerwise.errors import PartitionError

FEWEST = 10  # rows of each class at a site whose classes stay as drawn


def exdir(
    dataset: Dataset,
    sites: int,
    rng: np.random.Generator,
    *,
    classes_per_site: int = 3,
    alpha: float = 1.0,
    min_rows: int = 10,
) -> list[Share]:
    """Each site owns a few classes, and a class is shared among its owners by a Dirichlet draw (Li & Lyu 2023).

    Every class has at least max(floor(C K / classes / 2), 1) owners. Sites that hold rows / sites rows get no more,
    unless all owners of a class do. A larger ``alpha`` shares more evenly.
    """
    totals, present = _totals(dataset)
    _check_classes_per_site(classes_per_site, sites, len(present))
    positive(alpha, "alpha")
    enough_rows(len(dataset), sites, min_rows)
    least = max(classes_per_site * sites // len(present) // 2, 1)

    def draw() -> Counts:
        owns = np.zeros((sites, len(totals)), dtype=bool)
        owns[:, present] = deal_kinds(sites, len(present), classes_per_site, least, rng)
        return _dirichlet_counts(totals, owns, alpha, rng)

    counts = redraw(draw, min_rows, "use fewer sites, a smaller min_rows, a larger alpha or more classes_per_site")
    return cut_by_counts(dataset.y, counts, rng)


def dirichlet(
    dataset: Dataset, sites: int, rng: np.random.Generator, *, alpha: float = 0.5, min_rows: int = 10
) -> list[Share]:
    """Each class is shared among all sites by a Dirichlet(alpha) draw; small alpha, strong skew."""
    totals, _ = _totals(dataset)
    positive(alpha, "alpha")
    enough_rows(len(dataset), sites, min_rows)
    everyone = np.ones((sites, len(totals)), dtype=bool)
    counts = redraw(
        lambda: _dirichlet_counts(totals, everyone, alpha, rng),
        min_rows,
        "use fewer sites, a smaller min_rows or a larger alpha",
    )
    return cut_by_counts(dataset.y, counts, rng)


def pathological(dataset: Dataset, sites: int, rng: np.random.Generator, *, classes_per_site: int = 2) -> list[Share]:
    """Each site gets shards of exactly ``classes_per_site`` classes; a class's shards are of equal size."""
    totals, present = _totals(dataset)
    _check_classes_per_site(classes_per_site, sites, len(present))
    owns = deal_kinds(sites, len(present), classes_per_site, sites * classes_per_site // len(present), rng)
    counts = np.zeros((sites, len(totals)), dtype=np.int64)
    for label, owners in zip(present, owns.T, strict=True):
        if totals[label] < owners.sum():
            raise PartitionError(
                f"class {dataset.classes[label]!r} has {totals[label]} rows for {owners.sum()} shards; "
                "use fewer sites or fewer classes_per_site."
            )
        counts[owners, label] = even(int(totals[label]), int(owners.sum()))
    return cut_by_counts(dataset.y, counts, rng)


def disjoint(dataset: Dataset, sites: int, rng: np.random.Generator) -> list[Share]:
    """Each class lives at one site only; sites get equally many classes, give or take one."""
    totals, present = _totals(dataset)
    if sites > len(present):
        raise PartitionError(
            f"{len(present)} classes cannot be disjoint at {sites} sites; use at most {len(present)} sites, "
            "or the partition pathological with classes_per_site=1."
        )
    home = rng.permutation(np.repeat(np.arange(sites), even(len(present), sites)))
    counts = np.zeros((sites, len(totals)), dtype=np.int64)
    counts[home, present] = totals[present]
    return cut_by_counts(dataset.y, counts, rng)


def equal_label_skew(
    dataset: Dataset, sites: int, rng: np.random.Generator, *, alpha: float = 0.5, all_rows: bool = True
) -> list[Share]:
    """Sites of equal size whose class shares are drawn from Dirichlet(alpha): label skew and nothing else.

    The drawn shares are scaled until sites and classes both add up, so a scarce class stays scarce everywhere. Without
    ``all_rows`` they stay as drawn, every class as common as any other in the mean (the stacking paper's label skew):
    a site then gets as many rows as the scarcest class has for each site, at least 10 of every class, and the rest of
    the rows is left out.
    """
    totals, present = _totals(dataset)
    positive(alpha, "alpha")
    enough_rows(len(dataset), sites, 1)
    if not all_rows:
        return cut_by_counts(dataset.y, _as_drawn(totals, present, sites, alpha, rng), rng)
    sizes = rng.permutation(even(len(dataset), sites)).astype(float)
    wish = rng.dirichlet(np.full(len(present), alpha), size=sites) + 1e-6
    for _ in range(200):
        wish *= (totals[present] / wish.sum(axis=0))[None, :]
        wish *= (sizes / wish.sum(axis=1))[:, None]
    counts = np.zeros((sites, len(totals)), dtype=np.int64)
    counts[:, present] = _whole(wish, sizes.astype(np.int64), totals[present])
    return cut_by_counts(dataset.y, counts, rng)


def _totals(dataset: Dataset) -> tuple[Counts, NDArray[np.int64]]:
    totals = np.bincount(dataset.y, minlength=len(dataset.classes)).astype(np.int64)
    return totals, np.flatnonzero(totals)


def _check_classes_per_site(each: int, sites: int, classes: int) -> None:
    if not 1 <= each <= classes:
        raise PartitionError(f"classes_per_site={each}; the rows have {classes} classes, use 1 to {classes}.")
    if each * sites < classes:
        raise PartitionError(
            f"{sites} sites with {each} classes each cannot hold {classes} classes; "
            f"use at least {-(-classes // each)} sites or more classes_per_site."
        )


def _dirichlet_counts(totals: Counts, owns: NDArray[np.bool_], alpha: float, rng: np.random.Generator) -> Counts:
    """Rows of each class a site gets: Dirichlet over its owners below the cap of rows / sites, or over all owners."""
    counts = np.zeros(owns.shape, dtype=np.int64)
    cap = totals.sum() / len(owns)
    for label in np.flatnonzero(totals):
        below = owns[:, label] & (counts.sum(axis=1) < cap)
        owners = np.flatnonzero(below if below.any() else owns[:, label])
        share = rng.dirichlet(np.full(len(owners), alpha))
        ends = np.floor(np.cumsum(share)[:-1] * totals[label]).astype(np.int64)
        counts[owners, label] = np.diff(ends, prepend=0, append=totals[label])
    return counts


def _as_drawn(totals: Counts, present: NDArray[np.int64], sites: int, alpha: float, rng: np.random.Generator) -> Counts:
    """Equal sites with the drawn class shares; what rounding leaves goes to classes at random."""
    each, fewest = int(totals[present].min()) // sites, 0
    for _ in range(REDRAWS):
        counts = np.floor(rng.dirichlet(np.full(len(present), alpha), size=sites) * each).astype(np.int64)
        counts += rng.multinomial(each - counts.sum(axis=1), np.full(len(present), 1 / len(present)))
        fewest = max(fewest, int(counts.min()))
        if fewest >= FEWEST:
            found = np.zeros((sites, len(totals)), dtype=np.int64)
            found[:, present] = counts
            return found
    raise PartitionError(
        f"{REDRAWS} draws gave no split of {each} rows a site with {FEWEST} rows of every class (best: {fewest}); use "
        f"fewer sites, a larger alpha or all_rows=true."
    )


def _whole(wish: NDArray[np.float64], sizes: Counts, totals: Counts) -> Counts:
    """Whole numbers near ``wish`` with exactly these row and column sums."""
    counts = np.floor(wish).astype(np.int64)
    for label in range(counts.shape[1]):
        while (over := counts[:, label].sum() - totals[label]) > 0:
            counts[counts[:, label].argmax(), label] -= min(over, counts[:, label].max())
    rows, columns = sizes - counts.sum(axis=1), totals - counts.sum(axis=0)
    for site in range(len(rows)):
        for label in np.argsort(-(wish[site] - counts[site])):
            more = min(rows[site], columns[label])
            counts[site, label] += more
            rows[site] -= more
            columns[label] -= more
    return counts
