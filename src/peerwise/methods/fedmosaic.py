"""FedMosaic: a consensus on public rows by expertise, trusted as far as it fits one's own rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, Unpack

import numpy as np
from torch import Tensor, nn

from peerwise.data import Inputs, Site
from peerwise.errors import ConfigError, DataError, choices
from peerwise.federation.method import Inbox, Memory
from peerwise.methods.by_rounds import Budget
from peerwise.methods.co_training import (
    CoTraining,
    Labels,
    Probabilities,
    PublicBatches,
    check_topic,
    public,
    topic,
)
from peerwise.methods.public import (
    HIGHEST,
    class_frequency,
    confidence,
    consensus,
    dequantise,
    pack_labels,
    pack_votes,
    quantise,
    unpack_labels,
    unpack_votes,
)
from peerwise.methods.public.dp_training import check_trainable, noisy_mean_loss, private_step
from peerwise.methods.public.plans import release_plan, training_plan
from peerwise.methods.public.release import noisy_counts, noisy_expertise, randomised_response
from peerwise.models.nets import Net
from peerwise.parcels import Parcel

EPSILON = 1e-8  # keeps lambda defined where the own loss is 0
Expertise = Literal["class_frequency", "confidence"]
PROTECTIONS = ("no", "training", "release")


class FedMosaic(CoTraining):
    """Personalised federated co-training with per-example trust (Abourayya et al., 2025).

    loss = l_priv + lambda l_pub        lambda = exp(-(l_pub - l_priv) / (l_priv + 1e-8)), at most e
    L[j] = argmax_c sum_i E_i[j] 1[yhat_i(j) = c]        E_i[j] = n_{i, yhat_i(j)} / n_i  or  log C - H(p_i(x_j))

    l_priv and l_pub are mean cross entropies of the model a round begins with, over all own and all public rows;
    lambda stays as it is for the round. Before the first consensus there is no l_pub. Sent: |U| (ceil(log2 C) +
    ``bits``) bits, received: |U| ceil(log2 C) bits. ``expertise``: class frequencies suit sites with different labels,
    confidence (the paper's entropy score, turned so that more is surer) sites with different inputs.
    ``fixed_lambda`` switches the adaptation off.

    ``private``: what leaves the site is (``epsilon``, ``delta``)-differentially private, all rounds together.
    "training": DP-SGD with gradients clipped to ``clip``, so that one row of the site is hidden; labels and
    confidence are then computed from what is private already, class counts are noised once and the own loss in every
    round, and a net scales its inputs by the public rows. "release": labels by randomised response and expertise with
    Gaussian noise, so that all rows of the site together are hidden; any model can be trained. `privacy` says what is
    guaranteed if nobody else knows the noise: it is drawn from the site's secret. A simulation has no secrets and draws
    it from the run's seed, so that it can be repeated: it shows what privacy costs and protects nobody.

    Departs from the paper: lambda is for a round instead of a step, ``period`` counts rounds instead of steps; ties go
    to the lowest class; scores below 1e-6 count as 1e-6; epsilon is counted exactly and over all rounds.
    """

    def __init__(
        self,
        expertise: Expertise = "class_frequency",
        bits: int = 8,
        period: int | None = None,
        fixed_lambda: float | None = None,
        private: Literal["no", "training", "release"] = "no",
        epsilon: float = 8.0,
        delta: float = 1e-5,
        clip: float = 1.0,
        **budget: Unpack[Budget],
    ) -> None:
        super().__init__(period, **budget)
        for key, value, known in (("expertise", expertise, HIGHEST), ("private", private, PROTECTIONS)):
            if value not in known:
                raise ConfigError(f"{key}: {choices(value, known, key)}")
        if not 1 <= bits <= 16:
            raise ConfigError(f"bits is {bits}: expected 1 to 16 for an expertise score.")
        if fixed_lambda is not None and fixed_lambda < 0:
            raise ConfigError(f"fixed_lambda is {fixed_lambda}: expected at least 0, or nothing to adapt it.")
        self.expertise = expertise
        self.bits = bits
        self.fixed_lambda = fixed_lambda
        if not (epsilon > 0 and 0 < delta < 1 and clip > 0):
            raise ConfigError(
                f"epsilon {epsilon}, delta {delta}, clip {clip}: expected all above 0 and delta below 1, such as 1e-5."
            )
        self.private = private
        self.epsilon = epsilon
        self.delta = delta
        self.clip = clip

    def check_sites(self, sites: Sequence[Site]) -> None:
        super().check_sites(sites)
        for site in sites:
            if self.private == "training" and not self.is_net(site):
                raise DataError(
                    f"site {site.name!r} trains {self.recipe(site)!r}, which has no gradients to make private: "
                    f"expected a neural network. Choose another model, or private='release'."
                )
            if self.private == "training":
                check_trainable(self.new_net(site, np.random.default_rng(0)))

    def scaled_by(self, site: Site) -> Inputs:
        return public(site) if self.private == "training" else site.train.X

    def start(self, site: Site, rng: np.random.Generator) -> None:
        super().start(site, rng)
        counts = np.bincount(site.train.y, minlength=len(site.classes)).astype(np.float64)
        if self.private != "no":
            site.state["noise"] = noise = self._plan(site)
            if noise.get("counts_sigma"):
                counts = noisy_counts(counts, noise["counts_sigma"], self.chance(site, "counts", counts))
        site.state["counts"] = counts

    def _plan(self, site: Site) -> dict[str, Any]:
        shares = self.rounds // self.every
        if self.private == "release":
            about = (len(public(site)), len(site.classes), max(1, shares), self._highest(site))
            return dict(release_plan(self.epsilon, self.delta, *about))
        work = (len(site.train), self.batch_size, self.rounds * self.local_epochs, self.rounds)
        asked = (self.expertise == "class_frequency", self.fixed_lambda is None)
        return dict(training_plan(self.epsilon, self.delta, *work, *asked))

    def share(self, site: Site, round: int) -> Parcel:
        labels: Labels | None = site.state.get("consensus")
        weight = self.trust(site, round, labels)
        site.state["trained"] = round
        self.learn(site, round, labels, weight)
        if not self.shares_in(round):
            return Parcel()
        said, scores = self.opinion(site, round, self.predict_proba(site, public(site)))
        codes = quantise(scores, 0.0, self._highest(site), self.bits)
        return Parcel(votes=pack_votes(said, codes, len(site.classes), self.bits), **self.about(site))

    def trust(self, site: Site, round: int, labels: Labels | None) -> float:
        """lambda of this round; with both losses it is kept for the curves."""
        own = self.own_loss(site, round)
        found = {"lambda": 0.0} | ({} if own is None else {"own loss": own})
        if labels is not None:
            losses = self.losses(site, public(site), labels)
            if self.private == "training":
                losses = np.minimum(losses, self._largest_loss(site))  # as the own ones
            found["public loss"] = common = float(losses.mean())
            if self.fixed_lambda is not None:
                found["lambda"] = self.fixed_lambda
            elif own is not None:
                found["lambda"] = adaptive_weight(own, common)
        site.state["trust"] = found
        return found["lambda"]

    def own_loss(self, site: Site, round: int) -> float | None:
        losses = self.losses(site, site.train.X, site.train.y)
        if self.private != "training":
            return float(losses.mean())
        sigma = site.state["noise"]["loss_sigma"]
        # A fixed lambda asks nothing of the rows, so no private loss was paid for.
        if not sigma:
            return None
        return noisy_mean_loss(losses, self._largest_loss(site), sigma, self.chance(site, f"loss {round}", losses))

    def _largest_loss(self, site: Site) -> float:
        """A row's loss counts no more than this where it is made private: half as much again as that of a guess."""
        return 1.5 * math.log(max(2, len(site.classes)))

    def chance(self, site: Site, purpose: str, *about: Inputs) -> np.random.Generator:
        """For noise over what it is ``about``: another setting on the same rows draws anew, or two of them would give
        the rows away."""
        return site.noise_rng(f"{purpose} {sorted(vars(self).items())}", *about)

    def fit_with(
        self, site: Site, net: Net, round: int, batches: PublicBatches | None, weight: float, mixed: bool
    ) -> None:
        if self.private != "training":
            return super().fit_with(site, net, round, batches, weight, mixed)
        noise, optimizer = site.state["noise"], self.new_optimizer(net.parameters())
        begun = (site.train.X, site.train.y, *site.state["net"].values(), np.asarray(weight), _consensus(site))
        hidden, rows = (self.chance(site, f"{purpose} {round}", *begun) for purpose in ("noise", "rows"))

        def public_loss() -> Tensor:
            assert batches is not None
            inputs, said = batches(self.batch_size)
            return weight * nn.functional.cross_entropy(net(*inputs), said)

        with private_step(
            net,
            optimizer,
            clip=self.clip,
            noise=noise["noise"],
            expected_batch=noise["expected_batch"],
            # A torch seed is short enough to be guessed: with a secret numpy draws, from all of it.
            chance=hidden if site.secret else int(hidden.integers(2**63)),
            public_loss=None if batches is None else public_loss,
        ) as update:
            purpose = f"private {int(rows.integers(2**63))}"
            poisson = rows if site.secret else True
            self.fit(site, net, round, update=update, optimizer=optimizer, poisson=poisson, purpose=purpose)

    def opinion(self, site: Site, round: int, probabilities: Probabilities) -> tuple[Labels, Any]:
        """Labels and expertise, one of each for every public row, as they are sent."""
        labels = probabilities.argmax(axis=1)
        sure = self.expertise == "confidence"
        scores = confidence(probabilities) if sure else class_frequency(labels, site.state["counts"])
        if self.private != "release":
            return labels, scores
        noise, rng = site.state["noise"], self.chance(site, f"release {round}", probabilities)
        scores = noisy_expertise(scores, noise["expertise_sigma"], self._highest(site), rng)
        return randomised_response(labels, len(site.classes), noise["label_epsilon"], rng), scores

    def _highest(self, site: Site) -> float:
        return HIGHEST[self.expertise](len(site.classes))

    def combine(self, inbox: Inbox, memory: Memory, rng: np.random.Generator) -> tuple[Parcel, Memory]:
        parcels, about = (inbox[name] for name in sorted(inbox)), topic(inbox[min(inbox)])
        labels = consensus(((each["labels"], each["expertise"]) for each in parcels), about["classes"])
        return Parcel(consensus=pack_labels(labels, about["classes"]), **about), memory

    def read_opinion(self, parcel: Parcel, rows: int, classes: int) -> dict[str, Any]:
        labels, codes = unpack_votes(parcel["votes"], rows, classes, self.bits)
        return {"labels": labels, "expertise": dequantise(codes, 0.0, HIGHEST[self.expertise](classes), self.bits)}

    def absorb(self, site: Site, round: int, inbox: Parcel) -> None:
        if "consensus" not in inbox:
            return
        check_topic(site, inbox)
        self.adopt(site, unpack_labels(inbox["consensus"], len(public(site)), len(site.classes)))
        if site.state.get("trained", -1) != round:
            site.state.pop("trust", None)  # it only listened: lambda is of a round before

    def curves(self, site: Site) -> dict[str, float]:
        return {**site.state.get("trust", {}), **super().curves(site)}

    def privacy(self, site: Site) -> dict[str, Any] | None:
        return site.state["noise"]["guarantee"] if self.private != "no" else None


def _consensus(site: Site) -> Labels:
    """The labels of the public rows, none before there are any."""
    return np.asarray(site.state.get("consensus", ()), dtype=np.int64)


def adaptive_weight(own: float, common: float) -> float:
    """lambda = exp(-(l_pub - l_priv) / (l_priv + 1e-8)): e where the public loss vanishes, 1 where both are equal, 0
    where the consensus contradicts what the own rows teach.

    >>> round(adaptive_weight(0.5, 0.5), 6), adaptive_weight(1e-9, 5.0), adaptive_weight(0.3, 0.0) <= math.e
    (1.0, 0.0, True)
    """
    return math.exp(-(common - own) / (own + EPSILON))
