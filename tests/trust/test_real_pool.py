"""A pool that others trained: handwritten digits at ten sites, own columns out of fold."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from peerwise import OwnOnly, PeerwiseClassifier

DATA = os.environ.get("PEERWISE_DATA")
POOL = Path(DATA or ".").parent / "pools" / "digits_dir0.3_s0__tabular_heterogeneous_3.npz"


@pytest.mark.slow
@pytest.mark.skipif(not DATA, reason="set PEERWISE_DATA to the folder of the data sets")
@pytest.mark.skipif(not POOL.is_file(), reason="the folder of pools is not beside that of the data sets")
def test_peerwise_beats_the_own_models_of_the_digits_pool():
    with np.load(POOL, allow_pickle=False) as pool:
        found = {"own": [], "peerwise": []}
        for site in range(10):
            train, val, test = (
                (pool[f"{part}_logits_{site}"], pool[f"{part}_y_{site}"]) for part in ("train", "val", "test")
            )
            for name, learner in (
                ("own", OwnOnly(own=[site])),
                ("peerwise", PeerwiseClassifier(own=[site], random_state=0)),
            ):
                learner.fit_outputs(*train, validation=val)
                found[name].append((learner.predict_proba_outputs(test[0]).argmax(axis=1) == test[1]).mean())
    assert np.mean(found["own"]) == pytest.approx(0.9333, abs=2e-4)
    assert np.mean(found["peerwise"]) > np.mean(found["own"]) + 0.01
