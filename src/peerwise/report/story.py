"""Everything a report says of a run, before it is printed or drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from peerwise.evaluate import Assessment
from peerwise.report.sheets import Sheet
from peerwise.run import Run


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
