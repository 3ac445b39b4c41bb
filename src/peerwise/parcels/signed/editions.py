"""Versions as people read and write them."""

from __future__ import annotations

import re
import time
from calendar import timegm

from peerwise.errors import ConfigError

_WRITTEN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_AS = "%Y-%m-%dT%H:%M:%SZ"


def edition(version: int) -> str:
    """Sites number what they publish by the time, as that grows whatever else is lost.

    >>> edition(1_794_934_396), edition(3)
    ('2026-11-17T16:53:16Z', '3')
    """
    plausible = 1_500_000_000 < version < 5_000_000_000
    return time.strftime(_AS, time.gmtime(version)) if plausible else str(version)


def version_of(text: str) -> int:
    """The version that was written so, or as a plain number.

    >>> version_of("2026-11-17T16:53:16Z"), version_of("3")
    (1794934396, 3)
    """
    try:
        return timegm(time.strptime(text, _AS)) if _WRITTEN.fullmatch(text) else int(text)
    except ValueError:
        raise ConfigError(
            f"version {text!r}: expected one as 'peerwise review' shows it, such as 2026-11-17T16:53:16Z."
        ) from None
