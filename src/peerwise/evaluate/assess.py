"""Everything that can be said of a finished run: methods, sites, subgroups, and what did not go as it should."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from peerwise.errors import ConfigError, DataError, choices
from peerwise.evaluate.method_table import method_table
from peerwise.evaluate.open_set import collapsed
from peerwise.evaluate.paired import LEVEL
from peerwise.evaluate.protocol import fell_back, had_all_sites, missed_rounds, peers_left_out, privacy, tuned
from peerwise.evaluate.site_table import site_table
from peerwise.evaluate.subgroups import subgroup_tables
from peerwise.metrics import BINS, FLOOR, THRESHOLD, positive_class
from peerwise.run import Run


@dataclass(frozen=True)
class Assessment:
    """What `assess` finds. Shares run from 0 to 1; NaN is "not defined".

    ``settings``: ``threshold``, ``positive`` (name of the class to be found, None of more than two), ``classes``,
    ``level`` of the intervals, ``ece_bins``, ``log_loss_floor``, ``test`` (each site its own rows, or common ones).

    ``methods``, a line a method: all of `summarise`; ``accuracy_gain_low`` to ``accuracy_gain_high`` and the same of
    balanced accuracy; ``tests`` (sites and seeds compared with their own model), ``significantly_better`` and
    ``significantly_worse`` among them (exact McNemar, Holm over all of them, 5 %); ``home_spearman`` and
    ``home_spearman_peers``, each the mean over seeds; ``oracle_gap_closed``.

    ``sites``, a line a seed, method and site: the results' columns, with the metrics at this threshold; ``reference``
    ("own": own models of the same pool; "local" or "local_rounds": that method of the same run; None),
    ``own_accuracy``, ``own_balanced_accuracy``; ``only_ours`` and ``only_own`` (test rows that only one of the two has
    right), ``accuracy_gain`` and ``balanced_accuracy_gain`` with ``_low`` and ``_high``, ``mcnemar_p``, ``holm_p``;
    `mismatch`; ``oracle_gap_closed``; ``open_auroc`` of open-set methods; ``undefined`` (why a
    metric is NaN, by metric).

    ``subgroups``, a line a method and subgroup, rows of all sites of a seed together (where all have the same test rows
    the mean over sites), then the mean over seeds: the columns of `by_subgroup`. ``site_subgroups``: the same a seed,
    method, site and subgroup.

    ``fell_back``: ``seed``, ``method``, ``site``, ``to``, ``why`` where something simpler had to answer.
    ``peers_left_out``: ``seed``, ``method``, ``site``, ``model``, ``why`` where a peer's model could not be used and
    the others answered without it, which by itself is no falling back.
    ``missed_rounds``, ``had_all_sites``, ``privacy``, ``tuned``: as the functions of these names in
    `peerwise.evaluate.protocol` say. ``collapsed``: methods that hardly answer with more than one class somewhere, or
    never with some, as `peerwise.evaluate.open_set.collapsed` says.
    """

    settings: dict[str, Any]
    methods: pd.DataFrame
    sites: pd.DataFrame
    subgroups: pd.DataFrame
    site_subgroups: pd.DataFrame
    fell_back: list[dict[str, Any]]
    peers_left_out: list[dict[str, Any]]
    missed_rounds: list[dict[str, Any]] = field(default_factory=list)
    had_all_sites: list[str] = field(default_factory=list)
    privacy: list[dict[str, Any]] = field(default_factory=list)
    tuned: list[dict[str, Any]] = field(default_factory=list)
    collapsed: list[dict[str, Any]] = field(default_factory=list)


def assess(
    run: Run, *, classes: Sequence[str] = (), positive: str | None = None, threshold: float = THRESHOLD
) -> Assessment:
    """Compare a run's methods with the sites' own models, and look at how they chose.

    ``positive``: name of the class to be found (sensitivity, specificity; AUPRC of two classes), by default the last
    of two; a row is called positive if its probability is at least ``threshold``. ``classes``: the class names in the
    order of the codes, by default those of the run.
    """
    if not run.predictions:
        raise DataError("this run has no predictions: expected a run as `simulate` returns it. Simulate again.")
    answers = next(iter(run.predictions.values()))["probabilities"]
    names = tuple(classes) or run.classes or tuple(map(str, range(answers.shape[1])))
    code = positive_class(answers, check_positive(positive, names, threshold))
    sites = site_table(run, names, code, threshold)
    pooled, apart = subgroup_tables(run, code, threshold)
    methods = method_table(run, sites)
    return Assessment(
        settings={
            "threshold": threshold,
            "positive": None if code is None else names[code],
            "classes": list(names),
            "level": LEVEL,
            "ece_bins": BINS,
            "log_loss_floor": FLOOR,
            "test": run.experiment.test,
        },
        methods=methods,
        sites=sites,
        subgroups=pooled,
        site_subgroups=apart,
        fell_back=fell_back(run),
        peers_left_out=peers_left_out(run),
        missed_rounds=missed_rounds(run),
        had_all_sites=had_all_sites(run),
        privacy=privacy(run, methods),
        tuned=tuned(run),
        collapsed=collapsed(run, names),
    )


def check_positive(positive: str | None, classes: Sequence[str], threshold: float) -> int | None:
    """The code of the class to be found; a name that is not there or a threshold that is no share is refused."""
    if not 0 < threshold <= 1:
        raise ConfigError(f"threshold is {threshold}: expected a probability above 0 and at most 1.")
    if positive is not None and positive not in classes:
        raise ConfigError(f"positive: {choices(positive, classes, 'class')}")
    return None if positive is None else list(classes).index(positive)
