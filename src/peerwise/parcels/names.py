"""The one place where a site's name becomes a file name, and a file name a site's name again."""

from __future__ import annotations

from urllib.parse import quote, unquote

from peerwise.errors import ParcelError

LONGEST = 200  # file systems allow 255 bytes, and endings come on top


def file_name(site: str) -> str:
    """A name that any file system takes and that never leaves its folder; different sites have different ones.

    >>> file_name("St. Mary's"), file_name("../ward"), file_name("Zürich")
    ('St. Mary%27s', '%2E.%2Fward', 'Z%C3%BCrich')
    """
    name = quote(site, safe=" ")
    # A leading dot hides a file, and "." and ".." are folders; a trailing one is dropped by some file systems.
    if name[:1] in (".", " "):
        name = f"%{ord(name[0]):02X}{name[1:]}"
    if name[-1:] in (".", " "):
        name = f"{name[:-1]}%{ord(name[-1]):02X}"
    if not name or len(name) > LONGEST:
        raise ParcelError(
            f"site name {site[:40]!r} takes {len(name)} bytes in a file name: expected 1 to {LONGEST}. Rename the site."
        )
    return name


def site_name(file: str) -> str:
    """The inverse of `file_name`."""
    return unquote(file)
