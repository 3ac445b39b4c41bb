"""Confidence against accuracy, bin by bin: do the answers hold what their probabilities promise?"""

from __future__ import annotations

import numpy as np
import pandas as pd

from peerwise.metrics import BINS, Labels, Probabilities, binned


def calibration_bins(y: Labels, probabilities: Probabilities, bins: int = BINS) -> pd.DataFrame:
    """A line a bin of the answer's probability, those of `peerwise.metrics.calibration_error`, that holds any row:
    ``low`` (excluded), ``high``, ``rows``, mean ``confidence``, ``accuracy``.

    >>> calibration_bins(np.array([0, 1]), np.array([[0.9, 0.1], [0.9, 0.1]]), bins=5).to_dict("records")
    [{'low': 0.8, 'high': 1.0, 'rows': 2, 'confidence': 0.9, 'accuracy': 0.5}]
    """
    confidence, right, place = binned(y, probabilities, bins)
    rows = np.bincount(place, minlength=bins)
    there = np.flatnonzero(rows)
    sums = [np.bincount(place, values, minlength=bins)[there] / rows[there] for values in (confidence, right)]
    return pd.DataFrame(
        {
            "low": there / bins,
            "high": (there + 1) / bins,
            "rows": rows[there],
            "confidence": sums[0],
            "accuracy": sums[1],
        }
    )
