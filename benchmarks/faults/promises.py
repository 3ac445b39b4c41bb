"""What must hold whatever happens: nothing that was acknowledged is lost, nothing private leaves, the site answers.

I1 an acknowledged publish is readable, whole, with the same hash     I4 no private row is in any published byte
I2 the highest version seen never falls                               I5 a faulty peer changes its own part alone
I3 the site's answers are always there                                I6 every exclusion is in the ledger, with a reason
I7 time, memory and disk are bounded
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from faults.sites import EAST, HOME, Sites, answers
from peerwise.data import Rows
from peerwise.models.worker import Worker
from peerwise.parcels import sha256
from peerwise.parcels.egress import holds_rows
from peerwise.parcels.signed import Manifest, unseal
from peerwise.parcels.store import UNFINISHED
from peerwise.run.peer import arrivals, status
from peerwise.transport import FolderTransport

Facts = dict[str, Any]
MODELS = "models"


def standing(sites: Sites, worker: Worker) -> Facts:
    """All that can be told of home as it stands; nothing is written."""
    peer = sites.peer()
    here = status(peer)
    return {
        "answers": answers(peer, worker),
        "seen": {name: peer.seen.highest(name, MODELS) for name in peer.known_roster().names},
        "ledger": [line.decode() for line in peer.ledger.raw()],
        "acknowledged": here["published"]["version"],
        "shown": shown(sites),
        "settled": {
            "decided": sorted([a.site, a.version, a.decided] for a in arrivals(peer)),
            "fitted with": sorted(map(list, (here["bundle"] or {}).get("peers", {}).items())),
            "due": [line for line in here["due"] if "refit" not in line],
            "files": files(sites),
            "left out": [
                [line["site"], line["about"], line["why"]] for line in peer.ledger.lines() if line["what"] == "left out"
            ],
        },
    }


def shown(sites: Sites) -> Facts:
    """What home shows, as another member sees it: verified, and every blob read. No state is needed for that."""
    peer = sites.peer(EAST)
    found = FolderTransport(sites.live / "shared", EAST).fetch(HOME, MODELS)
    if found is None:
        return {"version": 0, "content": ""}
    manifest = Manifest.read(found.manifest, peer.roster(), site=HOME, topic=MODELS, now=peer.now())
    if manifest.withdrawn is not None:
        return {"version": manifest.version, "content": "withdrawn"}
    unseal(manifest, {key: found.blob(key, size) for key, size in manifest.blobs.items()})
    return {"version": manifest.version, "content": manifest.parcel}


def files(sites: Sites) -> dict[str, int]:
    """How many files there are in each folder of home, and in what it shows."""
    found: Counter[str] = Counter()
    for name in (sites.live / HOME, sites.live / "shared" / HOME):
        for path in sorted(name.rglob("*")):
            if path.is_file() and not path.name.endswith((".lock", UNFINISHED)):
                found[str(path.relative_to(sites.live).parent)] += 1
    return dict(sorted(found.items()))


def broken_now(sites: Sites, worker: Worker, before: Facts, after: Facts) -> list[str]:
    """Right after a fault, before anybody has run anything again."""
    problems = []
    now = standing(sites, worker)
    if now["answers"] not in (before["answers"], after["answers"]):
        problems.append("I3: the answers are neither the old nor the new ones")
    problems += [
        f"I2: the highest version seen of {name} fell from {version} to {now['seen'].get(name)}"
        for name, version in before["seen"].items()
        if now["seen"].get(name, 0) < version
    ]
    if now["ledger"][: len(before["ledger"])] != before["ledger"]:
        problems.append("I6: lines of the ledger are gone")
    sites.peer().ledger.check()
    told = now["acknowledged"]
    if told and now["shown"]["version"] < told:
        problems.append(f"I1: version {told} was acknowledged, the folder has {now['shown']}")
    if now["shown"]["content"] not in (before["shown"]["content"], after["shown"]["content"]):
        problems.append(f"I1: the folder has {now['shown']}")
    return problems


def broken_then(sites: Sites, worker: Worker, before: Facts, after: Facts) -> list[str]:
    """After the same command was run again: as if nothing had happened."""
    problems = []
    now = standing(sites, worker)
    if now["answers"] != after["answers"]:
        problems.append("I5: the answers are not those of an undisturbed run")
    if now["shown"]["content"] != after["shown"]["content"]:
        problems.append(f"I1: the folder has {now['shown']}: expected {after['shown']}")
    if now["acknowledged"] and now["acknowledged"] != now["shown"]["version"]:
        problems.append(f"I1: version {now['acknowledged']} was acknowledged, the folder has {now['shown']}")
    problems += [
        f"{what}: {now['settled'][what]}, expected {after['settled'][what]}"
        for what in after["settled"]
        if now["settled"][what] != after["settled"][what]
    ]
    sites.peer().ledger.check()
    # In the shared folder they go when the site writes there again.
    left = [path.name for path in (sites.live / HOME).rglob(f"*{UNFINISHED}")]
    left += [path.name for path in (sites.live / "shared").rglob(f"*{UNFINISHED}")][1:]
    if left:
        problems.append(f"I7: half-written files stay: {left}")
    if any(now["seen"][name] < version for name, version in before["seen"].items()):
        problems.append("I2: the highest version seen fell")
    return problems


class Searched:
    """I4, with a memory of what was searched already: the same blob is not searched for the same rows twice."""

    def __init__(self) -> None:
        self.clean: set[tuple[str, int]] = set()
        self.bytes = 0

    def rows_on(self, folder: Path, site: str, rows: Rows) -> list[str]:
        problems = []
        for path in sorted((folder / site).rglob("*")):
            if not path.is_file():
                continue
            data = path.read_bytes()
            key = sha256(data), len(rows)
            if key in self.clean:
                continue
            self.bytes += len(data)
            if held := holds_rows(data, rows):
                problems.append(f"I4: {path.name} of {site} holds rows {held[:5]}")
            self.clean.add(key)
        return problems
