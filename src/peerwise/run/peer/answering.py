"""Answer new rows from the bundle: whom to believe, how sure, and what is worth knowing of each answer."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerwise.data import Inputs, Site
from peerwise.data.task import Cases, read_inputs
from peerwise.errors import ParcelError
from peerwise.federation import answer, answer_codes, answer_with_details
from peerwise.methods import Method, OneShot
from peerwise.models import one_thread
from peerwise.models.worker import Worker
from peerwise.parcels import sha256
from peerwise.run.peer.assurance import Assurance
from peerwise.run.peer.fitting import BUNDLE, bundle_about, read_bundle
from peerwise.run.peer.folder import PeerFolder
from peerwise.trust.explanation import remark
from peerwise.trust.prediction_sets import LEVEL, PredictionSets, Verdict, check_level

FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would compute


@dataclass(frozen=True)
class Answers:
    """``probabilities`` (n, classes); ``answers`` (n,), class codes; ``verdicts`` for each row, by the prediction sets
    ``sets`` at ``level``; ``own`` the own model's probabilities for each explained row, None where there are none;
    ``trust`` by site and
    ``notes`` for each explained row, in ``sites`` all that have models; ``reading`` what was odd in the file;
    ``own_models_answer``: whether the own models answer alone, as they did better than with peers."""

    classes: tuple[str, ...]
    probabilities: NDArray[np.float64]
    answers: NDArray[np.int64]
    level: float
    sets: PredictionSets
    verdicts: list[Verdict]
    own: NDArray[np.float64] | None
    sites: list[str]
    trust: list[dict[str, float]]
    notes: list[str]
    reading: list[str]
    own_models_answer: bool

    def rows(self) -> list[dict[str, Any]]:
        """For JSON and CSV, under the names that the service gives them."""
        found = []
        for place, (said, verdict) in enumerate(zip(self.probabilities, self.verdicts, strict=True)):
            code = int(self.answers[place])
            row: dict[str, Any] = {
                "row": place + 1,
                "answer": self.classes[code],
                "unsure": verdict.unsure,
                "why": verdict.why,
                "set": [self.classes[code] for code in verdict.possible],
                "p": float(said[code]),
                "probabilities": [float(value) for value in said],
            }
            if place < len(self.trust):
                row["trust"] = self.trust[place]
            if place < len(self.notes):
                row["note"] = self.notes[place]
            found.append(row)
        return found


def predict(
    peer: PeerFolder, file: str | Path, worker: Worker, explain: int = 0, *, level: float = LEVEL, trust: bool = False
) -> Answers:
    """Answers to all rows of a file; notes for the first ``explain`` of them, trust for these or for all."""
    check_level(level)
    cases = read_inputs(peer.task, file, peer.mapping)
    try:
        return _answered(peer, cases, worker, explain, level, trust)
    except ParcelError:  # the bundle may have been replaced meanwhile; what is damaged stays so
        return _answered(peer, cases, worker, explain, level, trust)


def _answered(peer: PeerFolder, cases: Cases, worker: Worker, explain: int, level: float, trust: bool) -> Answers:
    digest = bundle_digest(peer)
    method, site = read_bundle(peer, worker)
    own_models_answer: bool = bundle_about(peer)["report"]["own_models_answer"]
    sets = Assurance.from_tree(peer.bundle.load_item(BUNDLE, "assurance"), len(site.classes)).sets
    if bundle_digest(peer) != digest:  # sets of one bundle do not belong to another's answers
        raise ParcelError(f"{peer.bundle.folder} was replaced while it was read: try again.")
    X = cases.X
    with one_thread():
        first = min(explain, len(X))
        opened = len(X) if trust else first
        found, details = answer_with_details(method, site, X) if opened else (answer(method, site, X), {})
        answers = answer_codes(method, site, found)
        notes = [_note(method, site, X[row : row + 1], int(answers[row]), details, row) for row in range(first)]
    failed = [f"model {name} gave no answer to some rows: {why}" for name, why in details.get("left_out", {}).items()]
    return Answers(
        classes=site.classes,
        probabilities=found,
        answers=answers,
        level=level,
        sets=sets,
        verdicts=sets.verdicts(found, answers, level, site.classes),
        own=details["own"][:opened] if "own" in details else None,
        sites=_homes(details),
        trust=_by_site(details, opened),
        notes=notes,
        reading=[*cases.notes, *failed],
        own_models_answer=own_models_answer,
    )


def bundle_digest(peer: PeerFolder) -> str:
    """Of the bundle's manifest; empty where there is none."""
    manifest = peer.bundle.folder / f"{BUNDLE}.json"
    return sha256(manifest.read_bytes())[:12] if manifest.is_file() else ""


def _home(model: str) -> str:
    return model.rpartition("@")[2]


def _homes(details: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(map(_home, details["models"]))) if "trust" in details else []


def _by_site(details: Mapping[str, Any], rows: int) -> list[dict[str, float]]:
    """Trust summed over each site's models; a method without trust has none."""
    if "trust" not in details:
        return [{} for _ in range(rows)]
    senders = [_home(name) for name in details["models"]]
    found = []
    for row in np.asarray(details["trust"])[:rows]:
        total: dict[str, float] = {}
        for sender, weight in zip(senders, row, strict=True):
            total[sender] = total.get(sender, 0.0) + float(weight)
        found.append(dict(sorted(total.items(), key=lambda item: -item[1])))
    return found


def _note(method: Method, site: Site, x: Inputs, code: int, details: dict[str, Any], row: int) -> str:
    """The most important remark about a row's answer, or nothing. Whether the answer is sure is not part of it."""
    if "fallback" in details and bool(details["fallback"][row]):
        return "no model is reliable here"
    opened = method.explain(site, x) if isinstance(method, OneShot) else None
    if opened is not None and (said_of_own := remark(opened)):
        return said_of_own
    if "own" in details and int(np.argmax(details["own"][row])) != code:
        return f"own models say {site.classes[int(np.argmax(details['own'][row]))]}"
    return ""


def answers_csv(classes: Sequence[str], sites: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """One line per answer, the same columns from `peerwise predict --out` and from the service. Text that a
    spreadsheet would compute is quoted. ``sites``: whose trust to list; none where the method has no trust."""
    file = io.StringIO(newline="")
    lines = csv.writer(file)
    header = [
        "row",
        "answer",
        "unsure",
        "set",
        *(f"p_{name}" for name in classes),
        *(f"trust_{name}" for name in sites),
    ]
    lines.writerow(header)
    for row in rows:
        said = row["probabilities"]
        said = [f"{value:.6g}" for value in (said.values() if isinstance(said, Mapping) else said)]
        trusted = [f"{row['trust'].get(site, 0.0):.6g}" for site in sites]
        text = [row["answer"], "true" if row["unsure"] else "false", "; ".join(row["set"])]
        lines.writerow([row["row"], *map(_harmless, text), *said, *trusted])
    return file.getvalue()


def _harmless(cell: str) -> str:
    """
    >>> _harmless("=1+1"), _harmless("disease")
    ("'=1+1", 'disease')
    """
    return f"'{cell}" if cell.startswith(FORMULAS) else cell
