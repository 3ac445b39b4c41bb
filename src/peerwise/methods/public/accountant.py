"""What was said about public rows costs this much privacy, exactly, over all rounds together; and the other way round.

Everything is one composition of privacy loss distributions (by dp-accounting):

- Gaussian releases, whatever their number, are one Gaussian release: with sensitivity D_k and noise s_k it has
  mu^2 = sum_k (D_k / s_k)^2. This needs no discretisation, and alone is solved in closed form.
- A label by randomised response loses +eps, 0 or -eps, so n labels are n steps on a lattice, without rounding.
- DP-SGD is the Poisson-sampled Gaussian, composed over all steps of all rounds.

The published bound eps = sqrt(2 ln(1.25 / delta)) mu is none of these: it is wrong above about 8.4 at delta = 1e-5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from peerwise.errors import ConfigError
from peerwise.methods.public.extra import privacy_library
from peerwise.methods.public.release import keep_probability

ACCOUNTANT = "privacy loss distributions (dp-accounting)"
RECORD = "record (what one row adds; how many rows there are is not hidden)"
SITE = "site (all of its rows)"
TAIL = 1e-15  # chance of losses left out, which counts as delta
FINEST, COARSEST = 1e-5, 1e-3  # intervals of the privacy loss of DP-SGD
GRID, SPREAD = 2**20, 20.0  # a Gaussian's loss takes at most so many intervals for so many standard deviations


@dataclass(frozen=True)
class Guarantee:
    """(epsilon, delta)-differential privacy of ``unit`` over ``rounds``, with what noise, and who counted."""

    epsilon: float
    delta: float
    unit: str
    rounds: int
    mechanism: str
    accountant: str = ACCOUNTANT

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Release:
    """What a site says in each of ``rounds``: a label (``label_epsilon``, `randomised_response`) and a score
    (``expertise_sigma``, `noisy_expertise`; None: no scores are sent) for each of ``public_rows``.

    A model is any function of the site's rows, so one row may change everything said: the unit is the site.
    """

    public_rows: int
    classes: int
    rounds: int
    label_epsilon: float
    expertise_sigma: float | None = None
    expertise_high: float = 1.0

    @property
    def mu(self) -> float:
        """Sensitivity over noise of all scores of all rounds, as one Gaussian release."""
        if self.expertise_sigma is None:
            return 0.0
        return gaussian_mu(self.expertise_high * math.sqrt(self.public_rows), self.expertise_sigma, self.rounds)


@dataclass(frozen=True)
class PrivateTraining:
    """DP-SGD with this ``noise`` (multiplier), each row in each step with chance ``sample_rate``, ``steps`` in all
    rounds together; class counts noised once (``counts_sigma``), a mean loss in each round (``loss_sigma``, as in
    `noisy_mean_loss`). All that is computed from these, labels and scores included, is as private."""

    noise: float
    sample_rate: float
    steps: int
    rounds: int
    counts_sigma: float | None = None
    loss_sigma: float | None = None

    @property
    def mu(self) -> float:
        """Sensitivity over noise of the counts and losses, as one Gaussian release."""
        counts = 0.0 if self.counts_sigma is None else gaussian_mu(1.0, self.counts_sigma, 1)
        return math.hypot(counts, 0.0 if self.loss_sigma is None else gaussian_mu(1.0, self.loss_sigma, self.rounds))


def gaussian_mu(sensitivity: float, sigma: float, times: int) -> float:
    """sqrt(times) D / sigma."""
    if not sigma > 0:
        raise ConfigError(f"noise of standard deviation {sigma}: expected above 0, without it nothing is private.")
    return math.sqrt(times) * sensitivity / sigma


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest eps with Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) <= delta (Balle and Wang, 2018)."""
    return float(privacy_library("dp_accounting.gaussian_mechanism").get_epsilon_gaussian(1 / mu, delta)) if mu else 0.0


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float, times: int = 1) -> float:
    """The noise with which ``times`` Gaussian releases together spend ``epsilon``."""
    _check(epsilon, delta)
    unit = float(privacy_library("dp_accounting.gaussian_mechanism").get_sigma_gaussian(epsilon, delta))
    return unit * sensitivity * math.sqrt(times)


def release_guarantee(release: Release, delta: float) -> Guarantee:
    """What labels and expertise together cost."""
    _check(release.label_epsilon, delta)
    said = f"labels by randomised response (epsilon {release.label_epsilon:.3g} each)"
    if release.expertise_sigma is not None:
        said += f", expertise with Gaussian noise (sigma {release.expertise_sigma:.3g})"
    return Guarantee(_release_epsilon(release, delta), delta, SITE, release.rounds, said)


def training_guarantee(training: PrivateTraining, delta: float) -> Guarantee:
    """What DP-SGD, class counts and losses together cost."""
    _check(1.0, delta)
    said = f"DP-SGD (noise {training.noise:.3g}, sample rate {training.sample_rate:.3g}, {training.steps} steps)"
    if training.counts_sigma is not None:
        said += f", class counts once (sigma {training.counts_sigma:.3g})"
    if training.loss_sigma is not None:
        said += f", a mean loss a round (sigma {training.loss_sigma:.3g})"
    return Guarantee(_training_epsilon(training, delta), delta, RECORD, training.rounds, said)


