"""Everything a report says of a run, before it is printed or drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from peerwise.evaluate import Assessment
from peerwise.report.first_tables import methods_table, sites_table, tests_table
from peerwise.report.headline import headline
from peerwise.report.more_tables import (
    calibration_table,
    curves_table,
    opened_tables,
    provenance_table,
    settings_table,
    split_table,
    subgroups_table,
)
from peerwise.report.notes import notes_of
from peerwise.report.sheets import Sheet
from peerwise.report.tables import summary_sheets
from peerwise.report.trust_tables import ensemble_table, home_table, speaker, trust_table
from peerwise.run import Run
from peerwise.run.provenance import bare


@dataclass(frozen=True)
class Story:
    """``headline``: the one sentence. ``notes``: a sentence for each thing that a reader should know before believing a
    number: what failed, fell back or collapsed, privacy, tuning. ``sheets`` by key, in the order of reading.
    ``provenance``: see `peerwise.run.provenance`. ``is_site``: a real site's validation rows, not a simulation.

    ``opened``: one decision, None where no method can open one:

    * ``seed``, ``method``, ``site``, ``row`` (of the site's test rows, from 0), ``part`` ("test" or "validation")
    * ``truth``, ``own`` (what the own models say), ``answer``: names of classes; ``right``: whether the answer is
    * ``rule``: by which rule the case was chosen, a sentence
    * ``values``: by feature, as text (empty for images); ``image``: a PNG in base64, or None
    * ``probabilities``: by class; ``fallback``: no model was reliable
    * ``models``, by trust: ``name``, ``own``, ``says``, ``confidence``, ``competence``, ``trust``, ``right_nearby``,
      ``of_nearby``
    * ``neighbours``, by weight: ``row``, ``label``, ``distance``, ``weight``
    """

    title: str
    headline: str
    notes: tuple[str, ...]
    run: Run
    found: Assessment
    sheets: dict[str, Sheet]
    opened: dict[str, Any] | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    is_site: bool = False


def story_of(run: Run, found: Assessment, *, is_site: bool = False, notes: tuple[str, ...] = ()) -> Story:
    """The whole report of a run; ``notes`` come before those that the assessment gives."""
    sheets = {sheet.key: sheet for sheet in _sheets(run, found, is_site) if sheet is not None}
    if is_site:
        sheets = {key: _of_validation(sheet) for key, sheet in sheets.items()}
    return Story(
        title=title_of(run),
        headline=headline(run, found, "validation rows" if is_site else "test rows"),
        notes=(*notes, *notes_of(found)),
        run=run,
        found=found,
        sheets=sheets,
        opened=run.opened,
        provenance=run.provenance,
        is_site=is_site,
    )


def title_of(run: Run) -> str:
    sites = len({site for _, _, site in run.predictions})
    seeds = len({seed for seed, _, _ in run.predictions})
    data = bare(run.experiment.dataset) or run.provenance.get("data", {}).get("name") or "rows at hand"
    parts = [data, f"{sites} site{'s' * (sites > 1)}", f"{seeds} seed{'s' * (seeds > 1)}"]
    return ", ".join(parts)


def _sheets(run: Run, found: Assessment, is_site: bool) -> Iterator[Sheet | None]:
    """In the order of reading."""
    yield methods_table(found)
    yield sites_table(found, run)
    # where a peer's classes are is known in a simulation only
    methods = found.methods.drop(columns=["home_spearman"]) if is_site else found.methods
    summary = {sheet.key: sheet for sheet in summary_sheets(methods, found.settings)}
    yield from (summary.get(key) for key in ("right", "own", "own_balanced", "cost"))
    first = speaker(run, None if run.opened is None else run.opened["method"])
    if first is not None:
        yield trust_table(run, first)
        yield None if is_site else home_table(run, first)
    yield ensemble_table(run)
    yield summary.get("trusts")
    yield summary.get("probabilities")
    yield calibration_table(run)
    yield subgroups_table(found)
    if run.opened is not None:
        yield from opened_tables(run.opened)
    yield curves_table(run)
    yield split_table(run)
    yield tests_table(found)
    yield settings_table(run)
    yield provenance_table(run.provenance) if run.provenance else None


def _of_validation(sheet: Sheet) -> Sheet:
    """A real site has no test rows to tell of."""
    columns = tuple(replace(column, name=column.name.replace("test\nrows", "rows")) for column in sheet.columns)
    return replace(sheet, about=sheet.about.replace("test rows", "validation rows"), columns=columns)
