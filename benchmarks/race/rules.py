"""The dynamic selection rules: ours, a straightforward one over scikit-learn's neighbours, and DESlib 0.3.7.

All get the same pool outputs and inputs, fit beforehand; what is timed is predicting, in CPU seconds on one core. With
more than 15 inputs scikit-learn's defaults leave the tree for matrix products, so both widths are measured.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measure import fastest, own_peak, timed
from numpy.typing import NDArray
from pools import outputs
from sklearn.preprocessing import StandardScaler

from peerwise.space import softmax
from peerwise.trust.dynamic import DESKNN, DESP, KNOP, KNORAE, KNORAU, LCA, METADES, OLA, DynamicRule
from race.plain_rules import K, Straightforward
from race.processes import at_once, ours, theirs
from race.settings import Race

RULES: dict[str, type[DynamicRule]] = {
    rule.__name__: rule for rule in (KNORAE, KNORAU, OLA, LCA, DESP, DESKNN, KNOP, METADES)
}
IN_DECISION_SPACE = ("KNORAE", "DESKNN", "KNOP")
WIDTHS = (14, 30)
SLOW = 2.0  # CPU seconds from which one call is measurement enough


def measure(race: Race) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        files = {width: _write(Path(folder, f"{width}.npz"), width, **race.size.rules) for width in WIDTHS}
        settings = {"repeats": race.size.repeats}
        tasks = [
            partial(ours, "race.rules:rules", file=str(file), decision=width == WIDTHS[0], **settings)
            for width, file in files.items()
        ]
        tasks += [partial(_deslib, race.deslib_python, file, settings) for file in files.values()]
        found = at_once(*[partial(_on, task) for task in tasks])
    mine, peers = found[: len(WIDTHS)], found[len(WIDTHS) :]
    lines = {}
    for width, our, peer in zip(WIDTHS, mine, peers, strict=True):
        answers = {name: line.pop("answers") for name, line in our["said"]["inputs"].items()}
        for line in our["said"]["decision"].values():
            del line["answers"]
        for name, line in (peer or {"said": {"rules": {}}})["said"]["rules"].items():
            line["same"] = float(np.mean(np.array(line.pop("answers")) == answers[name]))
        lines[str(width)] = {"ours": our, "deslib": peer}
    return {"sizes": race.size.rules, "widths": lines}


def _on(task: Any, core: Any) -> Any:
    return task(on=core)


def _deslib(python: str | None, file: Path, settings: dict[str, Any], on: Any) -> Any:
    return theirs(python, "deslib_rules.py", on, file=str(file), k=K, rules=list(RULES), **settings)


def _write(file: Path, width: int, queries: int, models: int, rows: int, classes: int) -> Path:
    """Inputs are standardised by those of the known rows, as our rules do it and DESlib's do not."""
    rng = np.random.default_rng(0)
    logits, y = outputs(rng, rows + queries, models, classes)
    inputs = rng.normal(size=(len(y), width)) + y[:, None]
    scaled = StandardScaler().fit(inputs[:rows]).transform(inputs)
    np.savez(file, logits=logits, probabilities=softmax(logits), y=y, inputs=scaled, rows=rows)
    return file


def rules(file: str, repeats: int, decision: bool) -> dict[str, Any]:
    """In this process: ours and the straightforward one, by space and rule."""
    tables = dict(np.load(file))
    inputs = {name: _compared(tables, name, "inputs", repeats) for name in RULES}
    names = IN_DECISION_SPACE if decision else ()
    found = {name: _compared(tables, name, "decision", repeats) for name in names}
    return {"inputs": inputs, "decision": found, "own_peak": own_peak()}


def _compared(tables: dict[str, NDArray[Any]], name: str, space: str, repeats: int) -> dict[str, Any]:
    rows, y = int(tables["rows"]), tables["y"]
    logits, inputs = tables["logits"], tables["inputs"]
    profiles = name == "KNOP"  # always looks for neighbours among what the models say
    settings: dict[str, Any] = {} if profiles else {"space": space}
    known, asked = (logits[:rows], y[:rows], inputs[:rows]), (logits[rows:], inputs[rows:])
    mine = RULES[name](k=K, **settings).fit_outputs(*known)
    mine.predict_proba_outputs(*(part[:60] for part in asked))  # kernels are read from their cache
    seconds, answers = _best(lambda: mine.predict_proba_outputs(*asked).argmax(axis=1), repeats)
    plain = Straightforward(name, "decision" if profiles else space).fit(*known)
    spent, others = _best(lambda: plain.predict(*asked), repeats)
    about = {"ours": seconds, "plain": spent, "same": float((answers == others).mean())}
    return {**about, "right": float((answers == y[rows:]).mean()), "answers": answers.tolist()}


def _best(work: Any, repeats: int) -> tuple[float, Any]:
    seconds, found = timed(work)
    return (seconds if seconds > SLOW else min(seconds, fastest(work, repeats))), found
