"""A site's own models: trained once for all methods, kept by content, exchanged as ONNX."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Inputs, Rows, Site, digest
from peerwise.errors import ModelError
from peerwise.models import ZOO, OnnxModel, Recipe, find_recipe, out_of_fold
from peerwise.parcels import sha256
from peerwise.space import softmax

Array = NDArray[np.float32]


@dataclass(frozen=True)
class OwnModels:
    """ONNX files by model name, sorted; out-of-fold logits (n, own models, classes) in the same order if asked for; and
    the seconds it took. Sorted, because an encoded tree is, and an own model's columns must stay its own."""

    files: dict[str, bytes]
    held_out: Array | None
    seconds: float


def own_models(site: Site, *, folds: int = 5, held_out: bool = True, epochs: int | None = None) -> OwnModels:
    """Train the site's recipes on its train rows; validation rows stop a training, never a fold's held-out rows."""
    if not site.recipes:
        raise ModelError(f"site {site.name!r} has no models to train: name some, e.g. models=['logistic'].")
    names = sorted(set(site.recipes))
    recipes = [_recipe(name, site) for name in names]
    trees = [_trained(site, recipe, folds, held_out, epochs) for recipe in recipes]
    return OwnModels(
        files={name: tree["file"] for name, tree in zip(names, trees, strict=True)},
        held_out=np.stack([tree["held_out"] for tree in trees], axis=1) if held_out else None,
        seconds=float(sum(tree["seconds"] for tree in trees)),
    )


def pool_logits(site: Site, files: Mapping[str, bytes], X: Inputs) -> tuple[Array, float]:
    """Logits ``(n, models, classes)`` of every model on these rows, asked once and kept, and the seconds it took."""

    def work() -> dict[str, Any]:
        started = time.perf_counter()
        logits = [_runtime(data, name).predict_logits(X) for name, data in files.items()]
        return {"logits": np.stack(logits, axis=1).astype(np.float32), "seconds": time.perf_counter() - started}

    tree = site.keep({"what": "outputs", "models": [sha256(d) for d in files.values()], "rows": digest(X)}, work)
    return tree["logits"], float(tree["seconds"])


@lru_cache(maxsize=64)
def _runtime(data: bytes, name: str) -> OnnxModel:
    # Starting a session costs more than asking it about a site's few rows, and every site asks the same models.
    return OnnxModel(data, name=name)


def mean_probabilities(site: Site, files: Mapping[str, bytes], X: Inputs) -> NDArray[np.float64]:
    """The uniform mean of the models' probabilities; over a site's own models, this is its own model."""
    logits, _ = pool_logits(site, files, X)
    return np.asarray(softmax(logits).astype(np.float64).mean(axis=1))


def _trained(site: Site, recipe: Recipe, folds: int, held_out: bool, epochs: int | None) -> dict[str, Any]:
    seed = site.seed_for(f"model {recipe.name}")
    key = {
        "recipe": recipe.name,
        "train": digest(site.train.X, site.train.y),
        "val": digest(site.val.X, site.val.y),
        "groups": digest(site.train.group) if site.train.group is not None else None,
        "classes": list(site.classes),
        "features": [[feature.name, *feature.categories] for feature in site.features],
        "seed": seed,
        "epochs": epochs,
    }
    folded: dict[str, Any] = {"held_out": None, "epochs": epochs, "seconds": 0.0}
    # Without validation rows nothing stops the final training, so the folds say how long it should be.
    if held_out or (not len(site.val) and recipe.by_epochs):
        folded = site.keep({"what": "folds", "folds": folds, **key}, lambda: _folded(site, recipe, folds, seed, epochs))
    key["longest"] = folded["epochs"]
    final = site.keep({"what": "model", **key}, lambda: _final(site, recipe, seed, folded["epochs"]))
    return {**final, "held_out": folded["held_out"], "seconds": final["seconds"] + folded["seconds"]}


def _folded(site: Site, recipe: Recipe, folds: int, seed: int, epochs: int | None) -> dict[str, Any]:
    started = time.perf_counter()
    found = out_of_fold(
        recipe, site.train, **_common(site), folds=folds, seed=seed, device=site.device, max_epochs=epochs
    )
    longest = epochs if len(site.val) else found.max_epochs
    return {"held_out": found.logits, "epochs": longest, "seconds": time.perf_counter() - started}


def _final(site: Site, recipe: Recipe, seed: int, epochs: int | None) -> dict[str, Any]:
    started = time.perf_counter()
    val: Rows | None = site.val if len(site.val) else None
    fitted = recipe.fit(site.train, val, **_common(site), seed=seed, device=site.device, max_epochs=epochs)
    return {"file": fitted.to_onnx(), "seconds": time.perf_counter() - started}


def _common(site: Site) -> dict[str, Any]:
    return {"classes": len(site.classes), "features": site.features}


def _recipe(name: str, site: Site) -> Recipe:
    recipe = find_recipe(name)
    if recipe.kind != site.kind:
        fitting = sorted(other for other, known in ZOO.items() if known.kind == site.kind)
        raise ModelError(
            f"model {name!r} takes {recipe.kind} rows, site {site.name!r} has {site.kind} rows. "
            f"Choices: {', '.join(fitting)}."
        )
    return recipe
