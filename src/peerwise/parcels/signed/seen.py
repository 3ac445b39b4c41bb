"""The highest version seen of each site and topic, on disk before it is used: no older one is ever taken again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from peerwise.errors import NotTrusted, ParcelError, StorageError
from peerwise.parcels.signed.fields import FORMAT, MOST_VERSION, NAME, SHA256, TOPIC, text_like, whole
from peerwise.parcels.signed.ledger import Ledger, locked
from peerwise.parcels.store import write_atomic
from peerwise.parcels.strict import canonical, strict_json
from peerwise.parcels.tree import sha256

Noted = dict[str, tuple[int, str]]  # version and digest by topic
MOST_BYTES = 16 << 20


class Seen:
    """A folder with one file a site. With a ledger each step is also a line there, from which a file that was lost,
    damaged or put back from an old copy is made good."""

    def __init__(self, path: str | Path, ledger: Ledger | None = None) -> None:
        self.path = Path(path)
        self.ledger = ledger
        self._told = _from_ledger(ledger) if ledger is not None else {}

    def highest(self, site: str, topic: str) -> int:
        """The highest version seen; 0 if none was."""
        return self._noted(site).get(topic, (0, ""))[0]

    def check(self, site: str, topic: str, version: int, digest: str) -> None:
        """Refuse what is older than what was seen, and the same version with another content."""
        _refuse(self._noted(site), site, topic, version, digest)

    def note(self, site: str, topic: str, version: int, digest: str) -> bool:
        """Check, and keep it if it is newer; on disk when this returns. Whether it is newer."""
        text_like(topic, TOPIC, "the topic")
        text_like(digest, SHA256, "the digest")
        whole(version, 1, MOST_VERSION, "the version")
        with locked(self._file(site)):
            noted = self._noted(site)
            _refuse(noted, site, topic, version, digest)
            if noted.get(topic) == (version, digest) and self._file(site).exists():
                return False
            if self.ledger is not None:
                self.ledger.add("seen", site=site, topic=topic, version=version, digest=digest)
            self._write(site, {**noted, topic: (version, digest)})
        return True

    def _write(self, site: str, noted: Noted) -> None:
        body = {topic: list(pair) for topic, pair in noted.items()}
        whole_file = {"format": FORMAT, "seen": body, "sha256": sha256(canonical(body))}
        write_atomic(self._file(site), canonical(whole_file))

    def _noted(self, site: str) -> Noted:
        path, told = self._file(site), self._told.get(site, {})
        if not path.exists():
            return dict(told)
        try:
            noted = _read(path.read_bytes())
        except ParcelError as error:
            if self.ledger is None:
                raise StorageError(
                    f"{path} is damaged ({error}), and there is no ledger to make it good: put it back from a copy, or "
                    f"remove it and know that an old version of {site} would then pass for a new one."
                ) from error
            self.ledger.check()
            return dict(_from_ledger(self.ledger).get(site, {}))
        for topic, pair in told.items():
            if pair[0] > noted.get(topic, (0, ""))[0]:
                noted[topic] = pair
        return noted

    def _file(self, site: str) -> Path:
        text_like(site, NAME, "the site")
        return self.path / f"{site}.json"


def _refuse(noted: Noted, site: str, topic: str, version: int, digest: str) -> None:
    highest, known = noted.get(topic, (0, ""))
    if version < highest:
        raise NotTrusted(
            f"{site} offers version {version} of {topic!r}, and version {highest} was seen before: "
            f"expected no older one. Somebody may be playing back what was replaced; ask {site}."
        )
    if version == highest and digest != known:
        raise NotTrusted(
            f"{site} has signed two different versions {version} of {topic!r} ({known[:12]} and {digest[:12]}): "
            f"expected one. Its key or its working folder may have been copied; ask {site} to publish a higher version."
        )


def _read(data: bytes) -> Noted:
    found = strict_json(data, most_bytes=MOST_BYTES, most_values=1_000_000, what="the file")
    if not isinstance(found, dict) or set(found) != {"format", "seen", "sha256"} or found["format"] != FORMAT:
        raise ParcelError("it is not of format 1")
    if sha256(canonical(found["seen"])) != found["sha256"]:
        raise ParcelError("it does not match its sha256")
    return {topic: (pair[0], pair[1]) for topic, pair in found["seen"].items()}


def _from_ledger(ledger: Ledger) -> dict[str, Noted]:
    found: dict[str, Noted] = {}
    for raw in ledger.raw():
        if b'"what":"seen"' not in raw:
            continue
        line: dict[str, Any] = strict_json(raw, what="a line of the ledger")
        noted = found.setdefault(line["site"], {})
        if line["what"] == "seen" and line["version"] > noted.get(line["topic"], (0, ""))[0]:
            noted[line["topic"]] = (line["version"], line["digest"])
    return found
