"""How the numbers came about: what failed, who took part when, what privacy was promised, which learning rates were
tried."""

from __future__ import annotations

from typing import Any

import pandas as pd

from peerwise.methods.registry import base_name
from peerwise.run import Run
from peerwise.run.contenders import learning_rates

GUARANTEE = ("epsilon", "delta", "unit", "rounds", "mechanism", "accountant")


def fell_back(run: Run) -> list[dict[str, Any]]:
    """A line a seed, method and site where something simpler had to answer."""
    return [
        {"seed": seed, "method": method, "site": site, **tree["fell_back"]}
        for (seed, method, site), tree in run.predictions.items()
        if tree["fell_back"]
    ]


def peers_left_out(run: Run) -> list[dict[str, Any]]:
    """A line a seed, method, site and peer's model that the others answered without."""
    return [
        {"seed": seed, "method": method, "site": site, "model": model, "why": why}
        for (seed, method, site), tree in run.predictions.items()
        for model, why in tree["peers_left_out"].items()
    ]


def missed_rounds(run: Run) -> list[dict[str, Any]]:
    """A line a seed, method and site that did not take part in all rounds: ``rounds`` of the method and ``took_part``,
    those in which the site shared, counted from 0."""
    return [
        {"seed": seed, "method": method, "site": site, "rounds": tree["rounds"], "took_part": list(tree["took_part"])}
        for (seed, method, site), tree in run.predictions.items()
        if len(tree["took_part"]) < tree["rounds"]
    ]


def had_all_sites(run: Run) -> list[str]:
    """Methods with one round only, in which all sites took part, in a run where others had to do without some."""
    rounds = {method: tree["rounds"] for (_, method, _), tree in run.predictions.items()}
    return [method for method, number in rounds.items() if number == 1] if run.experiment.misses_rounds else []


def privacy(run: Run, methods: pd.DataFrame) -> list[dict[str, Any]]:
    """A line a method that promises privacy: the promise of the site where it is weakest (the largest epsilon), at how
    many sites and seeds there is one (``promised_at`` ... ``of``), how often tuning ran the method (``trials``: each
    spends epsilon anew), and ``accuracy_cost``, by how much ``compared_with`` is more often right: the same method of
    this run without privacy, with the settings most alike; None where there is none."""
    found = []
    accuracy = {str(label): float(value) for label, value in methods["accuracy"].items()}
    for name in run.experiment.methods:
        label = run.experiment.label(name)
        promises = [tree["privacy"] for (_, method, _), tree in run.predictions.items() if method == label]
        given = [promise for promise in promises if promise]
        if not given:
            continue
        weakest = max(given, key=lambda promise: float(promise["epsilon"]))
        trials = max(run.experiment.tune, 1) if run.experiment.budget(name) else 1
        line = {"method": label, "promised_at": len(given), "of": len(promises), "trials": trials}
        plain = _without_privacy(run, name)
        cost = None if plain is None else accuracy[plain] - accuracy[label]
        line |= {key: weakest.get(key) for key in GUARANTEE}
        found.append(line | {"compared_with": plain, "accuracy_cost": cost})
    return found


def tuned(run: Run) -> list[dict[str, Any]]:
    """A line a method whose learning rate was chosen on validation rows: all ``tried``, and the ``chosen`` by seed."""
    found = []
    for name in run.experiment.methods if run.experiment.tune > 1 else ():
        label, budget = run.experiment.label(name), run.experiment.budget(name)
        if budget is not None:
            chosen = {seed: tree["lr"] for (seed, method, _), tree in run.predictions.items() if method == label}
            tried = learning_rates(budget["lr"], run.experiment.tune)
            found.append({"method": label, "tried": tried, "chosen": [chosen[seed] for seed in sorted(chosen)]})
    return found


def _without_privacy(run: Run, name: str) -> str | None:
    experiment = run.experiment
    promising = {method for (_, method, _), tree in run.predictions.items() if tree["privacy"]}
    others = [
        other
        for other in experiment.methods
        if base_name(other) == base_name(name) and experiment.label(other) not in promising
    ]
    if not others:
        return None
    ours = experiment.settings(name)

    def differs(other: str) -> int:
        theirs = experiment.settings(other)
        return sum(ours.get(key) != theirs.get(key) for key in {*ours, *theirs})

    return experiment.label(min(others, key=differs))
