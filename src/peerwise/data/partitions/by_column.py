"""Partitions that follow a column of the data: its values are the sites, or sites are cut within each value."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from peerwise.data.dataset import Dataset
from peerwise.data.partitions.by_label import pathological
from peerwise.data.partitions.share import Share
from peerwise.data.rows import Indices
from peerwise.errors import PartitionError, choices


def natural(dataset: Dataset, sites: int | None, rng: np.random.Generator, *, column: str = "site") -> list[Share]:
    """One site for each value of a column: hospital, domain, country. Nothing is drawn."""
    values = _values(dataset, column)
    names = np.unique(values)
    if sites is not None and sites != len(names):
        raise PartitionError(
            f"sites={sites}, but column {column!r} of {dataset.name} has {len(names)} values; "
            "leave sites out, natural sites are as many as there are."
        )
    return [Share(np.flatnonzero(values == name), str(name)) for name in names]


def feature_shift(dataset: Dataset, sites: int, rng: np.random.Generator, *, column: str = "site") -> list[Share]:
    """Every site lies within one domain (a value of ``column``); a domain with more rows is cut into more sites."""
    values = _values(dataset, column)
    domains, sizes = np.unique(values, return_counts=True)
    if sites < len(domains):
        raise PartitionError(
            f"sites={sites}, but column {column!r} has {len(domains)} domains ({', '.join(domains)}); "
            f"use at least {len(domains)} sites."
        )
    if sites > len(values):
        raise PartitionError(f"sites={sites}, but there are only {len(values)} rows; use fewer sites.")
    shares = []
    for domain, pieces in zip(domains, _sites_a_domain(sizes, sites), strict=True):
        rows = np.flatnonzero(values == domain)
        for place, part in enumerate(_stratified_pieces(rows, dataset.y[rows], int(pieces), rng)):
            shares.append(Share(part, str(domain) if pieces == 1 else f"{domain}-{place}"))
    return shares


def hybrid(
    dataset: Dataset,
    sites: int | None,
    rng: np.random.Generator,
    *,
    sites_per_domain: int = 5,
    classes_per_site: int = 2,
    column: str = "site",
) -> list[Share]:
    """Both shifts at once: every domain (a value of ``column``) is shared out among its own sites as `pathological`
    does it, ``classes_per_site`` classes each."""
    if sites_per_domain < 1:
        raise PartitionError(f"sites_per_domain={sites_per_domain}; use at least 1.")
    values = _values(dataset, column)
    domains = np.unique(values)
    if sites is not None and sites != len(domains) * sites_per_domain:
        raise PartitionError(
            f"sites={sites}, but sites_per_domain={sites_per_domain} and column {column!r} has {len(domains)} domains; "
            f"leave sites out, there are {len(domains) * sites_per_domain}, or change sites_per_domain."
        )
    shares = []
    for domain in map(str, domains):
        rows = np.flatnonzero(values == domain)
        try:
            within = pathological(dataset.take(rows), sites_per_domain, rng, classes_per_site=classes_per_site)
        except PartitionError as error:
            raise PartitionError(f"domain {domain!r}, sites_per_domain={sites_per_domain}: {error}") from error
        shares += [Share(rows[share.rows], share.name.replace("site", domain, 1)) for share in within]
    return shares


def _values(dataset: Dataset, column: str) -> NDArray[np.str_]:
    values = dataset.column(column)
    if values is not None:
        return values
    known = dataset.column_names()
    if column == "site" and known:
        raise PartitionError(
            f"{dataset.name} has no sites of its own; name a column to make them from (--column {known[0]}; there are "
            f"{', '.join(known)}), or use a drawn partition such as dirichlet."
        )
    if not known:
        raise PartitionError(
            f"{dataset.name} has no column {column!r} to make sites from; load it with site=..., "
            "or use a drawn partition such as dirichlet."
        )
    raise PartitionError(f"{dataset.name}: {choices(column, known, 'column')}")


def _sites_a_domain(sizes: NDArray[np.int64], sites: int) -> NDArray[np.int64]:
    """At least one each; the next site goes where a site would have most rows."""
    pieces = np.ones(len(sizes), dtype=np.int64)
    while pieces.sum() < sites:
        pieces[np.argmax(sizes / (pieces + 1))] += 1
    return pieces


def _stratified_pieces(rows: Indices, y: NDArray[np.int64], pieces: int, rng: np.random.Generator) -> list[Indices]:
    order = rng.permutation(len(rows))
    by_label = rows[order[np.argsort(y[order], kind="stable")]]
    return [np.sort(by_label[place::pieces]) for place in range(pieces)]
