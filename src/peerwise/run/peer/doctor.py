"""peerwise doctor: everything that a site needs, looked at before it is needed."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from peerwise.data.task import check_rows
from peerwise.errors import ConfigError, PeerwiseError
from peerwise.models.worker import isolation
from peerwise.parcels.signed import SKEW
from peerwise.run.peer.folder import PeerFolder
from peerwise.transport import Transport, certificate_facts

ROOM = 2 * 2**30
DAY = 86_400
SOON = 14 * DAY

Verdict = Literal["ok", "warning", "problem"]


@dataclass(frozen=True)
class Check:
    """One thing looked at: how it is, in a sentence that says what to do where something is wrong."""

    what: str
    verdict: Verdict
    text: str


def doctor(peer: PeerFolder, transport: Callable[[], Transport]) -> list[Check]:
    """Every check is made, whatever the others find."""
    _ = peer.settings  # a folder that is none is told as such
    found: list[Check] = []
    for what, look in (
        ("keys", _keys),
        ("clock", _clock),
        ("policy", _policy),
        ("disk", _disk),
        ("task", _task),
        ("rows", _rows),
        ("ledger", _ledger),
        ("members", _members),
        ("certificate", _certificate),
        ("isolation", _isolation),
    ):
        try:
            found.extend(Check(what, *told) for told in look(peer))
        except PeerwiseError as error:
            found.append(Check(what, "problem", str(error)))
    return [*found, *_reach(peer, transport)]


Told = Iterator[tuple[Verdict, str]]


def _keys(peer: PeerFolder) -> Told:
    yield "ok", f"this site's fingerprint is {peer.identity.fingerprint}"
    for path in sorted(peer.keys.glob("*")):
        open_to_others = os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077
        if path.suffix in (".key", "") and open_to_others:
            yield "problem", f"{path} can be read by others: run 'chmod 600 {path}'."


def _clock(peer: PeerFolder) -> Told:
    """Against what is known to have happened: nothing here was made after now."""
    newest = max((line["when"] for line in peer.ledger.lines()), default=0)
    with suppress(PeerwiseError):  # told of by the check of members
        newest = max(newest, peer.known_roster().issued)
    if peer.now() + SKEW < newest:
        yield "problem", f"the clock is {newest - peer.now()} seconds behind what has been signed: set it right."
    else:
        yield "ok", "not behind anything that was signed or noted"


def _policy(peer: PeerFolder) -> Told:
    settings = peer.settings
    if settings.ask == "never":
        yield "warning", "ask = 'never': peers' models are used without anybody's decision. Use 'first' or 'always'."
    else:
        yield "ok", f"a person decides on a peer's models (ask = {settings.ask!r})"
    if settings.min_leaf < 10:
        yield "warning", f"min_leaf = {settings.min_leaf}: leaves of fewer than 10 rows tell of single patients."


def _disk(peer: PeerFolder) -> Told:
    free = shutil.disk_usage(peer.path).free
    if free < ROOM:
        yield "warning", f"{free / 2**30:.1f} GiB are free: expected {ROOM / 2**30:.0f}. Free some space."
    else:
        yield "ok", f"{free / 2**30:.0f} GiB are free"
    if not os.access(peer.path, os.W_OK):
        yield "problem", f"{peer.path} cannot be written: expected a folder of this user."


def _task(peer: PeerFolder) -> Told:
    task = peer.task
    yield "ok", f"{task.name}: {task.kind}, classes {', '.join(task.classes)} ({task.digest[:12]})"
    yield "ok", f"models: {', '.join(peer.models)}; method: {peer.settings.method}"


def _rows(peer: PeerFolder) -> Told:
    settings = peer.settings
    group, time = settings.group or None, settings.time or None
    problems = check_rows(peer.task, peer.data_path, peer.mapping, group=group, time=time)
    for problem in problems:
        yield "problem" if problem.serious else "warning", problem.text
    if any(problem.serious for problem in problems):
        return
    site = peer.site()
    yield "ok", f"{len(site.train)} train, {len(site.val)} validation and {len(site.test)} test rows fit the task"
    lacking = [name for code, name in enumerate(site.classes) if not (site.train.y == code).any()]
    if lacking:
        yield "warning", f"no train rows of {', '.join(lacking)}: only peers can tell of them."


def _ledger(peer: PeerFolder) -> Told:
    lines = peer.ledger.check()
    yield "ok", f"{lines} line{'' if lines == 1 else 's'}, none changed"


def _members(peer: PeerFolder) -> Told:
    known = peer.known_roster()
    left = known.expires - peer.now()
    if left <= 0:
        yield "problem", "the list has ended and nothing new is let in: the founder runs 'peerwise admit --renew'."
    elif left < SOON:
        yield "warning", f"the list ends in {left // DAY} days: the founder runs 'peerwise admit --renew'."
    mine = [member for member in known.members if member.name == peer.name]
    if not mine or mine[0].revoked is not None:
        yield "problem", f"{peer.name!r} is not among the members of list {known.version}: ask the founder."
    elif mine[0].key != peer.identity.public:
        yield "problem", "the list has another key of this site: ask the founder to admit the present one."
    else:
        yield "ok", f"list {known.version}: {', '.join(known.names)}"


def _certificate(peer: PeerFolder) -> Told:
    if not peer.settings.meeting.is_live:
        return
    path = peer.keys / "tls.crt"
    if not path.is_file():
        raise ConfigError(f"{path} is not there: take in the founder's welcome with 'peerwise admit WELCOME'.")
    facts = certificate_facts(path)
    left = facts.expires - peer.now()
    if facts.name != peer.name or left <= 0:
        yield (
            "problem",
            f"the certificate is of {facts.name!r} and has {max(left, 0) // DAY} days left: ask the founder.",
        )
    elif left < SOON:
        yield "warning", f"the certificate ends in {left // DAY} days: ask the founder to admit this site again."
    else:
        yield "ok", f"{facts.name}, for {left // DAY} days"


def _isolation(peer: PeerFolder) -> Told:
    """What is there in one line, what is not in one each."""
    layers = isolation()
    on = [layer for layer, state in layers.items() if state == "on"]
    yield "ok" if on else "warning", f"peers' models run with: {', '.join(on) or 'nothing that holds them back'}"
    for layer, state in layers.items():
        if state != "on":
            yield "warning", f"{layer} is off: {state}"


def _reach(peer: PeerFolder, transport: Callable[[], Transport]) -> list[Check]:
    """Each peer by itself, so that one that hangs hides no other."""
    try:
        others = [name for name in peer.members if name != peer.name]
        if not others:
            return [Check("peers", "warning", "there are no other members yet")]
        opened = transport()
    except PeerwiseError as error:
        return [Check("peers", "problem", str(error))]
    found = []
    for name in others:
        try:
            shown = opened.fetch(name, "models")
            text = "can be reached" if shown else "can be reached, and has published nothing"
            found.append(Check("peers", "ok", f"{name} {text}"))
        except PeerwiseError as error:
            found.append(Check("peers", "warning", f"{name} cannot be reached: {error}"))
    opened.close()
    return found
