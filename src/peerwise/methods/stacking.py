"""Stacking: a public model to the others, a meta-model over theirs and one's own, and who has contributed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from peerwise.data import Inputs, Site
from peerwise.errors import ConfigError, choices
from peerwise.federation.cleaning import PEERS_LEFT_OUT, full_name
from peerwise.federation.method import FELL_BACK, Inbox, Method
from peerwise.methods.contribution_scores import contribution_of, read_scores
from peerwise.methods.feature_match import Schema, check_width, columns_at, defaults_of, match, read_schema, schema_of
from peerwise.methods.own_models import OwnModels, mean_probabilities, own_models
from peerwise.methods.pool_models import Array, PoolLogits, at_its_cost, peers_model, pool_logits, received_models
from peerwise.methods.private_forest import check_bounds, check_epsilon
from peerwise.methods.public_models import (
    check_private,
    check_table,
    differentially_private,
    guarantee,
    of_recipe,
    with_large_leaves,
)
from peerwise.methods.stacking_rows import (
    VARIANTS,
    Variant,
    assembled,
    best_variant,
    own_columns,
    peer_logits,
    says_nothing,
    sender_of,
    train_and_val,
)
from peerwise.models import find_recipe
from peerwise.parcels import Parcel
from peerwise.trust import learner_from_tree, learner_to_tree
from peerwise.trust.stacking import Stacking as Stacker
from peerwise.trust.stacking import check_meta, make_meta

OWN_MODELS = "own models"
NEED_FOLDS = ("cv", "auto")  # variants that ask what the own models say out of fold


class Stacking(Method):
    """Personalised stacking (Cantu-Cervini, arXiv 2404.10957): whom a meta-model of one's own rows draws on.

    p_i(y | x) = g_i(P_1(x), ..., q_i(x), ..., P_K(x)); P_j: the public model of site j; q_i: the private model of site
    i in the place of its public one; g_i: the meta-model (``meta``: "forest", "logistic", "boosting", or any
    scikit-learn classifier), fitted on rows of site i. Two classes: one column a model, P(second); C > 2: C columns.

    share: round 0 the public models with feature names, categories and defaults; round 1 the contribution scores.
    absorb: round 0 fit g_i; round 1 keep everybody's scores, row i of the contribution graph being those of site i.

    ``variant``, the rows that g_i learns from. "held_out": the private models learn from the train rows, g_i from the
    validation rows. "pooled": both learn from both, which favours the private models. "cv": the private models learn
    from the train rows, as in "held_out"; g_i from these out of fold and from the validation rows as the final models
    answer them, so it has all rows and the private models have not (a model by epochs was stopped by the validation
    labels: all it knows of them is when to stop).
    "auto": the one of these that does best over folds of the train and validation rows. A site where the variant has
    rows of one class only, or none, uses "cv"; where that has one class it cannot stack, and its own models answer.

    ``public``: "same" are the site's own models, as all methods of a run have them; otherwise a recipe by name.
    ``privacy``: "leaf" shows a forest whose leaves hold at least ``min_leaf`` rows (not patients: one may have them
    all), which is no formal guarantee; "dp" a forest with ``epsilon``-differential privacy of a row (see
    `private_forest`), in need of the ``ranges`` of all numbers, as declared or as the public rows have them; then no
    defaults and no scores are sent, which would tell of the rows. All other scores are taken without noise.
    The noise is drawn from the site's secret. A simulation has no secrets and draws it from the run's seed: it shows
    what privacy costs and protects nobody.

    A peer's model gets its columns by name: what it does not know is dropped, what it lacks is its publisher's default
    (median + N(0, (``noise`` x standard deviation)^2), or the most frequent category), an unknown category is missing.
    A model that fails on some train or validation row, or says the same of all of them, is left out with the reason.

    Departs from the paper: the public model learns from train rows alone, not from all rows with those of the test.
    """

    rounds = 2
    needs_same_features = False
    keeps_last = True
    largest_number = None  # models travel as files, and the rest is checked as it is read

    def __init__(
        self,
        variant: Literal["cv", "held_out", "pooled", "auto"] = "cv",
        meta: Literal["forest", "logistic", "boosting"] | BaseEstimator = "forest",
        public: str = "same",
        privacy: Literal["none", "leaf", "dp"] = "none",
        epsilon: float = 1.0,
        min_leaf: int = 25,
        ranges: dict[str, list[float]] | None = None,
        noise: float = 0.0,
        folds: int = 5,
        epochs: int | None = None,
    ) -> None:
        if variant not in (*VARIANTS, "auto"):
            raise ConfigError(f"variant: {choices(variant, (*VARIANTS, 'auto'), 'variant')}")
        if privacy not in ("none", "leaf", "dp"):
            raise ConfigError(f"privacy: {choices(privacy, ('none', 'leaf', 'dp'), 'privacy')}")
        check_meta(meta)
        if public != "same":
            find_recipe(public)
            if privacy != "none":
                raise ConfigError(f"public={public!r} with privacy={privacy!r}: expected 'same', it shows a forest.")
        check_epsilon(epsilon)
        check_numbers({"min_leaf": (min_leaf, 1, int), "folds": (folds, 2, int), "noise": (noise, 0, float)})
        check_bounds(ranges or {}, "stacking")
        self.variant = variant
        self.meta = meta
        self.public = public
        self.privacy_of_public = privacy
        self.epsilon = epsilon
        self.min_leaf = min_leaf
        self.ranges = ranges or {}
        self.noise = noise
        self.folds = folds
        self.epochs = epochs

    def check_sites(self, sites: Sequence[Site]) -> None:
        super().check_sites(sites)
        for site in sites:
            if self.privacy_of_public == "dp":
                check_private(site, self.ranges)
            elif self.privacy_of_public == "leaf":
                check_table(site)

    # ---- saying --------------------------------------------------------------------------------------------------

    def share(self, site: Site, round: int) -> Parcel:
        if round == 0:
            shown = self.public_models(site)
            return Parcel(models=shown, classes=list(site.classes), **schema_of(site, self.defaults(site)))
        if self.privacy_of_public == "dp" or "contribution" not in site.state:
            return Parcel()
        return Parcel(contribution=site.state["contribution"])

    def public_models(self, site: Site) -> dict[str, bytes]:
        """What the others get to see, as ONNX files by name."""
        own = self._own(site, held_out=self.variant in NEED_FOLDS)
        if self.privacy_of_public == "leaf":
            return with_large_leaves(site, self.min_leaf)
        if self.privacy_of_public == "dp":
            return differentially_private(site, self.epsilon, self.ranges)
        return own.files if self.public == "same" else of_recipe(site, self.public, self.epochs, self.folds)

    def defaults(self, site: Site) -> dict[str, float | None]:
        """One value a feature for those who lack it; None stands for a missing value."""
        if self.privacy_of_public == "dp":
            return {feature.name: None for feature in columns_at(site)}
        return defaults_of(site, self.noise, site.noise_rng(f"defaults {self.noise}", site.train.X))

    def privacy(self, site: Site) -> dict[str, Any] | None:
        return guarantee(self.epsilon) if self.privacy_of_public == "dp" else None

    # ---- learning ------------------------------------------------------------------------------------------------

    def absorb(self, site: Site, round: int, inbox: Inbox) -> None:
        if round == 0 or "learner" not in site.state:
            self._stack(site, inbox if round == 0 else {})
        if round > 0:
            scores, unread = read_scores(inbox)
            site.state["contributions"] = {**scores, site.name: site.state["contribution"]}
            if unread:
                site.state[PEERS_LEFT_OUT] = {**site.state.get(PEERS_LEFT_OUT, {}), **unread}

    def _stack(self, site: Site, inbox: Inbox) -> None:
        started = time.perf_counter()
        self._own(site, held_out=self.variant in NEED_FOLDS)
        peers, schemas, left_out = received(inbox, site)
        rows = train_and_val(site)
        asked = peer_logits(site, peers, schemas, rows.X)
        left_out |= {name: f"on train and validation rows: {why}" for name, why in asked.failed.items()}
        left_out |= says_nothing(asked.logits, list(peers))
        peers_say = asked.logits[:, [place for place, name in enumerate(peers) if name not in left_out]]
        peers = {name: data for name, data in peers.items() if name not in left_out}
        variant = self._variant(site, list(peers), peers_say)
        own = own_columns(site, variant, self._own)
        said = assembled(site, list(peers), peers_say[own.rows], list(own.files), own.logits)
        group = None if rows.group is None else rows.group[own.rows]
        learner = self._fitted(site, *said, rows.y[own.rows], group)
        private = {full_name(model, site.name): data for model, data in own.files.items()}
        site.state |= {
            "pool": {**peers, **private},
            "schemas": {sender: schemas[sender] for sender in sorted({sender_of(name) for name in peers})},
            "learner": learner_to_tree(learner),
            "variant": variant,
            "contribution": contribution_of(site.name, [sender_of(name) for name in learner.model_names_], learner),
        }
        if left_out:
            site.state[PEERS_LEFT_OUT] = left_out
        if learner.reason_:
            site.state[FELL_BACK] = {"to": OWN_MODELS, "why": f"site {site.name!r} cannot stack: {learner.reason_}"}
        site.state["seconds"] |= {"outputs": asked.seconds, "fit": time.perf_counter() - started - asked.seconds}

    def _variant(self, site: Site, peers: list[str], peers_say: Array) -> Variant:
        """The one asked for, or "cv" where its rows are of one class."""
        wanted = self.variant
        if wanted == "auto":
            fresh = partial(make_meta, self.meta, site.seed_for("learner"))
            wanted = best_variant(site, peers, peers_say, self._own, fresh)
        rows = site.val.y if wanted == "held_out" else train_and_val(site).y
        return wanted if len(np.unique(rows)) > 1 else "cv"

    def _fitted(
        self,
        site: Site,
        names: list[str],
        own: list[int],
        said: Array,
        y: NDArray[np.int64],
        group: NDArray[Any] | None,
    ) -> Stacker:
        learner = Stacker(own=own, meta=self.meta, random_state=site.seed_for("learner"))
        learner.fit_outputs(said, y, group=group)
        learner.model_names_, learner.classes_ = names, np.asarray(site.classes)
        return learner

    def _own(self, site: Site, *, held_out: bool = False) -> OwnModels:
        """The site's own models, trained when they are first needed: a site may absorb before it shares."""
        kept = site.state.get("own")
        if kept is None or (held_out and kept["held_out"] is None):
            own = own_models(site, folds=self.folds, held_out=held_out, epochs=self.epochs)
            site.state["own"] = {"models": own.files, "held_out": own.held_out}
            site.state["seconds"] = {**site.state.get("seconds", {}), "train": own.seconds}
            return own
        return OwnModels({name: kept["models"][name] for name in sorted(kept["models"])}, kept["held_out"], 0.0)

    # ---- answering -----------------------------------------------------------------------------------------------

    def predict_proba(self, site: Site, X: Inputs) -> NDArray[np.float64]:
        return self.predict_with_details(site, X)[0]

    def predict_with_details(self, site: Site, X: Inputs) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """As those of `OneShot`: trust (shares of importance), fallback, what each model says (-1: nothing), the
        models' names and the own model's answer; beside them the variant, this site's contribution scores, and all
        that were published. A row on which a peer's model fails is answered by the own models."""
        own = self._own_model(site, X)
        if "learner" not in site.state:
            return own, {"own": own}
        asked = self._asked(site, X)
        unanswered: NDArray[np.bool_] = np.asarray(np.isnan(asked.logits).any(axis=2))
        filled = np.nan_to_num(asked.logits)
        learner = self._learner(site)
        learned, decision = learner.answer_outputs(filled)
        home = np.isin(np.arange(len(learner.model_names_)), learner.own_) / len(learner.own_)
        failing = np.asarray(unanswered.any(axis=1))
        found = {
            "trust": np.where(failing[:, None], home, decision.trust),
            "fallback": decision.fallback | failing,
            "says": np.where(unanswered, -1, filled.argmax(axis=2)),
            "models": list(learner.model_names_),
            "own": own,
            "variant": site.state["variant"],
            "contribution": site.state["contribution"],
            "contributions": site.state.get("contributions", {}),
        }
        told = "on some of the rows to answer, left to the own models"
        left_out = {name: f"{told}: {why}" for name, why in asked.failed.items()}
        probabilities = np.where(failing[:, None], own, learned)
        return probabilities, found | ({"left_out": left_out} if left_out else {})

    def _own_model(self, site: Site, X: Inputs) -> NDArray[np.float64]:
        return mean_probabilities(site, self._own(site).files, X)

    def _asked(self, site: Site, X: Inputs) -> PoolLogits:
        """What the pool says in the order of the learner's columns, NaN where a peer's model has no answer."""
        names, pool = site.state["learner"]["names"], site.state["pool"]
        own = [name for name in names if sender_of(name) == site.name]
        peers = [name for name in names if sender_of(name) != site.name]
        asked = peer_logits(site, {name: pool[name] for name in peers}, site.state["schemas"], X)
        said = pool_logits(site, {name: pool[name] for name in own}, X).logits
        logits = np.concatenate([asked.logits, said], axis=1)
        order = [[*peers, *own].index(name) for name in names]
        return PoolLogits(logits[:, order], asked.failed, asked.seconds)

    def _learner(self, site: Site) -> Stacker:
        return learner_from_tree(Stacker, site.state["learner"])


