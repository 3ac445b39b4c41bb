"""A finished run as JSON: every number of the tables and many more, under names that stay."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from peerwise.evaluate import Assessment
from peerwise.evaluate.open_set import confusions, vote_curves
from peerwise.run import Run


def as_json(run: Run, found: Assessment) -> dict[str, Any]:
    """The structure that ``peerwise simulate --format json`` prints (a list of it for an experiment file with a grid).

    * ``experiment``: its keys, those without a value left out; ``folder`` with its files
    * ``evaluation``: ``threshold``, ``positive``, ``classes``, ``level``, ``ece_bins``, ``log_loss_floor``
    * ``summary``: one object a method; ``sites``: one a seed, method and site
    * ``subgroups``: one a method and subgroup; ``site_subgroups``: one a seed, method, site and subgroup; both empty
      without ``--subgroup``
    * ``fell_back``: one a seed, method and site where something simpler answered: ``to`` and ``why``
    * ``peers_left_out``: one a seed, method, site and ``model`` that the site had to do without: ``why``
    * ``missed_rounds``: one a seed, method and site that did not take part in all rounds; ``privacy``: one a method
      with a guarantee; ``tuned``: one a method whose learning rate was chosen
    * ``collapsed``: one a method that somewhere hardly answers with more than one class, or never with some that the
      site was trained on (``what`` says which)
    * ``confusions``: one a seed and method, all sites together: ``table``, a list a class (in the order of
      ``evaluation.classes``) of how many of its test rows were answered with each
    * ``vote_curves``: one a seed, method and site where models vote by what they know: ``accuracy``, a list, if 1, 2,
      ... of them voted
    * ``curves``: one a seed, method, site and ``name``: ``points``, each a round (from 0) and a value

    The objects hold the columns that `peerwise.evaluate.Assessment` describes. Shares run from 0 to 1. What is not
    known or not defined is null; for a site's metrics ``undefined`` says why.
    """
    plain: dict[str, Any] = plain_values(_parts(run, found))
    return plain


def _parts(run: Run, found: Assessment) -> dict[str, Any]:
    return {
        "experiment": {key: value for key, value in asdict(run.experiment).items() if value is not None},
        "evaluation": found.settings,
        "summary": _records(found.methods.reset_index()),
        "sites": _records(found.sites),
        "subgroups": _records(found.subgroups),
        "site_subgroups": _records(found.site_subgroups),
        "fell_back": found.fell_back,
        "peers_left_out": found.peers_left_out,
        "missed_rounds": found.missed_rounds,
        "privacy": found.privacy,
        "tuned": found.tuned,
        "collapsed": found.collapsed,
        "confusions": confusions(run, len(found.settings["classes"])),
        "vote_curves": [
            {"seed": seed, "method": method, "site": site, "accuracy": part["accuracy"].tolist()}
            for (seed, method, site), part in vote_curves(run).groupby(["seed", "method", "site"], sort=False)
        ],
        "curves": [
            {"seed": seed, "method": method, "site": site, "name": name, "points": points}
            for (seed, method, site), tree in run.predictions.items()
            for name, points in tree["curves"].items()
        ],
        "folder": str(run.folder) if run.folder else None,
    }


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(key): value for key, value in row.items()} for row in table.astype(object).to_dict(orient="records")]


def plain_values(value: Any) -> Any:
    """As JSON has it: no NaN, no infinity, no numpy."""
    if isinstance(value, dict):
        return {key: plain_values(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(inner) for inner in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if value is pd.NA or (isinstance(value, float) and not math.isfinite(value)) else value
