"""Flower's grid in one process: its own messages and contexts, through its own encoding, without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode
from flwr.common.serde import context_from_proto, context_to_proto, message_from_proto, message_to_proto
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.task_identity import TaskIdentity

from peerwise.run.flower.records import tree_in, tree_record

RUN_ID = 7
Node = Callable[[Message, Context], Message]


class LocalGrid(Grid):
    """Nodes by their id; a node answers when it is looked for, unless it is among the ``silent``."""

    def __init__(self, nodes: dict[int, Node], config: dict[str, Any], place: Callable[[int], dict[str, Any]]) -> None:
        self.nodes, self.silent = nodes, set[int]()
        self.names: dict[int, str] = {}
        self.contexts = {
            node: context_to_proto(Context(RUN_ID, node, place(node), RecordDict(), dict(config))) for node in nodes
        }
        self.waiting: dict[str, Any] = {}
        self.asked: list[tuple[int, int | None]] = []  # node and round
        self._ids = count()

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise NotImplementedError

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        raise NotImplementedError

    def get_node_ids(self) -> list[int]:
        return list(self.nodes)

    def get_nodes(self) -> list[NodeInfo]:
        return [NodeInfo(node_id=node, name=self.names.get(node, "")) for node in self.nodes]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        found = []
        for message in messages:
            name = f"message-{next(self._ids)}"
            message.metadata.__dict__["_message_id"] = name
            self.asked.append((message.metadata.dst_node_id, tree_in(message.content["request"])["round"]))
            self.waiting[name] = message_to_proto(message)
            found.append(name)
        return found

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        ready = [name for name in message_ids if name in self.waiting]
        ready = [name for name in ready if self.waiting[name].metadata.dst_node_id not in self.silent]
        return [self._answered(message_from_proto(self.waiting.pop(name))) for name in ready]

    def _answered(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        context = context_from_proto(self.contexts[node])
        try:
            reply = self.nodes[node](message, context)
        except Exception as error:
            reason = f"{type(error)}:<'{error}'>"
            reply = Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason), reply_to=message)
        self.contexts[node] = context_to_proto(context)  # as Flower does it, also where the client has failed
        return message_from_proto(message_to_proto(reply))


def changed(node: Node, change: Callable[[dict[str, Any]], None]) -> Node:
    """A node whose replies are changed."""

    def other(message: Message, context: Context) -> Message:
        reply = node(message, context)
        tree = tree_in(reply.content["reply"])
        change(tree)
        reply.content["reply"] = tree_record(tree)
        return reply

    return other


def start(server: ServerApp, grid: LocalGrid, config: dict[str, Any]) -> None:
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = RUN_ID, 1, 1  # as the process of a run has them
    server(grid, Context(RUN_ID, 0, {}, RecordDict(), dict(config)))


def places(client: ClientApp, number: int) -> tuple[dict[int, Node], Callable[[int], dict[str, Any]]]:
    """So many nodes with this client, and what each is told of its part of the data set."""
    return dict.fromkeys(range(11, 11 + number), client), lambda node: {"partition-id": node - 11}
