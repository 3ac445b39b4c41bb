"""Messages between the hub and its nodes: sent, waited for until enough have come or time is up, and never twice."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flwr.app import DEFAULT_TTL, Error, Message, MessageType, RecordDict
from flwr.common.constant import ErrorCode

from peerwise.errors import ExchangeError

# Errors after which a node may well answer the next time; after any other it takes no further part.
PASSING = (ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE, ErrorCode.NODE_UNAVAILABLE)
PAUSE = 0.5  # seconds between two looks at what has come


@dataclass
class Replies:
    """By node: what came, and why nothing did."""

    came: dict[int, RecordDict] = field(default_factory=dict)
    passing: dict[int, str] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)


@dataclass
class Mail:
    """``grid`` is Flower's. A node that has not answered yet is ``busy`` and is sent nothing more until it has; what it
    then says to an old question is dropped."""

    grid: Any
    deadline: float
    busy: dict[str, int] = field(default_factory=dict)  # nodes by the message that they have not answered

    def nodes(self) -> list[int]:
        return sorted(self.grid.get_node_ids())

    def registered(self, node: int) -> str:
        """The name that a node was registered with at the SuperLink, empty where it was not."""
        return next((str(one.name) for one in self.grid.get_nodes() if one.node_id == node), "")

    def gather(self, wanted: int, least: int) -> None:
        """Wait for so many nodes, and go on with fewer when time is up, as long as there are ``least``."""
        until = time.monotonic() + self.deadline
        while (here := len(self.nodes())) < wanted and time.monotonic() < until:
            time.sleep(PAUSE)
        if here < max(least, 1):
            raise ExchangeError(
                f"{here} nodes are there after {self.deadline:g} s: expected {wanted}, and at least {max(least, 1)}. "
                f"Start the others, or give them a longer deadline."
            )

    def free(self) -> list[int]:
        """The nodes that can be asked, after a look at late answers."""
        self._pull(Replies(), set())
        return [node for node in self.nodes() if node not in self.busy.values()]

    def ask(self, questions: Mapping[int, RecordDict], group: str, quorum: int = 0) -> Replies:
        """What the nodes say, once ``quorum`` of them have said something (0: all), or time is up."""
        wanted = list(questions)
        messages = [
            Message(questions[node], node, MessageType.TRAIN, ttl=max(DEFAULT_TTL, 2 * self.deadline), group_id=group)
            for node in wanted
        ]
        sent = dict(zip(self.grid.push_messages(messages), wanted, strict=True))
        if None in sent:
            raise ExchangeError(f"a message to node {sent[None]} was not taken: expected the SuperLink to take it.")
        self.busy |= sent
        replies = Replies()
        until = time.monotonic() + self.deadline
        while True:
            self._pull(replies, set(sent))
            waiting = [node for message, node in sent.items() if message in self.busy]
            if not waiting or (quorum and len(replies.came) >= quorum):
                break
            if time.monotonic() >= until:
                break
            time.sleep(PAUSE)
        for node in waiting:
            replies.passing[node] = f"no answer within {self.deadline:g} s, or after the others"
        return replies

    def _pull(self, replies: Replies, current: set[str]) -> None:
        for message in self.grid.pull_messages(list(self.busy)) if self.busy else []:
            asked = message.metadata.reply_to_message_id
            node = self.busy.pop(asked, None)
            if node is None:
                continue
            if message.has_error():
                _note(replies, node, message.error)
            elif asked in current:
                replies.came[node] = message.content


def _note(replies: Replies, node: int, error: Error) -> None:
    why = f"{error.reason} (code {error.code})"
    (replies.passing if error.code in PASSING else replies.failed)[node] = why
