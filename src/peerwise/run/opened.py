"""One decision opened: a case chosen by a fixed rule, whom its answer rests on, and what each model said."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from peerwise.data import Inputs, Sequences, Site
from peerwise.data.rows import Feature
from peerwise.errors import ParcelError
from peerwise.methods import Method, OneShot
from peerwise.models import one_thread
from peerwise.run.contenders import Contender
from peerwise.run.folder import RunFolder
from peerwise.run.score import answers_of
from peerwise.trust.competence import CompetenceLearner
from peerwise.trust.explanation import Explanation, ModelSay, NearbyCase

FILE = "opened"
RULE = "the first {part} row, site by site, whose answer the method changed from the own models', right or wrong"
UNCHANGED = "the method and the own models agree on every {part} row, so this is the first one"
MOST_VALUES = 200  # of a row with more features, only the first are shown


def can_open(method: Method) -> bool:
    return isinstance(method, OneShot) and isinstance(method.learner, CompetenceLearner)


def open_one(
    chosen: Sequence[tuple[Contender, Mapping[str, Any]]], sites: Sequence[Site], folder: RunFolder
) -> dict[str, Any] | None:
    """Of the first method that can, with the first seed; None where there is no such method, or no row that it can
    open. What was opened before is not opened again. The keys are those of `opened_case`, with ``run``, the name of the
    files that it comes from, and ``values`` and ``image`` as `shown_case` gives them."""
    for one, predictions in chosen:
        if not can_open(one.method):
            continue
        run = one.named(0)
        if (kept := _kept(folder)).get("run") == run:
            return in_order(kept, sites[0].classes, [feature.name for feature in sites[0].features])
        if found := _first(one, predictions, list(sites), folder, run):
            folder.store.save(FILE, found)
            return found
    return None


def opened_case(
    explained: Explanation, own: str, truth: str, *, seed: int, method: str, site: str, row: int, part: str
) -> dict[str, Any]:
    """An explanation as plain data, with what it is of: ``seed``, ``method``, ``site``, ``row`` (of that ``part``,
    from 0); ``truth``, ``own`` and ``answer`` (names of classes), ``right``, ``rule``; ``probabilities`` by class,
    ``own_probability``, ``fallback``, ``influence`` by site, ``models`` by trust, ``neighbours`` by weight."""
    answer = str(explained.answer)
    rule = RULE if own != answer else UNCHANGED
    models = [asdict(say) for say in explained.models]
    for say in models:
        say["says"] = str(say.pop("answer"))
    return {
        "seed": seed,
        "method": method,
        "site": site,
        "row": row,
        "part": part,
        "truth": truth,
        "own": own,
        "answer": answer,
        "right": answer == truth,
        "rule": rule.format(part=part),
        "probabilities": {str(name): float(value) for name, value in explained.probabilities.items()},
        "own_probability": explained.own_probability,
        "fallback": explained.fallback,
        "influence": dict(explained.influence),
        "models": models,
        "neighbours": [{**asdict(case), "label": str(case.label)} for case in explained.neighbours],
    }


def shown_case(X: Inputs, features: Sequence[Feature]) -> dict[str, Any]:
    """One row (a batch of one) to look at: ``values`` by feature as text, ``image`` as PNG in base64 or None."""
    if isinstance(X, Sequences):
        steps, width = X.series.shape[1:]
        values = {f"static {place}": f"{value:g}" for place, value in enumerate(X.static[0])}
        return {"values": {**values, "series": f"{steps} steps of {width} values"}, "image": None}
    row = np.asarray(X)[0]
    if row.ndim == 3:
        return {"values": {}, "image": _png(row)}
    names = features or [Feature(f"feature {place}") for place in range(len(row))]
    pairs = list(zip(names, row.tolist(), strict=True))[:MOST_VALUES]
    return {"values": {feature.name: _value(feature, value) for feature, value in pairs}, "image": None}


def explanation_of(opened: Mapping[str, Any]) -> Explanation:
    """The explanation that `opened_case` made plain data of, to be printed."""
    models = [{**say, "answer": say["says"]} for say in opened["models"]]
    return Explanation(
        answer=opened["answer"],
        probabilities=dict(opened["probabilities"]),
        fallback=opened["fallback"],
        models=tuple(ModelSay(**{key: say[key] for key in ModelSay.__dataclass_fields__}) for say in models),
        neighbours=tuple(NearbyCase(**case) for case in opened["neighbours"]),
        influence=dict(opened["influence"]),
        own=opened["own"],
        own_probability=opened["own_probability"],
    )


def in_order(opened: dict[str, Any], classes: Sequence[str], features: Sequence[str]) -> dict[str, Any]:
    """As it was: what is kept in a folder has lost the order of its names."""
    places = {name: place for place, name in enumerate(features)}
    values = sorted(opened.get("values", {}).items(), key=lambda item: places.get(item[0], len(places)))
    probabilities = {name: opened["probabilities"][name] for name in classes if name in opened["probabilities"]}
    return {**opened, "values": dict(values), "probabilities": probabilities}


def rows_in_turn(answers: Mapping[str, tuple[Any, Any]]) -> Iterator[tuple[str, int]]:
    """By site, from its answers and its own models': first all rows where they differ, then all others."""
    for differ in (True, False):
        for site, (ours, own) in answers.items():
            for row in np.flatnonzero((ours != own) == differ):
                yield site, int(row)


def _kept(folder: RunFolder) -> dict[str, Any]:
    try:
        return folder.store.load(FILE) if folder.store.has(FILE) else {}
    except ParcelError:  # damaged: it is opened again
        return {}


def _first(
    one: Contender, predictions: Mapping[str, Any], sites: list[Site], folder: RunFolder, run: str
) -> dict[str, Any] | None:
    assert isinstance(one.method, OneShot)
    answers = {
        name: (answers_of(tree), tree["details"]["own"].argmax(axis=1))
        for name, tree in predictions.items()
        if "trust" in tree["details"]
    }
    by_name = {site.name: site for site in sites}
    for name, row in rows_in_turn(answers):
        site, case = by_name[name], by_name[name].test.X[row : row + 1]
        with one_thread():
            explained = one.method.explain(site.replace(state=folder.load_state(name, run) or {}), case)
        if explained is None:
            continue
        own, truth = site.classes[answers[name][1][row]], site.classes[site.test.y[row]]
        found = opened_case(explained, own, truth, seed=0, method=one.label, site=name, row=row, part="test")
        return {"run": run, **found, **shown_case(case, site.features)}
    return None


def _value(feature: Feature, value: float) -> str:
    if not np.isfinite(value):
        return "missing"
    return feature.categories[int(value)] if feature.is_category else f"{value:g}"


def _png(pixels: Any) -> str | None:
    """Grey or coloured; anything else is no picture."""
    from PIL import Image

    if pixels.shape[0] not in (1, 3) or pixels.dtype != np.uint8:
        return None
    picture = Image.fromarray(pixels[0] if pixels.shape[0] == 1 else np.moveaxis(pixels, 0, 2))
    written = io.BytesIO()
    picture.save(written, format="PNG")
    return base64.b64encode(written.getvalue()).decode()
