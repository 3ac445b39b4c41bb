"""The word that clients have to know."""

from __future__ import annotations

import secrets
from pathlib import Path

from peerwise.errors import ConfigError
from peerwise.parcels.store import write_atomic

LEAST = 16  # characters


def fresh_token() -> str:
    return secrets.token_urlsafe(24)


def token_in(file: Path) -> str:
    """The token in this file, which is made if it is not there, for its owner alone."""
    if not file.exists():
        write_atomic(file, f"{fresh_token()}\n".encode(), private=True)
    try:
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{file} cannot be read ({type(error).__name__}): expected a token, letters and digits."
        ) from error
    if len(token) < LEAST or not token.isprintable() or " " in token:
        raise ConfigError(
            f"the token in {file} has {len(token)} characters: expected at least {LEAST}, without spaces. Remove the "
            f"file, and a good one is made."
        )
    return token
