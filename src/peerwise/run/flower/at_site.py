"""The client: one turn of a site for every message. All that it remembers lies in the context that Flower hands it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from peerwise.errors import PeerwiseError, reason
from peerwise.models import one_thread
from peerwise.models.worker import Worker
from peerwise.run.flower.answer import Answer
from peerwise.run.flower.guard import Guard
from peerwise.run.flower.place import Place, place_of
from peerwise.run.flower.settings import FlowerSettings
from peerwise.run.flower.wire import asked, tree_in, tree_record
from peerwise.run.one_turn import take_turn
from peerwise.run.rounds import answer


def client_app(config: Mapping[str, Any] | None = None) -> ClientApp:
    """A site; ``config`` goes before the run's configuration."""
    app = ClientApp()
    app.train()(partial(_answered, config or {}))
    return app


def _answered(config: Mapping[str, Any], message: Message, context: Context) -> Message:
    try:
        return _turn(FlowerSettings.read({**context.run_config, **config}), message, context)
    except Exception as error:
        # Flower sends the text of an error to the hub, and what a real site's errors say may quote its rows.
        told = type(error).__name__ if "folder" in context.node_config else reason(error)
        raise PeerwiseError(f"{told} (the log of this node says more)") from error


def _turn(settings: FlowerSettings, message: Message, context: Context) -> Message:
    place, held = place_of(settings, context.node_config), context.state
    if held.get("run", {}).get("run") != str(context.run_id):
        held = RecordDict()  # of another run
    round, told = asked(message.content)
    state, best = (tree_in(held[key]) if key in held else None for key in ("state", "best"))
    with Worker() as worker:
        guard = Guard(place.site, worker)
        turn = take_turn(place.method, place.site, state, round, guard.admitted(told), best=best)
        turn = place.leaving(guard.noted(turn))
        tested = _tested(place) if round is None and place.folder is None else None
    if round is None:
        place.keep(settings)
    kept = {"run": ConfigRecord({"run": str(context.run_id)}), "state": tree_record(turn.state)}
    if turn.best is not None:
        kept["best"] = tree_record(turn.best)
    elif "best" in held:
        kept["best"] = held["best"]
    reply = Message(Answer.of(place.site.name, turn, tested).content(), reply_to=message)
    context.state = RecordDict(kept)  # last, so that where anything fails the state is the one from before
    return reply


def _tested(place: Place) -> dict[str, Any]:
    with one_thread():
        found = answer(place.method, place.site, place.site.test.X)
    return {"y": place.site.test.y, "probabilities": found}


client = client_app()
