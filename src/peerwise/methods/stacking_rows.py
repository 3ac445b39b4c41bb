"""What a site's meta-model learns from: its own rows as the peers' models and its private models see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Inputs, Rows, Site, concatenate
from peerwise.data.split import split_rows
from peerwise.federation.cleaning import full_name
from peerwise.methods.feature_match import Match, Schema, columns_at, match
from peerwise.methods.own_models import OwnModels
from peerwise.methods.pool_models import Array, PoolLogits, in_order, pool_logits
from peerwise.metrics import balanced_accuracy
from peerwise.models.folds import fold_rows
from peerwise.space import softmax
from peerwise.trust.stacking import columns_of

Variant = Literal["cv", "held_out", "pooled"]
VARIANTS: tuple[Variant, ...] = ("cv", "held_out", "pooled")
TRIES = 3  # folds of the site's rows over which the variant is chosen
TRAIN_AND_META = (0.75, 0.25, 0.0)  # of the rows outside such a fold: as 60 : 20 of all rows
ALIKE = 1e-6  # within which a model says the same of two rows

Train = Callable[..., OwnModels]  # (site, held_out=...) -> the site's recipes, trained


@dataclass(frozen=True)
class OwnColumns:
    """The private models' files, what they say of the meta-model's rows (n, own models, classes), and which of the
    site's train and validation rows (in this order) these are."""

    files: dict[str, bytes]
    logits: Array
    rows: slice


def train_and_val(site: Site) -> Rows:
    """Both in this order; never a test row."""
    parts = (site.train, site.val)
    groups = [part.group for part in parts if part.group is not None]
    group = np.concatenate(groups) if len(groups) == len(parts) else None
    return Rows(concatenate([part.X for part in parts]), np.concatenate([part.y for part in parts]), group)


def own_columns(site: Site, variant: Variant, train: Train) -> OwnColumns:
    """``cv``: private models of the train rows; what they say of these out of fold, of validation rows as they are.
    ``held_out``: the same models; what they say of the validation rows. ``pooled``: private models of train and
    validation rows together, and what they say of the very same rows."""
    if variant == "pooled":
        rows = train_and_val(site)
        every = site.replace(train=rows, val=rows.take(slice(0, 0)), state={})
        files = train(every, held_out=False).files
        return OwnColumns(files, pool_logits(site, files, rows.X).logits, slice(None))
    own = train(site, held_out=variant == "cv")
    meta = pool_logits(site, own.files, site.val.X).logits
    if variant == "held_out":
        return OwnColumns(own.files, meta, slice(len(site.train), None))
    assert own.held_out is not None
    return OwnColumns(own.files, np.concatenate([own.held_out, meta]), slice(None))


def peer_logits(site: Site, files: Mapping[str, bytes], schemas: Mapping[str, Schema], X: Inputs) -> PoolLogits:
    """What each peer's model says of these rows, given the columns that it knows by name."""
    senders = {name: sender_of(name) for name in files}
    matches = {sender: match(schemas[sender], columns_at(site), sender) for sender in set(senders.values())}
    as_they_are = [name for name in files if matches[senders[name]] is None]
    groups: list[tuple[list[str], Match | None]] = [(as_they_are, None)]
    for sender in sorted(sender for sender, found in matches.items() if found is not None):
        groups.append(([name for name in files if senders[name] == sender], matches[sender]))
    names = list(files)
    logits = np.empty((len(X), len(names), len(site.classes)), np.float32)
    failed: dict[str, str] = {}
    seconds = 0.0
    for members, found in groups:
        inputs = X if found is None else found.inputs(X)
        asked = pool_logits(site, {name: files[name] for name in members}, inputs, may_fail=members)
        logits[:, [names.index(name) for name in members]] = asked.logits
        failed |= asked.failed
        seconds += asked.seconds
    return PoolLogits(logits, failed, seconds)


def says_nothing(logits: Array, names: list[str]) -> dict[str, str]:
    """The models that say the same of all rows, from which a meta-model has nothing to learn; with the reason. One that
    has no answer to some row is none of them."""
    if len(logits) < 2:
        return {}
    spread = np.ptp(softmax(logits), axis=0).max(axis=1)
    why = f"it says the same of all {len(logits)} train and validation rows here: there is nothing to learn from it"
    return {name: why for name, widest in zip(names, spread, strict=True) if widest <= ALIKE}


def assembled(
    site: Site, peers: list[str], peers_say: Array, own: list[str], own_say: Array
) -> tuple[list[str], list[int], Array]:
    """Names in the pool's order, which of them are own, and what they say (n, models, classes)."""
    mine = [full_name(model, site.name) for model in own]
    both = [*peers, *mine]
    names = list(in_order(dict.fromkeys(both, b"")))
    logits = np.concatenate([peers_say, own_say], axis=1)[:, [both.index(name) for name in names]]
    return names, [names.index(name) for name in mine], logits


def best_variant(site: Site, peers: list[str], peers_say: Array, train: Train, make_meta: Callable[[], Any]) -> Variant:
    """The variant with the best balanced accuracy over folds of the site's train and validation rows, each answered by
    private and meta-models that were trained without it; the first of equals.

    ``peers_say``: of all these rows, which must never have been the peers': where sites have the same rows, peers have
    learned them and no choice is to be trusted.
    """
    rows = train_and_val(site)
    seed = site.seed_for("variant")
    scores: dict[Variant, list[float]] = {variant: [] for variant in VARIANTS}
    for number, (rest, held_out) in enumerate(fold_rows(rows.y, TRIES, seed, rows.group)):
        if len(np.unique(rows.y[rest])) < 2:
            continue
        group = None if rows.group is None else rows.group[rest]
        rng = np.random.default_rng([seed, number])
        parts = split_rows(rows.y[rest], rng, fractions=TRAIN_AND_META, group=group)[:2]
        there = np.concatenate([rest[part] for part in parts])
        inner = site.replace(train=rows.take(rest[parts[0]]), val=rows.take(rest[parts[1]]), state={})
        for variant in VARIANTS:
            own = own_columns(inner, variant, train)
            said = assembled(site, peers, peers_say[there[own.rows]], list(own.files), own.logits)[2]
            asked = pool_logits(site, own.files, rows.X[held_out]).logits
            query = assembled(site, peers, peers_say[held_out], list(own.files), asked)[2]
            answers = _answers(make_meta(), said, rows.y[there[own.rows]], query)
            scores[variant].append(balanced_accuracy(rows.y[held_out], answers))
    means = {variant: float(np.mean(found)) for variant, found in scores.items() if found}
    return max(means, key=lambda variant: means[variant]) if means else VARIANTS[0]


def _answers(meta: Any, said: Array, y: NDArray[np.int64], query: Array) -> NDArray[np.int64]:
    """Where one class is all there is, that class; where there is nothing, none."""
    if len(np.unique(y)) < 2:
        return np.full(len(query), y[0] if len(y) else -1)
    return np.asarray(meta.fit(columns_of(said), y).predict(columns_of(query)))


def sender_of(name: str) -> str:
    return name.partition("@")[2]
