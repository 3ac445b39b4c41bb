"""Other people's text as it may be shown in a terminal: nothing in it moves the cursor or hides."""

from __future__ import annotations

import json


def written_out(text: str) -> str:
    """The text with everything but line ends that does not simply print as JSON escapes it.

    >>> written_out("a\\x1b[2Jb")
    'a\\\\u001b[2Jb'
    """
    return "".join(one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in text)
