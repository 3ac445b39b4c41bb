"""One decision opened: the case, what each model said, whom the site trusted and on which known cases that rests."""

from __future__ import annotations

import math
import re
from typing import Any

from peerwise.report.page.markup import folded, numbers, paragraph, plain, text
from peerwise.report.page.scene import Scene
from peerwise.run.opened import explanation_of

MOST_MODELS, MOST_CASES = 12, 7
MOST_VALUES = 40


def decision(scene: Scene) -> str:
    opened = scene.story.opened
    if opened is None:
        return paragraph("No method of this run can open its decisions.", "none")
    return (
        paragraph(_answer(opened), "answer")
        + paragraph(_where(opened), "about")
        + f'<div class="case"><div><h3>The case</h3>{_case(opened)}</div>'
        f"<div><h3>Nearest known cases</h3>{_neighbours(opened)}</div></div>"
        f"<h3>What each model said, and how far it was trusted</h3>{_said(opened)}"
    )


def _answer(opened: dict[str, Any]) -> str:
    sure = opened.get("probabilities", {}).get(opened["answer"])
    how = f" ({100 * sure:.0f} %)" if isinstance(sure, float) else ""
    explained = explanation_of(opened)
    said = [
        f"With {plain(opened['method'])} the answer is {plain(opened['answer'])}{how}: {plain(explained.agreement)}.",
        f"The own models alone say {plain(opened['own'])}.",
    ]
    said += [f"Pulled by {plain(explained.pulled)}."] if explained.pulled and not explained.agreed else []
    said += [f"The truth is {plain(opened['truth'])}."]
    said += ["No model seemed reliable here."] if opened.get("fallback") else []
    return " ".join(said)


def _where(opened: dict[str, Any]) -> str:
    part = plain(opened.get("part", "test"))
    rule = plain(opened.get("rule", ""))
    chosen = f" How it was chosen: {rule}." if rule else ""
    return f"Row {opened['row']} of the {part} rows of {plain(opened['site'])}, seed {opened['seed']}.{chosen}"


def _case(opened: dict[str, Any]) -> str:
    image = opened.get("image")
    if image and re.fullmatch(r"[A-Za-z0-9+/=]+", image):
        alt = f"The case: an image that is {opened['truth']}"
        return f'<img src="data:image/png;base64,{image}" alt="{text(alt)}" />'
    values = list(opened.get("values", {}).items())
    if not values:
        return paragraph("Its values are not kept in the run.", "none")
    shown = "".join(f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>" for name, value in values[:MOST_VALUES])
    more = paragraph(f"And {len(values) - MOST_VALUES} more features.", "about") if len(values) > MOST_VALUES else ""
    return f'<dl class="values">{shown}</dl>{more}'


def _neighbours(opened: dict[str, Any]) -> str:
    near = opened.get("neighbours", ())
    if not near:
        return paragraph("This method does not look at known cases one by one.", "none")
    rows = "".join(
        f'<tr><th scope="row">row {text(case["row"])}</th><td class="words">{text(case["label"])}</td>'
        f"<td>{_number(case['distance'], '.2f')}</td>{_bar(case['weight'], near[0]['weight'])}</tr>"
        for case in near[:MOST_CASES]
    )
    more = paragraph(f"The {MOST_CASES} heaviest of {len(near)}.", "about") if len(near) > MOST_CASES else ""
    heads = '<th scope="col">known case</th><th scope="col" class="words">its class</th><th scope="col">distance</th>'
    return _table("Nearest known cases, by weight", f'{heads}<th scope="col" class="words">weight</th>', rows) + more


def _said(opened: dict[str, Any]) -> str:
    """A table, or one line where all models say the same."""
    explained = explanation_of(opened)
    agreed = f"{explained.agreement[:1].upper()}{explained.agreement[1:]}."
    return paragraph(plain(agreed), "about") if explained.agreed else _models(opened)


def _models(opened: dict[str, Any]) -> str:
    models = opened.get("models", ())
    rows = "".join(
        f'<tr><th scope="row">{text(say["name"])}{" (own)" if say["own"] else ""}</th>'
        f'<td class="words">{text(say["says"])}{_agrees(say["says"], opened["truth"])}</td>'
        f"<td>{_number(say['confidence'], '.0%')}</td>{_bar(say['trust'], models[0]['trust'])}"
        f"<td>{_number(say['competence'], '.2f')}</td>"
        f"<td>{text(_nearby(say))}</td></tr>"
        for say in models[:MOST_MODELS]
    )
    heads = (
        '<th scope="col">model</th><th scope="col" class="words">says</th><th scope="col">confidence</th>'
        '<th scope="col" class="words">trust</th><th scope="col">competence</th><th scope="col">right nearby</th>'
    )
    about = paragraph(
        "✓ right, ✗ wrong. Trust: the weight of its vote, in percent. Competence: what the learner estimates. Right "
        "nearby: of the nearest known cases, how many it answers rightly.",
        "about",
    )
    return _table("What each model said", heads, rows) + about + _rest(models)


def _rest(models: Any) -> str:
    rest = models[MOST_MODELS:]
    if not rest:
        return ""
    rows = [[say["name"], say["says"], f"{100 * say['trust']:.1f}", _nearby(say)] for say in rest]
    return folded(
        numbers("Models with less trust", ["model", "says", "trust, %", "right nearby"], rows),
        f"{len(rest)} more models",
    )


def _nearby(say: dict[str, Any]) -> str:
    return f"{say['right_nearby']} of {say['of_nearby']}" if say.get("of_nearby") else "-"


def _agrees(said: object, truth: object) -> str:
    sign, word = ("✓", "right") if str(said) == str(truth) else ("✗", "wrong")
    return f' <span aria-hidden="true">{sign}</span><span class="unseen">{word}</span>'


def _number(value: Any, form: str) -> str:
    if value is None or math.isnan(value):
        return "-"
    return format(value, form).replace("%", "\u2009%")


def _bar(share: float, most: float) -> str:
    """As long as it is of the largest, so that many small ones can be told apart."""
    kept = min(max(share, 0.0), 1.0)
    bar = f'<span class="bar" style="width:{100 * min(kept / most, 1):.1f}%"></span>' if kept > 0 and most > 0 else ""
    return f'<td class="bars"><span class="track" aria-hidden="true">{bar}</span>{100 * kept:.1f}\u2009%</td>'


def _table(title: str, heads: str, rows: str) -> str:
    return (
        f'<div class="table" tabindex="0" role="region" aria-label="{text(title)}"><table>'
        f'<caption class="unseen">{text(title)}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
