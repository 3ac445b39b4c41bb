"""What a desk says of rows, as the service tells it."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.serve.desk import About, Desk, Served, ServedModel
from peerwise.serve.reading import Asked

FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would compute
MANY = 4  # classes; more are counted, not named

Floats = NDArray[np.float64]


def predicted(desk: Desk, asked: Asked) -> dict[str, Any]:
    """The answers to all rows."""
    about = desk.about
    served = desk.answer(asked.X, frugal=asked.frugal)
    sets = desk.sets(served, asked.level, frugal=asked.frugal)
    everyone = np.ones((len(served.probabilities), len(about.models)), bool)
    consulted = everyone if served.consulted is None else np.asarray(served.consulted, bool)
    models = [model for place, model in enumerate(about.models) if consulted[:, place].any()]
    failed = [f"model {name} gave no answer to some rows: {why}" for name, why in served.failed.items()]
    return {
        "bundle": about.digest,
        "site": about.site,
        "level": asked.level,
        "calibration_rows": about.calibration_rows,
        "notes": [*asked.notes, *failed],
        "models": {model.name: described(model) for model in models},
        "answers": [_answer(about, served, consulted, sets, asked.level, row) for row in range(len(consulted))],
    }


def described(model: ServedModel) -> dict[str, Any]:
    return {"site": model.site, "own": model.own, "version": model.version, "sha256": model.sha256}


def _answer(
    about: About,
    served: Served,
    consulted: NDArray[np.bool_],
    sets: NDArray[np.bool_] | None,
    level: float,
    row: int,
) -> dict[str, Any]:
    said = served.probabilities[row]
    answer = int(said.argmax())
    possible = None if sets is None else np.flatnonzero(sets[row]).tolist()
    fallback = served.fallback is not None and bool(served.fallback[row])
    why = _why(about, possible, fallback, level)
    return {
        "row": row + 1,
        "answer": about.classes[answer],
        "unsure": bool(why),
        "why": why,
        "set": None if possible is None else [about.classes[place] for place in possible],
        "probabilities": _by_class(about, said),
        "own": None if served.own is None else _by_class(about, served.own[row]),
        "trust": None if served.trust is None else by_site(about, served.trust[row]),
        "consulted": [model.name for model, asked in zip(about.models, consulted[row], strict=True) if asked],
    }


def _why(about: About, possible: list[int] | None, fallback: bool, level: float) -> str:
    """Why nobody should rely on an answer; empty where nothing speaks against it."""
    from peerwise.trust.prediction_sets import least_rows  # late: its room is heavy, and the desks bring it anyway

    share, rows = f"{100 * level:g} %", about.calibration_rows
    needed = least_rows(level)
    if fallback:
        return "no model is reliable here"
    if possible is None:
        return "no cases are left to calibrate on: how sure the answer is cannot be said"
    if rows < needed:
        return f"{rows} calibration cases are too few for {share}: at least {needed} are needed"
    names = [about.classes[place] for place in possible]
    if len(names) > MANY:
        return f"{len(names)} of {len(about.classes)} answers are possible at {share}"
    if len(names) > 1:
        both = "both " if len(names) == 2 else ""
        return f"{both}{', '.join(names[:-1])} and {names[-1]} are possible at {share}"
    return ""


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
        "evidence": _evidence(models),
    }


def _evidence(models: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A line a site, the most trusted first; how its most trusted model did on the nearest known cases."""
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
                "trust": sum(say.get("trust") or 0.0 for say in said),
                "right_nearby": right,
                "of_nearby": of,
                "text": _record(right, of),
            }
        )
    return sorted(lines, key=lambda line: -line["trust"])


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
    """A line a row; names that are other people's text compute nothing in a spreadsheet."""
    sites = list(dict.fromkeys(model.site for model in about.models))
    file = io.StringIO(newline="")
    lines = csv.writer(file)
    trust = any(answer["trust"] is not None for answer in found["answers"])
    lines.writerow(
        ["row", "answer", "unsure", "set"]
        + [f"p_{name}" for name in about.classes]
        + ([f"trust_{site}" for site in sites] if trust else [])
    )
    for answer in found["answers"]:
        said = [f"{value:.6g}" for value in answer["probabilities"].values()]
        trusted = [f"{answer['trust'].get(site, 0.0):.6g}" for site in sites] if trust else []
        names = "; ".join(answer["set"] or [])
        unsure = "true" if answer["unsure"] else "false"
        lines.writerow([answer["row"], *_harmless([answer["answer"], unsure, names]), *said, *trusted])
    return file.getvalue()


def _harmless(cells: Iterable[str]) -> list[str]:
    """
    >>> _harmless(["=1+1", "disease"])
    ["'=1+1", 'disease']
    """
    return [f"'{cell}" if cell.startswith(FORMULAS) else cell for cell in cells]
