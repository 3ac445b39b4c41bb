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
        return self._noted(site)[0].get(topic, (0, ""))[0]

    def check(self, site: str, topic: str, version: int, digest: str) -> None:
        """Refuse what is older than what was seen, and the same version with another content."""
        _refuse(self._noted(site)[0], site, topic, version, digest)

    def note(self, site: str, topic: str, version: int, digest: str) -> bool:
        """Check, and keep it if it is newer; on disk when this returns. Whether it is newer."""
        text_like(topic, TOPIC, "the topic")
        text_like(digest, SHA256, "the digest")
        whole(version, 1, MOST_VERSION, "the version")
        with locked(self.path):
            noted, lost = self._noted(site)
            _refuse(noted, site, topic, version, digest)
            newer = noted.get(topic) != (version, digest)
            if not newer and not lost:
                return False
            if self.ledger is not None and lost:
                self.ledger.add("mended", site=site, why=f"the versions seen of this site, as its file {lost}")
            if self.ledger is not None and newer:
                self.ledger.add("seen", site=site, topic=topic, version=version, digest=digest)
            noted[topic] = (version, digest)
            self._write(site, noted)
            self._told[site] = noted
        return newer

    def _write(self, site: str, noted: Noted) -> None:
        body = {topic: list(pair) for topic, pair in noted.items()}
        kept = {"format": FORMAT, "seen": body, "sha256": sha256(canonical(body))}
        # A line of the ledger is on disk already, and makes good what a power cut may do to the file.
        write_atomic(self._file(site), canonical(kept), durable=self.ledger is None)

    def _noted(self, site: str) -> tuple[Noted, str]:
        """What was seen of a site; and what became of its file, if that had to be made good."""
        path, told = self._file(site), dict(self._told.get(site, {}))
        try:
            noted = _read(path.read_bytes())
        except FileNotFoundError:
            if told and self.ledger is not None:
                self.ledger.check()
            return told, "was lost" if told else ""
        except ParcelError as error:
            if self.ledger is None:
                raise StorageError(
                    f"{path} is damaged ({error}), and there is no ledger to make it good: put it back from a copy, or "
                    f"remove it and know that an old version of {site} would then pass for a new one."
                ) from error
            self.ledger.check()
            return _from_ledger(self.ledger).get(site, {}), f"was damaged ({error})"
        older = {topic for topic, pair in told.items() if pair[0] > noted.get(topic, (0, ""))[0]}
        return noted | {topic: told[topic] for topic in older}, "was older than the ledger" if older else ""

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
    """The highest versions that the ledger tells of. Lines that were changed are passed over: the files are what
    counts, and where one must be made good `Ledger.check` is asked first."""
    found: dict[str, Noted] = {}
    for raw in ledger.raw():
        if b'"what":"seen"' not in raw:
            continue
        try:
            line: dict[str, Any] = strict_json(raw, what="a line of the ledger")
            site, topic, version, digest = (line[name] for name in ("site", "topic", "version", "digest"))
            text_like(topic, TOPIC, "the topic")
            whole(version, 1, MOST_VERSION, "the version")
        except (ParcelError, KeyError, TypeError):
            continue
        noted = found.setdefault(str(site), {})
        if line["what"] == "seen" and version > noted.get(topic, (0, ""))[0]:
            noted[topic] = (version, str(digest))
    return found
