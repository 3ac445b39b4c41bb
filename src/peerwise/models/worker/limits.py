"""What the process that runs peers' models may use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """``memory_bytes``: of address space, of which Python and the runtime take some 150 MB. ``seconds``: for opening a
    model, and for one slice of rows. ``most_open_bytes``: of the files whose sessions are kept open together, so also
    of one file. ``most_reply_bytes``: of the answers to one slice."""

    memory_bytes: int = 2**30
    seconds: float = 30.0
    most_open_bytes: int = 2**28
    most_reply_bytes: int = 2**26
