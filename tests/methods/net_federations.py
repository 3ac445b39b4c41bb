"""Small federations of sites with nets, for the tests of methods with rounds: digits, tables, sequences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.datasets import load_digits
from small_federations import awkward, sequence_sites

from peerwise.data import Rows, Site
from peerwise.parcels import Keep


def image_sites(recipes: Sequence[str] = ("cnn8", "lenet", "cnn16"), rows: int = 40) -> list[Site]:
    """One site for each recipe, with digits of 28 pixels; the last one lacks the digits from 7."""
    X, y = load_digits(return_X_y=True)
    small = (X.reshape(-1, 1, 8, 8) * 15.9).astype(np.uint8)
    images = np.pad(small.repeat(3, axis=2).repeat(3, axis=3), ((0, 0), (0, 0), (2, 2), (2, 2)))
    keep, sites = Keep(), []
    for place, recipe in enumerate(recipes):
        mine = np.arange(place, len(y), len(recipes))
        mine = mine[y[mine] < 7] if place == len(recipes) - 1 else mine
        train, val, test = (
            Rows(images[part], y[part].astype(np.int64)) for part in (mine[:rows], mine[-24:-12], mine[-12:])
        )
        classes = tuple(str(digit) for digit in range(10))
        sites.append(Site(f"site-{place}", "image", classes, train, val, test, recipes=(recipe,), keep=keep))
    return sites


def table_sites() -> list[Site]:
    """Sites that lack a class, validation rows, test rows, or nearly all rows."""
    return awkward("mlp")


def series_sites() -> list[Site]:
    return [site.replace(recipes=(recipe,)) for site, recipe in zip(sequence_sites(), ("tcn", "lstm"), strict=True)]
