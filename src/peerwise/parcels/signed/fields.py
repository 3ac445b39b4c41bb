"""What signed statements have in common: names, times, and fields that are checked one by one."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from peerwise.errors import ConfigError, ParcelError

FORMAT = 1
SKEW = 300  # seconds by which the clocks of two sites may differ
LONGEST = 731 * 24 * 3600  # two years: the longest life of a manifest or a roster
MOST_VERSION = 2**53
LATEST = 2**40  # far beyond any time that is meant

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
FEDERATION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
TOPIC = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
SHA256 = re.compile(r"[0-9a-f]{64}")
KEY = SHA256  # a public key has 32 bytes too
_PRIME = 2**255 - 19
# The second coordinates of the points of small order: with such a key a signature fits many texts, so that anybody can
# sign, and a signer can deny.
_WEAK = {
    0,
    1,
    _PRIME - 1,
    0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,
    0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7,
}
SIGNATURE = re.compile(r"[0-9a-f]{128}")


def peer_name(text: str) -> str:
    """The text, if it can name a site of a federation.

    >>> peer_name("hospital-a")
    'hospital-a'
    """
    if not isinstance(text, str) or not NAME.fullmatch(text):
        raise ConfigError(
            f"{str(text)[:80]!r} cannot name a site: expected 1 to 40 letters, digits, '_', '.' or '-', "
            f"the first of them a letter or digit, such as 'hospital-a'. Choose another name."
        )
    return text


def known_format(payload: Mapping[str, Any], what: str) -> None:
    """Refuse a format that this version does not know before anything else of it is read."""
    found = payload.get("format")
    if type(found) is not int or found < 1:
        raise ParcelError(f"{what} says no format: expected format {FORMAT}. Ask its sender to sign it with Peerwise.")
    if found != FORMAT:
        raise ParcelError(f"{what} is of format {found}, and this version reads format {FORMAT}: update Peerwise.")


def exact_fields(payload: Mapping[str, Any], fields: Collection[str], what: str) -> None:
    if set(payload) != set(fields):
        odd = sorted(set(payload) ^ set(fields))
        raise ParcelError(
            f"{what} has other fields than it should ({repr(odd)[:200]}): expected exactly "
            f"{', '.join(sorted(fields))}. Ask its sender to sign it with Peerwise."
        )


def text_like(value: Any, pattern: re.Pattern[str], what: str) -> None:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ParcelError(f"{what} is {repr(value)[:80]}: expected text like {pattern.pattern}.")


def public_key(value: Any, what: str) -> None:
    text_like(value, KEY, what)
    place = int.from_bytes(bytes.fromhex(value), "little") % 2**255
    if place >= _PRIME or place in _WEAK:
        raise ParcelError(f"{what} is {value}, with which anybody could sign: expected a key that Peerwise made.")


def plain_text(value: Any, most: int, what: str, least: int = 0) -> None:
    """One line without control letters, so that it can be shown and logged as it is."""
    if not isinstance(value, str) or not least <= len(value) <= most or not value.isprintable():
        raise ParcelError(f"{what} is {repr(value)[:80]}: expected one line of {least} to {most} printable letters.")


def whole(value: Any, least: int, most: int, what: str) -> None:
    if type(value) is not int or not least <= value <= most:
        raise ParcelError(f"{what} is {repr(value)[:80]}: expected a whole number from {least} to {most}.")


def lifetime(begin: Any, end: Any, what: str) -> None:
    whole(begin, 1, LATEST, f"the time of {what}")
    whole(end, 1, LATEST, f"the expiry of {what}")
    if not 0 < end - begin <= LONGEST:
        raise ParcelError(
            f"{what} is to live for {end - begin} seconds: expected more than none and at most {LONGEST} (two years)."
        )
