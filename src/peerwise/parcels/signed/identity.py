"""Who a site is: an Ed25519 key of its own, kept in a file that only its owner can read."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from peerwise.errors import ConfigError, StorageError
from peerwise.parcels.signed.envelope import MOST_BYTES, envelope, fingerprint, key_id, signed_bytes
from peerwise.parcels.store import write_atomic
from peerwise.parcels.strict import canonical, strict_json


class Identity:
    """A key pair. ``public`` is given away; the rest never leaves the site.

    >>> from peerwise.parcels.signed import opened
    >>> me = Identity.new()
    >>> opened(me.sign("note", {"text": "hello"}), "note", [me.public])
    {'text': 'hello'}
    """

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()

    def __repr__(self) -> str:
        return f"Identity({self.fingerprint})"

    @property
    def key_id(self) -> str:
        return key_id(self.public)

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.public)

    @classmethod
    def new(cls) -> Identity:
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: str | Path) -> Identity:
        path = Path(path)
        try:
            mode = path.stat().st_mode
            data = path.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"the key {path} cannot be read ({error.strerror or error}): expected a file that Peerwise wrote. "
                f"Run `peerwise init`, or put the key back from its safe copy."
            ) from error
        if os.name == "posix" and mode & 0o077:
            raise ConfigError(
                f"the key {path} can be used by others (mode {stat.S_IMODE(mode):04o}): expected 0600. "
                f"Run `chmod 600 {path}`, and change the key if somebody else may have read it."
            )
        try:
            key = load_pem_private_key(data, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise ConfigError(f"{path} holds no key ({error}): put it back from its safe copy.") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise ConfigError(f"{path} holds a {type(key).__name__}: expected an Ed25519 key that Peerwise wrote.")
        return cls(key)

    def save(self, path: str | Path) -> None:
        """Write the key for its owner alone; never over another, as a lost key cannot be made again."""
        path = Path(path)
        if path.exists():
            raise StorageError(f"{path} is there already: expected no file. Choose another name, or move it away.")
        write_atomic(path, self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), private=True)

    def sign(self, kind: str, payload: Mapping[str, Any]) -> bytes:
        """An envelope with this payload, which `opened` takes for this kind alone."""
        data = canonical(dict(payload))
        strict_json(data, most_bytes=MOST_BYTES // 2, what=f"the {kind}")  # nobody could read it otherwise
        return envelope(self.public, data, self.signature(kind, data))

    def signature(self, kind: str, payload: bytes) -> bytes:
        return self._key.sign(signed_bytes(kind, payload))
