"""The server: asks all sites for their turns, combines what they say, and keeps what is known of the run."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from flwr.app import Context, RecordDict
from flwr.serverapp import Grid, ServerApp

from peerwise.errors import ModelError, NotTrusted, ParcelError, PeerwiseError, reason
from peerwise.methods import Memory
from peerwise.models import one_thread
from peerwise.parcels import Parcel
from peerwise.run.flower.answer import Answer
from peerwise.run.flower.chronicle import Chronicle
from peerwise.run.flower.mail import Mail, Replies
from peerwise.run.flower.settings import FlowerSettings
from peerwise.run.flower.wire import LAST, Packed, question
from peerwise.run.rounds import combined, combines

log = logging.getLogger("flwr")  # whose lines `flwr log` shows


def server_app(config: Mapping[str, Any] | None = None) -> ServerApp:
    """The hub; ``config`` goes before the run's configuration."""
    app = ServerApp()

    def main(grid: Grid, context: Context) -> None:
        Hub(grid, FlowerSettings.read({**context.run_config, **(config or {})})).run()

    app.main()(main)
    return app


class Hub:
    """A node is known by the name that its site gives with its first answer, and by no other after that."""

    def __init__(self, grid: Grid, settings: FlowerSettings) -> None:
        self.settings, self.method = settings, settings.make()
        self.mail = Mail(grid, settings.deadline)
        self.chronicle = Chronicle(settings)
        self.names: dict[int, str] = {}
        self.gone: set[int] = set()  # nodes that failed, and take no further part
        self.newest = -1
        self.told: Mapping[str, Packed] | Packed | None = None
        self.memory: Memory = {}

    def run(self) -> None:
        self.mail.gather(self.settings.nodes, self.settings.quorum)
        for round in range(self.method.rounds):
            answers = self._turns(round)
            said = {name: packed for name in sorted(answers) if (packed := answers[name].said) is not None}
            self._combine(round, said)
            log.info("round %d: %s", round, ", ".join(said) or "nobody said anything")
        self._turns(LAST)
        self.chronicle.save()

    def _turns(self, round: int) -> dict[str, Answer]:
        """What each site answers, by name."""
        nodes = [node for node in self.mail.free() if node not in self.gone]
        quorum = 0 if round == LAST else self.settings.quorum
        replies = self.mail.ask({node: self._question(node, round) for node in nodes}, str(round), quorum)
        found: dict[str, Answer] = {}
        for node, content in sorted(replies.came.items()):
            try:
                answer = Answer.read(content)
                found[self._known(node, answer.name)] = answer
            except PeerwiseError as error:
                replies.failed[node] = reason(error)
        self._note(round, replies)
        if not found:
            why = next(iter({**replies.failed, **replies.passing}.values()), "no node is there")
            raise ModelError(f"{self.settings.method}: no site has answered in round {round}: {why}")
        self.chronicle.answered(round, found)
        return found

    def _question(self, node: int, round: int) -> RecordDict:
        told = self.told
        if self.method.addresses_sites and isinstance(told, Mapping):
            name = self.names.get(node, "")
            told = {name: told[name]} if name in told else {}
        return question(round, self.newest, told)

    def _known(self, node: int, name: str) -> str:
        """The name of a site, which no other node may have, nor another name than it was registered with."""
        registered = "" if self.settings.research else self.mail.registered(node)
        if registered and registered != name:
            raise NotTrusted(f"it calls itself {name!r}: expected {registered!r}, as it was registered.")
        if self.names.get(node, name) != name or any(
            self.names[other] == name for other in self.names if other != node
        ):
            raise NotTrusted(f"it calls itself {name!r}: expected a name of its own, and the same in every round.")
        self.names[node] = name
        return name

    def _note(self, round: int, replies: Replies) -> None:
        self.gone |= set(replies.failed)
        for node, why in {**replies.passing, **replies.failed}.items():
            name = self.names.get(node, f"node {node}")
            log.warning("%s is left out: %s", name, why)
            self.chronicle.left_out(round, name, why)

    def _combine(self, round: int, said: dict[str, Packed]) -> None:
        """What is told from now on; where there is nothing to combine, what was said, unread."""
        if not combines(self.method):
            self.told, self.newest = said, round
            return
        inbox = {name: parcel for name, packed in said.items() if (parcel := self._read(round, name, packed))}
        if not inbox:
            return
        try:
            with one_thread():
                told, self.memory = combined(self.method, round, inbox, self.memory, self.settings.seed)
        except Exception as error:
            raise ModelError(
                f"{self.settings.method}: what was said in round {round} cannot be combined: {reason(error)} If the "
                f"values are not finite, lower the learning rate."
            ) from error
        one = isinstance(told, Parcel)
        self.told = told.encode() if one else {name: parcel.encode() for name, parcel in told.items()}
        self.newest = round

    def _read(self, round: int, name: str, packed: Packed) -> Parcel | None:
        try:
            return Parcel.decode(*packed)
        except ParcelError as error:
            self.chronicle.left_out(round, name, reason(error))
            return None


server = server_app()
