"""The parts of the page in the order of reading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from peerwise.report.page.calibration import calibration
from peerwise.report.page.cost import cost
from peerwise.report.page.curves import curves
from peerwise.report.page.decision import decision
from peerwise.report.page.gains import gains
from peerwise.report.page.home import home
from peerwise.report.page.markup import folded, numbers, paragraph, plain, table, text
from peerwise.report.page.scene import Scene
from peerwise.report.page.split import split
from peerwise.report.page.subgroups import subgroups
from peerwise.report.page.trust import trust
from peerwise.report.sheets import Sheet

MOST_ROWS = 150  # of a table in the page


@dataclass(frozen=True)
class Section:
    """``sheets``: tables of the story that stand below what is drawn."""

    key: str
    heading: str
    drawn: Callable[[Scene], str]
    sheets: tuple[str, ...] = ()

    def html(self, scene: Scene) -> str:
        found = [scene.story.sheets[key] for key in self.sheets if key in scene.story.sheets]
        inside = self.drawn(scene) + "".join(_more(sheet) for sheet in found)
        return f'<section id="{self.key}"><h2>{text(self.heading)}</h2>{inside}</section>'


def _more(sheet: Sheet) -> str:
    if len(sheet.rows) <= MOST_ROWS:
        return folded(sheet, sheet.title)
    where = f"{len(sheet.rows)} lines, which peerwise report --format csv writes."
    return paragraph(f"{sheet.title}: {where}", "about")


def methods(scene: Scene) -> str:
    sheet = scene.story.sheets.get("methods")
    notes = "".join(f"<li>{text(note)}</li>" for note in scene.story.notes)
    shown = table(sheet, heading=False) if sheet else paragraph("There is no table of the methods.", "none")
    return shown + (f'<h3>Before believing a number</h3><ul class="notes">{notes}</ul>' if notes else "")


def provenance(scene: Scene) -> str:
    if "provenance" in scene.story.sheets:
        return table(scene.story.sheets["provenance"], heading=False)
    known = scene.story.provenance
    if not known:
        return paragraph("Where these numbers come from was not recorded.", "none")
    return table(numbers("Provenance", ["what", "value"], [[key, _told(value)] for key, value in known.items()]))


def _told(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{plain(key)}: {_told(each)}" for key, each in value.items())
    return ", ".join(map(_told, value)) if isinstance(value, list | tuple) else plain(value)


SECTIONS = (
    Section("methods", "Methods", methods, ("right", "own", "own_balanced", "cost")),
    Section("gain", "Gain over what a site has alone", gains, ("tests",)),
    Section("cost", "Accuracy against bytes sent", cost),
    Section("trust", "Who trusts whom", trust),
    Section("selection", "Selection score against home class frequency; ensemble size", home, ("home", "trusts")),
    Section("calibration", "Calibration", calibration, ("probabilities",)),
    Section("subgroups", "Results by subgroup", subgroups),
    Section("decision", "One decision opened", decision),
    Section("curves", "Learning curves", curves),
    Section("split", "How unlike the sites are", split),
    Section("provenance", "Provenance", provenance, ("settings",)),
)
