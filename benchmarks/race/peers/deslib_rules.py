"""DESlib 0.3.7 on given pool outputs, in its own environment: python deslib_rules.py '{"file": "POOL.npz", ...}'.

The models of the pool stand in for themselves: what they say of the known and the asked rows is given, so that nothing
but the rules is timed."""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any

import numpy as np
from deslib.dcs.lca import LCA
from deslib.dcs.ola import OLA
from deslib.des.des_knn import DESKNN
from deslib.des.des_p import DESP
from deslib.des.knop import KNOP
from deslib.des.knora_e import KNORAE
from deslib.des.knora_u import KNORAU
from deslib.des.meta_des import METADES
from sklearn.dummy import DummyClassifier

RULES = {rule.__name__: rule for rule in (KNORAE, KNORAU, OLA, LCA, DESP, DESKNN, KNOP, METADES)}
# The same choices as ours: of equally good models the first, of the diverse ones those with the lowest double fault.
ALIKE = {"OLA": {"selection_method": "best"}, "LCA": {"selection_method": "best"}, "DESKNN": {"more_diverse": False}}
SLOW = 2.0


def measured(file: str, k: int, rules: list[str], repeats: int) -> dict[str, Any]:
    tables = dict(np.load(file))
    return {"rules": {name: _rule(name, tables, k, repeats) for name in rules}}


def _rule(name: str, tables: dict[str, Any], k: int, repeats: int) -> dict[str, Any]:
    rows, y, inputs = int(tables["rows"]), tables["y"], tables["inputs"]
    rule = RULES[name](_stand_ins(tables), k=k, n_jobs=1, random_state=0, **ALIKE.get(name, {}))
    _given(rule, tables["probabilities"][:rows])
    rule.fit(inputs[:rows], y[:rows])
    _given(rule, tables["probabilities"][rows:])
    spent = []
    while len(spent) <= repeats and not (spent and spent[-1] > SLOW):
        started = time.process_time()
        answers = rule.predict(inputs[rows:])
        spent.append(time.process_time() - started)
    right = float((answers == y[rows:]).mean())
    return {"seconds": min(spent), "right": right, "answers": answers.tolist()}


def _stand_ins(tables: dict[str, Any]) -> list[DummyClassifier]:
    rows, y, inputs = int(tables["rows"]), tables["y"], tables["inputs"]
    return [DummyClassifier().fit(inputs[:rows], y[:rows]) for _ in range(tables["probabilities"].shape[1])]


def _given(rule: Any, probabilities: np.ndarray) -> None:
    says = probabilities.argmax(axis=2)
    rule._predict_base = lambda X: says
    rule._predict_proba_base = lambda X: probabilities


if __name__ == "__main__":
    found = measured(**json.loads(sys.argv[1]))
    print(json.dumps({**found, "own_peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
