"""Coloured digits: the same handwriting everywhere, in another colour at every site."""

from __future__ import annotations

import colorsys
from pathlib import Path

import numpy as np

from peerwise.data.dataset import Dataset
from peerwise.data.loaders.embedded import digits
from peerwise.errors import DataError

SIDE = 28  # of a picture
MOST = 60  # colours that still leave 29 digits to each


def coloured_digits(data_dir: str | Path | None = None, *, colours: int = 10) -> Dataset:
    """Handwritten digits, 1,797 colour images of 28 x 28, 10 classes, sites: the colours; comes with scikit-learn.

    Each of the ``colours`` (evenly spaced hues on black) has as many digits of every class as the others, one more or
    less, so that sites differ by colour alone.
    """
    from scipy.ndimage import zoom

    if not isinstance(colours, int) or isinstance(colours, bool) or not 2 <= colours <= MOST:
        raise DataError(f"coloured_digits: colours is {colours!r}; use a whole number from 2 to {MOST}.")
    plain = digits()
    assert isinstance(plain.X, np.ndarray)
    small = plain.X.reshape(-1, 8, 8)
    grey = np.clip(zoom(small, (1, SIDE / 8, SIDE / 8), order=1) / 16, 0, 1)
    hues = np.array([colorsys.hsv_to_rgb(place / colours, 1, 1) for place in range(colours)])
    dealt = np.empty(len(plain), np.int64)
    # Dealt class by class and on from where the last class ended, the same in every run.
    order = np.argsort(plain.y, kind="stable")
    dealt[order] = np.arange(len(plain)) % colours
    images = np.round(255 * hues[dealt][:, :, None, None] * grey[:, None]).astype(np.uint8)
    width = len(str(colours - 1))
    return Dataset(
        name="coloured_digits",
        kind="image",
        X=images,
        y=plain.y,
        classes=plain.classes,
        site=np.array([f"colour-{place:0{width}d}" for place in range(colours)])[dealt],
        source=plain.source,
        licence=plain.licence,
    )
