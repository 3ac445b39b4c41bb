"""The models that a site shows to others instead of its own: of another recipe, with large leaves, or differentially
private."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from peerwise.data import Rows, Site, digest
from peerwise.errors import ConfigError
from peerwise.methods.feature_match import columns_at
from peerwise.methods.own_models import own_models
from peerwise.methods.private_forest import DEPTH, TREES, Bounds, check_ranges, private_forest, public_ranges
from peerwise.models import Fitted

LEAF_FOREST, PRIVATE_FOREST = "leaf_forest", "private_forest"
UNIT = "record (one row added or removed; several rows of one person multiply epsilon by their number)"
ACCOUNTANT = "pure epsilon, parallel composition, up to the precision of the sampler (floats of 53 bits)"


def of_recipe(site: Site, recipe: str, epochs: int | None, folds: int) -> dict[str, bytes]:
    """One model of this recipe, of the train rows."""
    return own_models(site.replace(recipes=(recipe,), state={}), folds=folds, held_out=False, epochs=epochs).files


def with_large_leaves(site: Site, min_leaf: int) -> dict[str, bytes]:
    """A forest in which every answer of every tree rests on at least ``min_leaf`` different rows; none where there are
    fewer. Rows are counted, not patients: those of one patient may fill a leaf."""
    if len(site.train) < min_leaf:
        return {}
    seed = site.seed_for(f"model {LEAF_FOREST}")
    key = {"what": f"{LEAF_FOREST} of different rows", "min_leaf": min_leaf, **_key(site), "seed": seed}
    tree = site.keep(key, lambda: {"file": leaf_forest(site.train, site, min_leaf, seed).to_onnx()})
    return {LEAF_FOREST: tree["file"]}


def leaf_forest(rows: Rows, site: Site, min_leaf: int, seed: int) -> Fitted:
    from peerwise.models.zoo.tables import fit_sklearn

    make = partial(_forest, min_leaf)
    return fit_sklearn(make, False, rows, None, classes=len(site.classes), features=site.features, seed=seed)


def differentially_private(site: Site, epsilon: float, declared: Bounds) -> dict[str, bytes]:
    """A `private_forest` of the train rows."""
    ranges = known_ranges(site, declared)
    settings = [epsilon, sorted((name, list(bounds)) for name, bounds in ranges.items())]
    # The noise is drawn anew for every setting: two releases with the same noise would tell more than either.
    rng = site.rng(f"{PRIVATE_FOREST} trees {settings}")
    noise = site.noise_rng(f"{PRIVATE_FOREST} noise {settings}", site.train.X, site.train.y)
    data = private_forest(
        site.train, columns_at(site), ranges, classes=len(site.classes), epsilon=epsilon, rng=rng, noise=noise
    )
    return {PRIVATE_FOREST: data}


def known_ranges(site: Site, declared: Bounds) -> Bounds:
    """The declared ranges, and those of the public rows for what is not declared."""
    return {**public_ranges(site.public, columns_at(site)), **declared}


def check_private(site: Site, declared: Bounds) -> None:
    """Refuse a site whose rows cannot be hidden."""
    check_table(site)
    check_ranges(columns_at(site), known_ranges(site, declared), f"site {site.name!r}")


def check_table(site: Site) -> None:
    if site.kind != "table" or not site.features:
        raise ConfigError(
            f"site {site.name!r} has {site.kind} rows: privacy 'leaf' and 'dp' are forests of tables with named "
            f"columns. Use privacy='none' here."
        )


def guarantee(epsilon: float) -> dict[str, Any]:
    mechanism = (
        f"discrete Laplace noise of scale {1 / epsilon:.3g} on the leaf counts of {TREES} random trees of depth "
        f"{DEPTH}, each row in one of them; ranges, categories and class names are taken as public; defaults of "
        f"features are left missing and contribution scores stay at the site"
    )
    counted = {"mechanism": mechanism, "accountant": ACCOUNTANT}
    return {"epsilon": epsilon, "delta": 0.0, "unit": UNIT, "rounds": 1, **counted}


def _forest(min_leaf: int, seed: int) -> RandomForestClassifier:
    # Without bootstrap, which would count a row that was drawn twice as two.
    return RandomForestClassifier(
        100, min_samples_leaf=min_leaf, bootstrap=False, class_weight="balanced", random_state=seed
    )


def _key(site: Site) -> dict[str, Any]:
    return {
        "train": digest(np.asarray(site.train.X), site.train.y),
        "classes": list(site.classes),
        "features": [[feature.name, *feature.categories] for feature in site.features],
    }
