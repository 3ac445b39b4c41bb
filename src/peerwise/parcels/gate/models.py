"""The models of a parcel: how many there may be, what they may be called, and which of them may run here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from peerwise.data import Inputs
from peerwise.errors import ParcelError, PeerwiseError, WorkerError, reason
from peerwise.models.worker import Worker, contract
from peerwise.parcels.gate.gate import Gate
from peerwise.parcels.gate.limits import ModelFacts
from peerwise.parcels.signed.fields import plain_text

MOST_MODELS = 100
LONGEST_NAME = 100  # letters: the names of all models fit into one line of a ledger


def checked_models(models: Any, sender: str) -> Mapping[str, bytes]:
    """The files by name, if they are files, not too many of them, with names that can be shown, kept and logged."""
    if not isinstance(models, Mapping) or not all(isinstance(data, bytes) for data in models.values()):
        raise ParcelError(f"site {sender!r} sent a {type(models).__name__}: expected models by name, as ONNX files.")
    if len(models) > MOST_MODELS:
        raise ParcelError(f"site {sender!r} sent {len(models)} models: expected at most {MOST_MODELS}.")
    for name in models:
        plain_text(name, LONGEST_NAME, f"the name of a model of site {sender!r}", least=1)
        # '@' parts a model from its site; '$' has a meaning of its own where trees are kept.
        if "@" in name or name.startswith("$"):
            raise ParcelError(f"site {sender!r} sent a model called {name!r}: expected a name without '@' and '$'.")
    return models


@dataclass
class AdmittedModels:
    """By name: the files that passed, facts of these, and why others did not."""

    passed: dict[str, bytes] = field(default_factory=dict)
    facts: dict[str, ModelFacts] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def admitted_models(
    models: Any,
    sender: str,
    worker: Worker,
    *,
    inputs: Mapping[str, tuple[int, ...]],
    classes: int,
    rows: Inputs | None,
    gate: Gate | None = None,
    check: Callable[[ModelFacts], None] | None = None,
) -> AdmittedModels:
    """The models that pass the gate and ``check``, and keep their contract on ``rows``, where there are rows to try
    them on."""
    gate, found, broken = gate or Gate(worker), AdmittedModels(), ""
    for name, data in sorted(checked_models(models, sender).items()):
        if broken:
            why = f"not looked at, because of {broken!r} of the same site: {found.left_out[broken]}"
            found.left_out[name] = why
            continue
        try:
            facts = gate.check(data, inputs=inputs, classes=classes)
            if check is not None:
                check(facts)
            if rows is not None:
                contract(worker.open(data, f"{name}@{sender}"), rows, classes, unknown=facts.outputs > classes)
            found.passed[name], found.facts[name] = data, facts
        except PeerwiseError as error:
            found.left_out[name] = reason(error)
            broken = name if _broke_the_worker(error) else ""
    return found


def _broke_the_worker(error: PeerwiseError) -> bool:
    """Whether the process of peers' models hung or died of a file: a site's other files may do so too, each for as
    long as is allowed."""
    return isinstance(error, WorkerError) or isinstance(error.__cause__, WorkerError)
