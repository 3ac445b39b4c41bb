"""A report from a folder, and as one HTML file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from peerwise.errors import ConfigError
from peerwise.evaluate import assess
from peerwise.metrics import THRESHOLD
from peerwise.parcels import write_atomic
from peerwise.report.story import Story, story_of
from peerwise.run import Run, load_run
from peerwise.run.loading import is_run

FILE = "report.html"
ROWS = "these are the {rows} validation rows of {site}, answered by what has not learned from them: no test rows"
CHOSEN = "the round that answers was chosen on these rows: its figures are optimistic"
OWN_ANSWER = "with peers it is worse than the own models on these rows, so the own models answer (see fit --use-peers)"
STAYS = "this page holds one case of {site} with its values, and must stay there; --no-case leaves it out"


def story_from(
    folder: str | Path, *, positive: str | None = None, threshold: float = THRESHOLD, case: bool = True
) -> Story:
    """Of a run's folder, of a site's after `fit`, or of a bundle. ``case``: show the one that is opened."""
    from peerwise.run.peer.record import is_site, site_run

    path = Path(folder)
    if not path.exists():
        raise ConfigError(f"{path} is not there: expected the folder of a run or of a site.")
    if is_site(path) and not is_run(path):
        run, report = site_run(path, case=case)
        return site_story(run, report, positive=positive, threshold=threshold)
    run = load_run(path)
    run = run if case else replace(run, opened=None)
    return story_of(run, assess(run, positive=positive, threshold=threshold))


def site_story(run: Run, report: dict[str, Any], *, positive: str | None = None, threshold: float = THRESHOLD) -> Story:
    """A site's fit on its validation rows."""
    site = next(iter(run.predictions))[2]
    notes = [ROWS.format(rows=report["validation"]["rows"], site=site)]
    notes += [CHOSEN] if report["chosen_on_validation"] else []
    notes += [OWN_ANSWER] if report["own_models_answer"] else []
    unstable = report["instability"]
    notes += [f"warning: {unstable['warning']}"] if unstable and unstable["warning"] else []
    if run.opened is not None and (run.opened["values"] or run.opened["image"]):
        notes.append(STAYS.format(site=site))
    found = assess(run, positive=positive or report["positive"] or None, threshold=threshold)
    return story_of(run, found, is_site=True, notes=tuple(notes))


def write_page(story: Story, path: Path) -> Path:
    """The whole report as one HTML file; a real site's is for its owner alone."""
    from peerwise.report.page import page_of

    write_atomic(path, page_of(story).encode(), private=story.is_site)
    return path
