"""The server: asks all sites for their parcels, combines them, and keeps what is known of the run."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from flwr.app import DEFAULT_TTL, Context, Message, MessageType, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid, ServerApp

from peerwise.errors import ExchangeError, ModelError, NotTrusted, ParcelError, PeerwiseError, reason
from peerwise.federation import Broadcast, Memory, combines, next_broadcast
from peerwise.parcels import Parcel, write_atomic, write_tree
from peerwise.run.flower.records import Packed, Reply, request
from peerwise.run.flower.settings import FlowerSettings

# Errors after which a node may well reply the next time; after any other it takes no further part.
PASSING = (ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE, ErrorCode.NODE_UNAVAILABLE)
PAUSE = 0.5  # seconds between two looks at what has come
log = logging.getLogger("flwr")  # whose lines `flwr log` shows


def server_app(config: Mapping[str, Any] | None = None) -> ServerApp:
    """The hub; ``config`` goes before the run's configuration."""
    app = ServerApp()

    def main(grid: Grid, context: Context) -> None:
        Hub(grid, FlowerSettings.read({**context.run_config, **(config or {})})).run()

    app.main()(main)
    return app


class Hub:
    """A node is known by the name that its site gives with its first reply, and by no other after that. A node that has
    not replied yet is ``busy`` and is asked nothing more until it has; its reply to an old request is dropped."""

    def __init__(self, grid: Any, settings: FlowerSettings) -> None:
        self.grid, self.settings, self.method = grid, settings, settings.make()
        self.busy: dict[str, int] = {}  # nodes by the message that they have not replied to
        self.failed: set[int] = set()  # nodes that take no further part
        self.names: dict[int, str] = {}
        self.broadcast: Broadcast | None = None  # its content is packed
        self.memory: Memory = {}
        about = {"method": settings.method, "settings": settings.settings, "seed": settings.seed}
        self.results: dict[str, Any] = {**about, "rounds": [], "sites": {}, "left_out": []}
        self.tested: dict[str, Any] = {}

    def run(self) -> None:
        self._wait_for_nodes()
        since = time.monotonic()
        for round in range(self.method.rounds):
            replies = self._replies(round)
            seconds, since = time.monotonic() - since, time.monotonic()
            self.results["rounds"].append({"round": round, "sites": sorted(replies), "seconds": seconds})
            self._save()
            parcels = {name: packed for name in sorted(replies) if (packed := replies[name].parcel) is not None}
            self._combine(round, parcels)
            log.info("round %d: %s", round, ", ".join(parcels) or "no parcels")
        self._replies(None)
        self._save()

    def _wait_for_nodes(self) -> None:
        """Go on with fewer nodes when time is up, as long as there is a quorum."""
        until, least = time.monotonic() + self.settings.deadline, max(self.settings.quorum, 1)
        while (here := len(self._nodes())) < self.settings.nodes and time.monotonic() < until:
            time.sleep(PAUSE)
        if here < least:
            raise ExchangeError(
                f"{here} nodes are there after {self.settings.deadline:g} s: expected {self.settings.nodes}, and at "
                f"least {least}. Start the others, or give them a longer deadline."
            )

    def _nodes(self) -> list[int]:
        return sorted(self.grid.get_node_ids())

    def _replies(self, round: int | None) -> dict[str, Reply]:
        """By name, once a quorum has replied or time is up; after the last round all are waited for."""
        contents, errors = dict[int, RecordDict](), dict[int, str]()
        self._pull((), contents, errors)  # late replies
        nodes = [node for node in self._nodes() if node not in self.failed and node not in self.busy.values()]
        sent = self._push(round, nodes)
        quorum, until = 0 if round is None else self.settings.quorum, time.monotonic() + self.settings.deadline
        while True:
            self._pull(sent, contents, errors)
            waiting = [node for message, node in sent.items() if message in self.busy]
            if not waiting or (quorum and len(contents) >= quorum) or time.monotonic() >= until:
                break
            time.sleep(PAUSE)
        for node in waiting:
            errors[node] = f"no answer within {self.settings.deadline:g} s, or after the others"
        replies: dict[str, Reply] = {}
        for node, content in sorted(contents.items()):
            try:
                reply = Reply.read(content, tested=round is None and bool(self.settings.research))
                replies[self._named(node, reply.name)] = reply
            except PeerwiseError as error:
                self.failed.add(node)
                errors[node] = reason(error)
        for node, why in errors.items():
            self._leave_out(round, self.names.get(node, f"node {node}"), why)
        if not replies:
            why = next(iter(errors.values()), "no node is there")
            raise ModelError(f"{self.settings.method}: no site has answered in round {round}: {why}")
        self._note(replies)
        return replies

    def _push(self, round: int | None, nodes: list[int]) -> dict[str, int]:
        """The nodes by the message that each was sent."""
        ttl = max(DEFAULT_TTL, 2 * self.settings.deadline)
        contents = self._requests(round, nodes)
        messages = [
            Message(content, node, MessageType.TRAIN, ttl=ttl, group_id=str(round))
            for content, node in zip(contents, nodes, strict=True)
        ]
        sent = dict(zip(self.grid.push_messages(messages), nodes, strict=True))
        if None in sent:
            raise ExchangeError(f"a message to node {sent[None]} was not taken: expected the SuperLink to take it.")
        self.busy |= sent
        return sent

    def _requests(self, round: int | None, nodes: Collection[int]) -> list[RecordDict]:
        broadcast = self.broadcast
        if broadcast is None or not self.method.addresses_sites or not isinstance(broadcast.content, Mapping):
            return [request(round, broadcast)] * len(nodes)
        names = [self.names.get(node, "") for node in nodes]
        parts = [{name: broadcast.content[name]} if name in broadcast.content else {} for name in names]
        return [request(round, replace(broadcast, content=part)) for part in parts]

    def _pull(self, current: Collection[str], contents: dict[int, RecordDict], errors: dict[int, str]) -> None:
        """What has come: replies to ``current`` messages, and errors."""
        for message in self.grid.pull_messages(list(self.busy)) if self.busy else []:
            replied_to = message.metadata.reply_to_message_id
            node = self.busy.pop(replied_to, None)
            if node is not None and message.has_error():
                errors[node] = f"{message.error.reason} (code {message.error.code})"
                self.failed |= set() if message.error.code in PASSING else {node}
            elif node is not None and replied_to in current:
                contents[node] = message.content

    def _named(self, node: int, name: str) -> str:
        """The name of a site, which no other node may have, nor another name than it was registered with."""
        nodes = [] if self.settings.research else self.grid.get_nodes()
        registered = next((str(one.name) for one in nodes if one.node_id == node), "")
        if registered and registered != name:
            raise NotTrusted(f"it calls itself {name!r}: expected {registered!r}, as it was registered.")
        others = {self.names[other] for other in self.names if other != node}
        if self.names.get(node, name) != name or name in others:
            raise NotTrusted(f"it calls itself {name!r}: expected a name of its own, and the same in every round.")
        self.names[node] = name
        return name

    def _combine(self, round: int, parcels: dict[str, Packed]) -> None:
        """The next broadcast."""
        inbox = self._decoded(round, parcels) if combines(self.method) else parcels
        last, seed = self.broadcast, self.settings.seed
        found, self.memory = next_broadcast(self.method, round, inbox, last, self.memory, seed)
        if found is None or found is last:
            return
        for name, why in found.left_out.items():
            self._leave_out(round, name, why)
        if found.content is not parcels:
            one = isinstance(found.content, Parcel)
            packed = found.content.encode() if one else {name: each.encode() for name, each in found.content.items()}
            found = replace(found, content=packed)
        self.broadcast = found

    def _decoded(self, round: int, parcels: Mapping[str, Packed]) -> dict[str, Parcel]:
        """Those that are not empty; a sender of one that cannot be read is left out."""
        found: dict[str, Parcel] = {}
        for name, packed in parcels.items():
            try:
                found[name] = Parcel.decode(*packed)
            except ParcelError as error:
                self._leave_out(round, name, reason(error))
        return {name: parcel for name, parcel in found.items() if parcel}

    def _leave_out(self, round: int | None, name: str, why: str) -> None:
        log.warning("%s is left out: %s", name, why)
        self.results["left_out"].append({"round": round, "site": name, "why": why})

    def _note(self, replies: Mapping[str, Reply]) -> None:
        for name, reply in replies.items():
            self.results["sites"][name] = {
                "sent": reply.sent,
                "received": reply.received,
                "validation_accuracy": reply.scores,
                "best_round": reply.best,
                "peers_left_out": reply.left_out,
            }
            if reply.tested is not None:
                self.tested[name] = reply.tested

    def _save(self) -> None:
        """``results.json``, and in research ``answers.tree`` (by site: y, probabilities)."""
        if not self.settings.out:
            return
        folder = Path(self.settings.out)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / "results.json", json.dumps(self.results, indent=1, allow_nan=False).encode())
        if self.tested:
            write_tree(folder / "answers.tree", self.tested)


app = server_app()
