"""A site's own models: trained once for all methods, kept by content, exchanged as ONNX."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Inputs, Rows, Site, digest
from peerwise.errors import STOPS_A_RUN, BadOutputs, ModelError, reason
from peerwise.methods.pool_models import Array, pool_logits
from peerwise.models import ZOO, Fitted, OnnxModel, Recipe, out_of_fold
from peerwise.models.export import TOLERANCE
from peerwise.models.own_recipe import check_names, recipe_at
from peerwise.space import softmax

LEFT_OUT = "left_out"  # own models that could not be trained, and why, within a site's state
TRIED = 256  # rows on which a new model must answer with finite numbers, and its file as it does, before it is shared


@dataclass(frozen=True)
class OwnModels:
    """ONNX files by model name, sorted; out-of-fold logits (n, own models, classes) in the same order if asked for; and
    the seconds it took. Sorted, because an encoded tree is, and an own model's columns must stay its own."""

    files: dict[str, bytes]
    held_out: Array | None
    seconds: float


def own_models(site: Site, *, folds: int = 5, held_out: bool = True, epochs: int | None = None) -> OwnModels:
    """Train the site's recipes on its train rows; validation rows stop a training, never a fold's held-out rows.

    A recipe that fails here is left out and named in ``site.state[LEFT_OUT]``, as long as another one does not fail.
    """
    if not site.recipes:
        raise ModelError(f"site {site.name!r} has no models to train: name some, e.g. models=['logistic'].")
    trees: dict[str, dict[str, Any]] = {}
    failed: dict[str, str] = {}
    check_names(site.recipes)
    found = [_recipe(name, site) for name in set(site.recipes)]
    recipes = {recipe.name: recipe for recipe in sorted(found, key=lambda recipe: recipe.name)}
    for name, recipe in recipes.items():
        try:
            trees[name] = _trained(site, recipe, folds, held_out, epochs)
        except STOPS_A_RUN:
            raise
        except Exception as error:
            failed[name] = reason(error)
            if len(failed) == len(recipes):
                raise
    if failed:
        site.state[LEFT_OUT] = failed
    return OwnModels(
        files={name: tree["file"] for name, tree in trees.items()},
        held_out=np.stack([tree["held_out"] for tree in trees.values()], axis=1) if held_out else None,
        seconds=float(sum(tree["seconds"] for tree in trees.values())),
    )


def mean_probabilities(site: Site, files: Mapping[str, bytes], X: Inputs) -> NDArray[np.float64]:
    """The uniform mean of the models' probabilities; over a site's own models, this is its own model."""
    return np.asarray(softmax(pool_logits(site, files, X).logits).astype(np.float64).mean(axis=1))


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
        **({"content": recipe.content} if recipe.content else {}),
    }
    folded: dict[str, Any] = {"held_out": None, "epochs": epochs, "seconds": 0.0}
    if recipe.by_epochs and len(site.val):
        # The validation rows stop the model, and its number of epochs is that of the folds.
        final = site.keep({"what": "model", **key}, lambda: _final(site, recipe, seed, epochs))
        if held_out:
            key["longest"] = final["best_epoch"]
            folded = site.keep(
                {"what": "folds", "folds": folds, **key}, lambda: _folded(site, recipe, folds, seed, key)
            )
    else:
        # Nothing stops the final training, so the folds, which stop themselves, say how long it should be.
        if held_out or recipe.by_epochs:
            folded = site.keep(
                {"what": "folds", "folds": folds, **key}, lambda: _folded(site, recipe, folds, seed, key)
            )
        key["longest"] = folded["epochs"]
        final = site.keep({"what": "model", **key}, lambda: _final(site, recipe, seed, folded["epochs"]))
    return {**final, "held_out": folded["held_out"], "seconds": final["seconds"] + folded["seconds"]}


def _folded(site: Site, recipe: Recipe, folds: int, seed: int, key: dict[str, Any]) -> dict[str, Any]:
    started = time.perf_counter()
    lengths = {"max_epochs": key["epochs"], "epochs": key.get("longest")}
    found = out_of_fold(recipe, site.train, **_common(site), folds=folds, seed=seed, device=site.device, **lengths)
    longest = found.max_epochs if recipe.by_epochs else key["epochs"]
    return {"held_out": found.logits, "epochs": longest, "seconds": time.perf_counter() - started}


def _final(site: Site, recipe: Recipe, seed: int, epochs: int | None) -> dict[str, Any]:
    started = time.perf_counter()
    val: Rows | None = site.val if len(site.val) else None
    fitted = recipe.fit(site.train, val, **_common(site), seed=seed, device=site.device, max_epochs=epochs)
    if not np.isfinite(fitted.predict_logits(site.train.X[:TRIED])).all():
        raise BadOutputs(f"model {recipe.name!r} answers with non-finite values on its own train rows after training.")
    file = fitted.to_onnx()
    _check_written(file, fitted, recipe.name, val or site.train)
    return {"file": file, "best_epoch": fitted.best_epoch, "seconds": time.perf_counter() - started}


def _check_written(file: bytes, fitted: Fitted, name: str, rows: Rows) -> None:
    """Refuse a file that answers this site's own rows otherwise than the model that it was written from."""
    X = rows.X[:TRIED]
    difference = float(np.abs(OnnxModel(file, name=name).predict_proba(X) - fitted.predict_proba(X)).max(initial=0.0))
    if not difference <= TOLERANCE:
        raise ModelError(
            f"the ONNX file of model {name!r} answers own rows by up to {difference:.2g} otherwise than the model: "
            f"expected at most {TOLERANCE}. Another model may do, or the same one on rescaled columns."
        )


def _common(site: Site) -> dict[str, Any]:
    return {"classes": len(site.classes), "features": site.features}


def _recipe(name: str, site: Site) -> Recipe:
    recipe = recipe_at(site, name)
    if recipe.kind != site.kind:
        fitting = sorted(other for other, known in ZOO.items() if known.kind == site.kind)
        raise ModelError(
            f"model {name!r} takes {recipe.kind} rows, site {site.name!r} has {site.kind} rows. "
            f"Choices: {', '.join(fitting)}."
        )
    return recipe
