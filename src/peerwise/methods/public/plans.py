"""How much noise a site needs for a wanted epsilon: worked out once, before anything is said."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

from peerwise.methods.public.accountant import (
    PrivateTraining,
    Release,
    gaussian_sigma,
    label_epsilon_for,
    release_guarantee,
    training_guarantee,
    training_noise_for,
)
from peerwise.models.training import poisson_plan

EXPERTISE_SHARE = 0.5  # of epsilon, if it were spent alone; labels get what is left of the whole
SMALL_SHARE = 0.1  # the same of class counts, and of the losses of all rounds together


@lru_cache(maxsize=32)
def release_plan(epsilon: float, delta: float, public_rows: int, classes: int, rounds: int, high: float) -> Any:
    """Labels by randomised response and expertise in [0, high] with Gaussian noise in each of ``rounds``: their noise,
    and what is then guaranteed. The same at every site of a federation."""
    sigma = gaussian_sigma(EXPERTISE_SHARE * epsilon, delta, high * math.sqrt(public_rows), rounds)
    blank = Release(public_rows, classes, rounds, label_epsilon=1.0, expertise_sigma=sigma, expertise_high=high)
    release = replace(blank, label_epsilon=label_epsilon_for(epsilon, delta, blank))
    return {
        "label_epsilon": release.label_epsilon,
        "expertise_sigma": sigma,
        "guarantee": release_guarantee(release, delta).as_dict(),
    }


@lru_cache(maxsize=256)
def training_plan(
    epsilon: float, delta: float, rows: int, batch_size: int, epochs: int, rounds: int, counts: bool, losses: bool
) -> Any:
    """DP-SGD over ``epochs`` in all: its noise, that of the class counts (once) and of the mean loss (once a round)
    where these are asked of the rows, and what is then guaranteed."""
    rate, steps = poisson_plan(rows, batch_size)
    blank = PrivateTraining(
        noise=1.0,
        sample_rate=rate,
        steps=epochs * steps,
        rounds=rounds,
        counts_sigma=gaussian_sigma(SMALL_SHARE * epsilon, delta, 1.0) if counts else None,
        loss_sigma=gaussian_sigma(SMALL_SHARE * epsilon, delta, 1.0, rounds) if losses else None,
    )
    training = replace(blank, noise=training_noise_for(epsilon, delta, blank))
    return {
        "noise": training.noise,
        "expected_batch": training.sample_rate * rows,
        "counts_sigma": training.counts_sigma,
        "loss_sigma": training.loss_sigma,
        "guarantee": training_guarantee(training, delta).as_dict(),
    }
