"""What a desk says of rows, as the service tells it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from peerwise.serve.desk import About, Desk, Served, ServedModel
from peerwise.serve.reading import Asked

if TYPE_CHECKING:
    from peerwise.trust.prediction_sets import Verdict

NO_RELIABLE_MODEL = "no model is reliable here"

Floats = NDArray[np.float64]


def predicted(desk: Desk, asked: Asked) -> dict[str, Any]:
    """The answers to all rows."""
    about = desk.about
    served = desk.answer(asked.X, frugal=asked.frugal)
    sets = desk.sets(frugal=asked.frugal)
    verdicts = sets.verdicts(served.probabilities, served.answers, asked.level, about.classes)
    everyone = np.ones((len(served.probabilities), len(about.models)), bool)
    consulted = everyone if served.consulted is None else np.asarray(served.consulted, bool)
    models = [model for place, model in enumerate(about.models) if consulted[:, place].any()]
    failed = [f"model {name} gave no answer to some rows: {why}" for name, why in served.failed.items()]
    return {
        "bundle": about.digest,
        "site": about.site,
        "level": asked.level,
        "calibration_rows": sets.rows,
        "sets": sets.kind,
        "record": sets.record(asked.level).to_dict(),
        "notes": [*asked.notes, *failed],
        "models": {model.name: described(model) for model in models},
        "answers": [_answer(about, served, consulted, verdict, row) for row, verdict in enumerate(verdicts)],
    }


def described(model: ServedModel) -> dict[str, Any]:
    return {"site": model.site, "own": model.own, "version": model.version, "sha256": model.sha256}


def _answer(about: About, served: Served, consulted: NDArray[np.bool_], verdict: Verdict, row: int) -> dict[str, Any]:
    fallback = served.fallback is not None and bool(served.fallback[row])
    return {
        "row": row + 1,
        "answer": about.classes[int(served.answers[row])],
        "unsure": verdict.unsure,
        "why": verdict.why,
        "set": [about.classes[place] for place in verdict.possible],
        "note": NO_RELIABLE_MODEL if fallback else "",
        "probabilities": _by_class(about, served.probabilities[row]),
        "own": None if served.own is None else _by_class(about, served.own[row]),
        "trust": None if served.trust is None else by_site(about, served.trust[row]),
        "consulted": [model.name for model, asked in zip(about.models, consulted[row], strict=True) if asked],
    }


def _by_class(about: About, said: Floats) -> dict[str, float]:
    return dict(zip(about.classes, (float(value) for value in said), strict=True))


def by_site(about: About, trust: Floats) -> dict[str, float]:
    """Summed over each site's models, the largest first."""
    total: dict[str, float] = {}
    for model, weight in zip(about.models, trust.tolist(), strict=True):
        total[model.site] = total.get(model.site, 0.0) + weight
    return dict(sorted(total.items(), key=lambda item: -item[1]))


# ---- one row opened ------------------------------------------------------------------------------------------------


def explained(desk: Desk, asked: Asked) -> dict[str, Any]:
    """The answer to one row, and what is behind it."""
    found = desk.explain(asked.X)
    return {**predicted(desk, asked), "explanation": _opened(desk.about, plain(found)) if found else None}


def _opened(about: About, found: dict[str, Any]) -> dict[str, Any]:
    known = {model.name: model for model in about.models}
    models = []
    for say in found.get("models", []):
        model = known[say["name"]]
        models.append({"name": model.name, "site": model.site, "own": model.own, "version": model.version, **say})
    return {
        "models": models,
        "neighbours": found.get("neighbours", []),
        "fallback": bool(found.get("fallback", False)),
        "note": found.get("note", ""),
        "agreed": found["agreed"],
        "agreement": found["agreement"],
        "evidence": _evidence(models, found["influence"]),
    }


def _evidence(models: list[dict[str, Any]], influence: dict[str, float]) -> list[dict[str, Any]]:
    """One line per site, the one that moved the answer most first: its influence, its trust, and how its most trusted
    model did on the nearest known cases."""
    sites: dict[str, list[dict[str, Any]]] = {}
    for model in models:
        sites.setdefault(model["site"], []).append(model)
    lines = []
    for site, said in sites.items():
        best = max(said, key=lambda say: (say.get("trust") or 0.0, say.get("right_nearby") or 0))
        right, of = best.get("right_nearby"), best.get("of_nearby")
        lines.append(
            {
                "site": site,
                "own": said[0]["own"],
                "influence": influence.get(site),
                "trust": sum(say.get("trust") or 0.0 for say in said),
                "right_nearby": right,
                "of_nearby": of,
                "text": _record(right, of),
            }
        )
    return sorted(lines, key=lambda line: (-abs(line["influence"] or 0.0), -line["trust"]))


def _record(right: int | None, of: int | None) -> str:
    """
    >>> _record(1, 7), _record(6, 7), _record(None, None)
    ('wrong on 6 of 7 such cases', 'right on 6 of 7 such cases', '')
    """
    if right is None or not of:
        return ""
    return f"right on {right} of {of} such cases" if 2 * right >= of else f"wrong on {of - right} of {of} such cases"


def plain(value: Any) -> Any:
    """As JSON has it: no NaN, nothing of numpy's."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


# ---- CSV -----------------------------------------------------------------------------------------------------------


def as_csv(about: About, found: dict[str, Any]) -> str:
    """As `peerwise predict --out` writes them."""
    from peerwise.run.peer.answering import answers_csv  # late: the service starts without the methods

    answers = found["answers"]
    sites = list(dict.fromkeys(model.site for model in about.models))
    has_trust = any(answer["trust"] is not None for answer in answers)
    return answers_csv(about.classes, sites if has_trust else [], answers)