def received(inbox: Inbox, site: Site) -> tuple[dict[str, bytes], dict[str, Schema], dict[str, str]]:
    """The peers' models as ``model@site``, each site's features, and what cannot be used here, with the reason."""
    files, left_out = received_models(inbox, site)
    schemas: dict[str, Schema] = {}
    usable: dict[str, bytes] = {}
    for sender in sorted({sender_of(name) for name in files}):
        models = {name: data for name, data in files.items() if sender_of(name) == sender}
        with at_its_cost(full_name("*", sender), left_out):
            schema = read_schema(inbox[sender], sender)
            unfit = _of_another_width(site, models, schema)
            if len(unfit) < len(models):
                match(schema, columns_at(site), sender)
            schemas[sender] = schema
            left_out |= unfit
            usable |= {name: data for name, data in models.items() if name not in unfit}
    return usable, schemas, left_out


def _of_another_width(site: Site, models: dict[str, bytes], schema: Schema) -> dict[str, str]:
    """The models that do not take the columns that were declared, and why; those without named columns take theirs."""
    unfit: dict[str, str] = {}
    for name, data in models.items() if schema["features"] else ():
        with at_its_cost(name, unfit):
            check_width(peers_model(site, data, name), len(schema["features"]))
    return unfit


def check_numbers(values: dict[str, tuple[Any, int, type]]) -> None:
    """Refuse, by name, what is no (whole) number or less than the least one."""
    for name, (value, least, kind) in values.items():
        right = isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
        if not right or not least <= value < np.inf:
            what = "a whole number" if kind is int else "a finite number"
            raise ConfigError(f"{name} is {value!r}: expected {what}, at least {least}.")
