"""Small federations for the tests of this room: four real hospitals, and sites with little to learn from."""

from __future__ import annotations

import numpy as np

from peerwise.data import Feature, Rows, Sequences, Site, load, make_sites
from peerwise.parcels import Keep


def hospitals(*recipes: str, keep: Keep | None = None) -> list[Site]:
    sites = make_sites(load("heart_disease"), "natural", recipes=recipes or ("logistic",), seed=0)
    return [site.replace(keep=keep or Keep()) for site in sites]


def table_site(name: str, train: list[int], val: list[int], test: list[int], *recipes: str, seed: int = 0) -> Site:
    """A site with these labels out of three classes; the first two columns tell the class."""
    rng = np.random.default_rng([seed, *name.encode()])

    def rows(labels: list[int]) -> Rows:
        y = np.array(labels, dtype=np.int64)
        X = rng.normal(size=(len(y), 4)).astype(np.float32)
        X[:, 0] += 2 * (y == 1)
        X[:, 1] += 2 * (y == 2)
        return Rows(X, y)

    features = tuple(Feature(f"f{place}") for place in range(4))
    return Site(name, "table", ("a", "b", "c"), rows(train), rows(val), rows(test), features,
                recipes=recipes or ("logistic",), seed=seed, keep=Keep())  # fmt: skip


def awkward(*recipes: str) -> list[Site]:
    full = [0, 1, 2] * 10
    return [
        table_site("all is well", full, [0, 1, 2] * 3, [0, 1, 2] * 3, *recipes),
        table_site("lacks a class", [0, 1] * 10, [0, 1] * 3, [0, 1, 2], *recipes),
        table_site("no test rows", full, [0, 1], [], *recipes),
        table_site("no validation rows", full, [], [0, 1, 2], *recipes),
        table_site("one class", [2] * 12, [2] * 3, [0, 2], *recipes),
        table_site("two rows", [0, 1], [], [1], *recipes),
    ]


def sequence_sites(*recipes: str) -> list[Site]:
    rng = np.random.default_rng(0)

    def rows(size: int) -> Rows:
        y = np.arange(size) % 2
        series = rng.normal(size=(size, 6, 2)).astype(np.float32) + y[:, None, None].astype(np.float32)
        return Rows(Sequences(rng.normal(size=(size, 3)).astype(np.float32), series), y)

    return [
        Site(name, "sequence", ("no", "yes"), rows(16), rows(6), rows(4), recipes=recipes, keep=Keep())
        for name in ("left", "right")
    ]
