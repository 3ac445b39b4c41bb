"""How much a site knows about each public row, by its own account (FedMosaic's two scores)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr

from peerwise.errors import ModelError

# The lowest value of both scores is 0; the highest by the number of classes.
HIGHEST: dict[str, Callable[[int], float]] = {"class_frequency": lambda classes: 1.0, "confidence": math.log}


def class_frequency(labels: ArrayLike, counts: ArrayLike) -> NDArray[np.float64]:
    """E[j] = n_yhat(j) / n in [0, 1]: the share of the said class among the site's own rows.

    ``labels`` (|U|,), ``counts`` (C,) of the site's train labels, noised or not.

    >>> class_frequency([0, 1, 2], [3, 1, 0]).tolist()
    [0.75, 0.25, 0.0]
    """
    sizes = np.asarray(counts, dtype=np.float64)
    if not (sizes.size and np.all(sizes >= 0) and sizes.sum() > 0):
        raise ModelError(f"class counts {sizes.tolist()}: expected none below 0 and at least one above.")
    share: NDArray[np.float64] = (sizes / sizes.sum())[np.asarray(labels, dtype=np.int64)]
    return share


def confidence(probabilities: ArrayLike) -> NDArray[np.float64]:
    """E[j] = log C - H(p_j) in [0, log C], natural logarithms: 0 for a guess, log C for certainty.

    ``probabilities`` (|U|, C). The paper gives the range, not the sign; entropy itself would reward doubt.
    """
    shares = np.asarray(probabilities, dtype=np.float64)
    highest = math.log(shares.shape[1])
    known: NDArray[np.float64] = np.clip(highest - entr(shares).sum(axis=1), 0.0, highest)
    return known
