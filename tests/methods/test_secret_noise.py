"""Noise that protects rows: from the site's secret where there is one, else from the seed as simulations have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from public_federations import SMALL, digits

from peerwise.data import Rows, Site, load, make_sites
from peerwise.errors import ConfigError
from peerwise.methods.feature_match import columns_at
from peerwise.methods.fedmosaic import FedMosaic
from peerwise.methods.private_forest import private_forest
from peerwise.methods.public.dp_training import private_step
from peerwise.methods.public_models import differentially_private
from peerwise.methods.stacking import Stacking
from peerwise.models.nets import new_net
from peerwise.models.sgd import SGD
from peerwise.models.training import train

SECRETS = (b"", b"a secret of one site" * 2, b"a secret of another site" * 2)
RANGES = {name: [0.0, 600.0] for name in ("age", "trestbps", "chol", "thalach", "oldpeak", "ca")}


def hospital(secret: bytes = b"", name: str = "cleveland") -> Site:
    found = {site.name: site for site in make_sites(load("heart_disease"), "natural", recipes=("logistic",))}
    return found[name].replace(secret=secret)


def forest(site: Site) -> bytes:
    return differentially_private(site, 1.0, RANGES)["private_forest"]


def defaults(site: Site) -> bytes:
    return repr(Stacking(noise=0.5).defaults(site)).encode()


def mosaic(private: Any, told: Callable[[Site, bytes], bytes]) -> Callable[[Site], bytes]:
    def said(site: Site) -> bytes:
        base = digits(public=40, sites=2, seed=site.seed)[0].replace(secret=site.secret)
        method = FedMosaic(private=private, epsilon=2.0, **SMALL)
        method.start(base, np.random.default_rng(0))
        return told(base, method.share(base, 0)["votes"])

    return said


def weights(site: Site, votes: bytes) -> bytes:
    return b"".join(value.tobytes() for value in site.state["net"].values())


RELEASES = [
    pytest.param(forest, id="forest"),
    pytest.param(defaults, id="defaults"),
    pytest.param(mosaic("training", weights), id="weights"),
    pytest.param(mosaic("training", lambda site, votes: site.state["counts"].tobytes()), id="counts"),
    pytest.param(mosaic("training", lambda site, votes: repr(site.state["trust"]).encode()), id="loss"),
    pytest.param(mosaic("release", lambda site, votes: votes), id="votes"),
]


@pytest.mark.parametrize("release", RELEASES)
def test_what_is_said_follows_from_the_secret_and_not_from_the_seed_and_name(release: Callable[[Site], bytes]) -> None:
    said = [release(hospital(secret)) for secret in SECRETS]
    assert len(set(said)) == 3
    assert [release(hospital(secret)) for secret in SECRETS] == said


@pytest.mark.parametrize("part", [slice(0, 8), slice(8, None)])
def test_all_of_a_secret_counts(part: slice) -> None:
    changed = bytearray(SECRETS[1])
    changed[part] = bytes(byte ^ 1 for byte in changed[part])
    drawn = [hospital(bytes(secret)).noise_rng("p").integers(2**63) for secret in (SECRETS[1], changed)]
    assert drawn[0] != drawn[1]


def test_purposes_names_seeds_and_what_is_covered_draw_noise_of_their_own() -> None:
    site = hospital(SECRETS[1])
    others = [
        site.noise_rng("p"),
        site.noise_rng("q"),
        site.replace(name="other").noise_rng("p"),
        site.replace(seed=1).noise_rng("p"),
        site.noise_rng("p", np.zeros(3)),
        site.noise_rng("p", np.ones(3)),
        site.noise_rng("p", np.ones(3), np.ones(3)),
    ]
    assert len({int(rng.integers(2**63)) for rng in others}) == len(others)
    assert site.noise_rng("p", np.ones(3)).integers(2**63) == site.noise_rng("p", np.ones(3)).integers(2**63)


def test_a_round_begun_again_with_a_row_more_is_not_covered_by_the_same_noise() -> None:
    """Else the difference of both counts would be the row."""
    noise = []
    for rows in (slice(None), slice(1, None)):
        site = digits(public=40, sites=2)[0]
        site = site.replace(secret=SECRETS[1], train=Rows(site.train.X, site.train.y).take(rows))
        FedMosaic(private="training", **SMALL).start(site, np.random.default_rng(0))
        counts = site.state["counts"]
        noise.append(np.where(counts > 0, counts - np.bincount(site.train.y, minlength=10), np.nan))
    both = ~np.isnan(noise[0]) & ~np.isnan(noise[1])
    assert both.any()
    assert (np.abs(noise[0] - noise[1])[both] > 1e-9).all()


def test_without_a_secret_noise_is_what_it_always_was() -> None:
    site = hospital()
    for purpose in ("p", "another"):
        drawn = [rng.standard_normal(5).tolist() for rng in (site.rng(purpose), site.noise_rng(purpose, np.ones(3)))]
        assert drawn[0] == drawn[1]
    settings = [1.0, sorted((name, list(bounds)) for name, bounds in RANGES.items())]
    rng, noise = (site.rng(f"private_forest {purpose} {settings}") for purpose in ("trees", "noise"))
    given: Any = {"classes": 2, "epsilon": 1.0, "rng": rng, "noise": noise}
    assert forest(site) == private_forest(site.train, columns_at(site), RANGES, **given)
    method = FedMosaic(private="release", **SMALL)
    expected = site.rng(f"release 0 {sorted(vars(method).items())}")
    assert method.chance(site, "release 0", np.ones(3)).random() == expected.random()


def test_a_short_secret_is_refused_and_none_is_shown() -> None:
    with pytest.raises(ConfigError, match="secret of 3 bytes"):
        hospital(b"abc")
    assert "secret of one site" not in repr(hospital(SECRETS[1]))


def test_noise_by_a_generator_is_as_large_as_was_accounted_for() -> None:
    """A step of lr 1 on no rows is the noise alone: sigma = noise x clip / expected batch."""
    net = new_net("mlp", np.zeros((4, 30), np.float32), (), 3, seed=0)
    before = {name: value.detach().clone() for name, value in net.named_parameters()}
    batch = (torch.zeros((0, 30)), torch.zeros(0, dtype=torch.int64))
    chance = np.random.default_rng(0)
    with private_step(net, SGD(net.parameters(), 1.0), clip=2.0, noise=3.0, expected_batch=12, chance=chance) as step:
        step(batch)
    moved = torch.cat([(value.detach() - before[name]).flatten() for name, value in net.named_parameters()]).double()
    assert len(moved) > 1000
    assert abs(float(moved.mean())) < 5 * 0.5 / len(moved) ** 0.5
    assert float(moved.std()) == pytest.approx(0.5, abs=5 * 0.5 / (2 * len(moved)) ** 0.5)


def test_rows_are_drawn_by_the_generator_given_as_often_as_planned() -> None:
    net = torch.nn.Linear(1, 2)
    seen: list[int] = []

    def update(batch: tuple[torch.Tensor, ...]) -> float:
        seen.append(len(batch[-1]))
        return 0.0

    tensors = (torch.zeros(200, 1), torch.zeros(200, dtype=torch.int64))
    drawn = []
    for seed in (1, 1, 2):
        seen.clear()
        train(net, tensors, update=update, epochs=50, batch_size=20, patience=None, poisson=np.random.default_rng(seed))
        drawn.append(list(seen))
    assert len(drawn[0]) == 500
    assert abs(np.mean(drawn[0]) - 20) < 5 * (200 * 0.1 * 0.9 / 500) ** 0.5
    assert drawn[0] == drawn[1] != drawn[2]