def label_epsilon_for(epsilon: float, delta: float, release: Release) -> float:
    """The largest epsilon of a label with which ``release`` (its own is not looked at) spends at most ``epsilon``."""
    _check(epsilon, delta)
    _room(epsilon, delta, release.mu, "expertise_sigma")

    def spent(inverse: float) -> float:
        return _release_epsilon(replace(release, label_epsilon=1 / inverse), delta)

    return 1 / _least_noise(spent, epsilon, 1 / epsilon)


def training_noise_for(epsilon: float, delta: float, training: PrivateTraining) -> float:
    """The smallest noise with which ``training`` (its own is not looked at) spends at most ``epsilon``."""
    _check(epsilon, delta)
    _room(epsilon, delta, training.mu, "counts_sigma or loss_sigma")
    return _least_noise(lambda noise: _training_epsilon(replace(training, noise=noise), delta), epsilon, 1.0)


def _release_epsilon(release: Release, delta: float) -> float:
    """The root of delta(eps) = sum_k P[L = k] delta_G(eps - k), L the loss of all labels, G the scores' Gaussian."""
    losses, chances = _label_losses(release)
    mu = release.mu

    def missing(epsilon: float) -> float:
        return float(chances @ _gaussian_delta(epsilon - losses, mu)) + TAIL - delta

    if missing(0.0) <= 0:
        return 0.0
    return float(brentq(missing, 0.0, losses[-1] + gaussian_epsilon(mu, delta) + 1.0, xtol=1e-9))


def _label_losses(release: Release) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The loss of one label is +eps (kept), -eps (the other site's label), 0 (any further one); of all, their sum."""
    if release.classes < 2:
        raise ConfigError(f"{release.classes} classes: expected at least 2, one has no labels to hide.")
    labels = release.public_rows * release.rounds
    keep = keep_probability(release.classes, release.label_epsilon)
    other = (1 - keep) / (release.classes - 1)
    once = [other, max(0.0, 1 - keep - other), keep]
    lowest, chances = privacy_library("dp_accounting.pld.common").self_convolve(once, labels, TAIL)
    steps = lowest - labels + np.arange(len(chances))
    return steps * release.label_epsilon, np.maximum(chances, 0.0)


def _gaussian_delta(epsilon: NDArray[np.float64], mu: float) -> NDArray[np.float64]:
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), for eps of any sign; without a release max(0, 1 - e^eps)."""
    if not mu:
        return -np.expm1(np.minimum(epsilon, 0.0))
    lost: NDArray[np.float64] = ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
    return np.maximum(lost, 0.0)


def _training_epsilon(training: PrivateTraining, delta: float) -> float:
    if not (0 < training.sample_rate <= 1 and training.steps >= 1):
        raise ConfigError(
            f"sample rate {training.sample_rate} and {training.steps} steps: expected a rate above 0 and at most 1, "
            "and at least one step."
        )
    if training.sample_rate == 1:
        return gaussian_epsilon(math.hypot(gaussian_mu(1.0, training.noise, training.steps), training.mu), delta)
    # A tenth of a step's own spread: a coarser interval would add as much variance as the step has.
    spread = training.sample_rate * math.sqrt(math.expm1(min(training.noise**-2, 50.0)))
    interval = max(min(spread / 10, COARSEST), FINEST, SPREAD * training.mu / GRID)
    distribution = privacy_library("dp_accounting.pld.privacy_loss_distribution").from_gaussian_mechanism
    once = distribution(training.noise, sampling_prob=training.sample_rate, value_discretization_interval=interval)
    composed = once.self_compose(training.steps)
    if training.mu:
        composed = composed.compose(distribution(1 / training.mu, value_discretization_interval=interval))
    return float(composed.get_epsilon_for_delta(delta))


def _least_noise(spent: Callable[[float], float], wanted: float, guess: float) -> float:
    """The smallest noise that spends at most ``wanted``, to one part in a thousand and on the safe side."""
    low = high = guess
    while spent(high) > wanted:
        low, high = high, 2 * high
    while low == high or spent(low) <= wanted:
        low, high = low / 2, low
    root = brentq(lambda log: min(spent(math.exp(log)), 1e9) - wanted, math.log(low), math.log(high), xtol=2e-4)
    noise = math.exp(root)
    while spent(noise) > wanted:
        noise *= 1.0003
    return noise


def _room(epsilon: float, delta: float, mu: float, what: str) -> None:
    already = gaussian_epsilon(mu, delta)
    if already >= epsilon:
        raise ConfigError(
            f"epsilon {epsilon:g} at delta {delta:g} is wanted, but {already:.3g} is spent by what else is released: "
            f"raise {what}, or allow a larger epsilon."
        )


def _check(epsilon: float, delta: float) -> None:
    if not (0 < epsilon < math.inf and 1e-12 <= delta < 1):
        raise ConfigError(
            f"epsilon {epsilon} and delta {delta}: expected epsilon above 0 and delta from 1e-12 to 1, such as 1e-5."
        )
