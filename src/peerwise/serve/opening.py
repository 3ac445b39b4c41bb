"""Open what `peerwise fit` or a learner's `save` wrote, so that it can be asked again and again."""

from __future__ import annotations

from pathlib import Path

from peerwise.errors import ConfigError
from peerwise.run.peer.settings import FILE
from peerwise.serve.desk import Desk


def manifest_of(path: Path) -> Path:
    """The file that is replaced when there is a new bundle."""
    folder = site_folder(path)
    return path / "bundle.json" if folder is None else folder / "bundle" / "bundle.json"


def open_desk(path: Path) -> Desk:
    """The desk of a site's folder (or of the bundle in it), or of a folder that a learner's ``save`` wrote. The files
    are read now: whoever replaces them afterwards does not disturb it."""
    folder = site_folder(path)
    if folder is not None:
        from peerwise.serve.site_bundle import open_site

        return open_site(folder)
    if (path / "bundle.json").is_file():
        from peerwise.serve.saved_bundle import open_saved

        return open_saved(path)
    raise ConfigError(
        f"{path} holds no bundle: expected a site's folder after 'peerwise fit', or a folder that "
        f"PeerwiseClassifier.save wrote."
    )


def site_folder(path: Path) -> Path | None:
    """The site's folder that this is, or whose bundle it is."""
    found = [folder for folder in (path, path.parent) if (folder / FILE).is_file()]
    return found[0] if found and (found[0] == path or path.name == "bundle") else None
