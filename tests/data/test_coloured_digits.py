"""Coloured digits: sites differ by colour and by nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from peerwise.data import make_sites
from peerwise.data.loaders.coloured import coloured_digits
from peerwise.data.loaders.embedded import digits
from peerwise.errors import DataError


def test_every_colour_has_the_same_digits():
    data = coloured_digits(colours=20)
    assert data.X.shape == (1797, 3, 28, 28)
    assert data.X.dtype == np.uint8
    assert np.array_equal(data.y, digits().y)
    assert data.site is not None
    counts = np.array([np.bincount(data.y[data.site == name], minlength=10) for name in np.unique(data.site)])
    assert counts.shape == (20, 10)
    assert (counts.max(axis=0) - counts.min(axis=0) <= 1).all()


def test_a_site_has_one_colour_and_no_other_site_has_it():
    data = coloured_digits(colours=5)
    assert data.site is not None
    tones = {}
    for name in np.unique(data.site):
        brightest = data.X[data.site == name].astype(float).max(axis=(2, 3))
        tones[name] = {tuple(row) for row in (brightest / brightest.max(axis=1, keepdims=True)).round(1)}
    assert all(len(found) == 1 for found in tones.values())
    assert len(set.union(*tones.values())) == 5


def test_without_its_colour_a_digit_is_the_digit_that_it_was():
    data, plain = coloured_digits(), digits()
    assert isinstance(data.X, np.ndarray)
    assert isinstance(plain.X, np.ndarray)
    corners = data.X.max(axis=1)[:, ::27, ::27] / 255
    assert np.abs(corners - plain.X.reshape(-1, 8, 8)[:, ::7, ::7] / 16).max() < 0.01


def test_the_sites_are_the_colours():
    sites = make_sites(coloured_digits(colours=4), recipes=["small_cnn"])
    assert [site.name for site in sites] == [f"colour-{place}" for place in range(4)]
    assert all(len(np.unique(site.train.y)) == 10 for site in sites)


@pytest.mark.parametrize("colours", [1, 0, 61, 2.5, True])
def test_a_number_of_colours_that_cannot_be_is_refused(colours):
    with pytest.raises(DataError, match="from 2 to 60"):
        coloured_digits(colours=colours)
