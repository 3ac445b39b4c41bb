"""Flower's client and server apps without a network: same numbers, and what is wrong with one site costs that site."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flower_grid import RUN_ID, LocalGrid, changed, places, start
from flwr.app import ConfigRecord, Context, Message, RecordDict

from peerwise.errors import ExchangeError, ModelError
from peerwise.federation import RUN, answer
from peerwise.methods import Method
from peerwise.models import one_thread
from peerwise.parcels import pack, read_tree, unpack
from peerwise.run import run_method
from peerwise.run.flower.client import app as client
from peerwise.run.flower.client import client_app
from peerwise.run.flower.records import tree_in, tree_record
from peerwise.run.flower.server import app as server
from peerwise.run.flower.settings import FlowerSettings
from peerwise.run.simulate import federation

HEART = {"dataset": "heart_disease", "models": ["mlp"], "folds": 2, "epochs": 2}
REPLY = {"name": "hungarian", "sent": 0, "received": 0, "scores": [], "best": None, "left_out": [], "parcel": None}
REPLY["tested"] = None
HOSPITALS = ["cleveland", "hungarian", "long_beach", "switzerland"]  # as nodes 11 to 14 have them
Wrapped = Callable[[Message, Context], Message]


def asked(tmp_path: Path, method: str = "fedproto", **settings: Any) -> FlowerSettings:
    trained = {} if method in ("peerwise", "stacking") else {"rounds": 3, "lr": 0.1}
    given = {"settings": trained, "research": HEART, "nodes": 4, "deadline": 60.0, "seed": 1, "out": str(tmp_path)}
    return FlowerSettings(method=method, **{**given, **settings})


def grid_of(settings: FlowerSettings, **other: Wrapped) -> LocalGrid:
    """Four hospitals; ``other`` nodes by the name of the hospital."""
    nodes, place = places(client, 4)
    nodes |= {11 + HOSPITALS.index(name): node for name, node in other.items()}
    return LocalGrid(nodes, settings.config(), place)


def run(settings: FlowerSettings, grid: LocalGrid | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the hub knows, and the sites' answers on their test rows."""
    start(server, grid or grid_of(settings), settings.config())
    out = Path(settings.out)
    return json.loads((out / "results.json").read_text()), read_tree(out / "answers.tree")


def in_process(settings: FlowerSettings, without: str = "") -> dict[str, Any]:
    """Answers and record of each site after the same method in one process."""
    data = settings.experiment.load_data()
    sites = [site for site in federation(settings.experiment.filled(data), data, settings.seed) if site.name != without]
    method: Method = settings.make()
    run_method(method, sites)
    with one_thread():
        return {site.name: (answer(method, site, site.test.X), site.state[RUN]) for site in sites}


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert sorted(found) == sorted(expected)
    for name, (probabilities, _) in expected.items():
        assert np.array_equal(found[name]["probabilities"], probabilities), name


@pytest.mark.parametrize("method", ["peerwise", "stacking", "fedproto", "scaffold", "ditto", "fedmosaic"])
def test_a_method_on_flower_answers_as_in_one_process(method: str, tmp_path: Path) -> None:
    settings = asked(tmp_path, method, research={**HEART, "public": 40} if method == "fedmosaic" else HEART)
    known, answers = run(settings)
    expected = in_process(settings)
    same(answers, expected)
    assert known["left_out"] == []
    for name, (_, record) in expected.items():
        site = known["sites"][name]
        assert (site["sent"], site["received"]) == (record["sent"], record["received"])
        assert site["best_round"] == record.get("best_round")
        assert site["validation_accuracy"] == record["curves"].get("validation accuracy", [])
    assert [round["sites"] for round in known["rounds"]] == [HOSPITALS] * settings.make().rounds


def failing(message: Message, context: Context) -> Message:
    raise ArithmeticError("it diverged")


def test_a_client_that_fails_is_left_out_and_the_others_go_on_as_if_it_had_never_been(tmp_path: Path) -> None:
    settings = asked(tmp_path)
    grid = grid_of(settings, hungarian=failing)
    known, answers = run(settings, grid)
    same(answers, in_process(settings, without="hungarian"))
    assert [(one["round"], one["site"]) for one in known["left_out"]] == [(0, "node 12")]
    assert "it diverged" in known["left_out"][0]["why"]
    assert [round for node, round in grid.asked if node == 12] == [0], "it is not asked again"


def with_models(change: Callable[[bytes], bytes]) -> Wrapped:
    """A site that is as it should be, but for the models it sends."""

    def other(reply: dict[str, Any]) -> None:
        if reply["parcel"] is not None:
            tree = unpack(*reply["parcel"])
            tree["models"] = {name: change(data) for name, data in tree["models"].items()}
            reply["parcel"] = pack(tree)

    return changed(client, other)


@pytest.mark.parametrize("change", [lambda data: b"no model", lambda data: data[:-2000]], ids=["garbage", "cut short"])
def test_a_model_that_does_not_pass_the_gate_costs_its_sender_alone(
    change: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    settings = asked(tmp_path, "peerwise")
    known, answers = run(settings, grid_of(settings, hungarian=with_models(change)))
    expected = in_process(settings, without="hungarian")
    same({name: tree for name, tree in answers.items() if name != "hungarian"}, expected)
    for name in expected:
        assert known["sites"][name]["peers_left_out"] == ["mlp@hungarian"]


def test_a_parcel_that_was_changed_on_its_way_costs_its_sender_alone(tmp_path: Path) -> None:
    def other(reply: dict[str, Any]) -> None:
        if reply["parcel"] is not None:
            manifest, blobs = reply["parcel"]
            reply["parcel"] = manifest, {name: data[:-1] + b"?" for name, data in blobs.items()}

    settings = asked(tmp_path)
    known, answers = run(settings, grid_of(settings, hungarian=changed(client, other)))
    answers.pop("hungarian")
    same(answers, in_process(settings, without="hungarian"))
    assert [(one["round"], one["site"]) for one in known["left_out"]] == [(round, "hungarian") for round in range(3)]


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        RecordDict({"reply": ConfigRecord({"name": "hungarian"})}),
        RecordDict({"reply": tree_record({"name": "hungarian"})}),
        RecordDict({"reply": tree_record({**REPLY, "sent": "x"})}),
        RecordDict({"reply": tree_record({**REPLY, "scores": [1]})}),
        RecordDict({"reply": tree_record({**REPLY, "parcel": [b"{}", {"x": 1}]})}),
        RecordDict({"reply": tree_record({**REPLY, "parcel": [pack({})[0], {"x": b"more than the manifest names"}]})}),
        RecordDict({"reply": tree_record({**REPLY, "left_out": [1] * 300_000})}),
    ],
)
def test_an_answer_that_is_none_costs_its_sender_alone(content: RecordDict, tmp_path: Path) -> None:
    settings = asked(tmp_path)
    node = lambda message, context: Message(content, reply_to=message)  # noqa: E731
    known, answers = run(settings, grid_of(settings, hungarian=node))
    same(answers, in_process(settings, without="hungarian"))
    assert "cannot be read" in known["left_out"][0]["why"]


def test_nobody_can_speak_in_the_name_of_another(tmp_path: Path) -> None:
    settings = asked(tmp_path)
    node = changed(client, lambda reply: reply.update(name="cleveland"))
    known, answers = run(settings, grid_of(settings, hungarian=node))
    same(answers, in_process(settings, without="hungarian"))
    assert "calls itself 'cleveland'" in known["left_out"][0]["why"]


def test_a_site_that_says_nothing_is_waited_for_until_the_deadline_and_may_come_back(tmp_path: Path) -> None:
    settings = asked(tmp_path, deadline=1.0)
    grid = grid_of(settings)
    grid.silent = {12}

    def node(message: Message, context: Context) -> Message:
        if tree_in(message.content["request"])["round"] == 1:
            grid.silent = set()  # what hungarian says to round 0 now comes too late, but it is there again
        reply: Message = client(message, context)
        return reply

    grid.nodes[11] = node
    known, answers = run(settings, grid)
    rounds = [round["sites"] for round in known["rounds"]]
    assert rounds[0] == rounds[1] == ["cleveland", "long_beach", "switzerland"]
    assert rounds[2] == HOSPITALS
    assert "no answer" in known["left_out"][0]["why"]
    assert sorted(answers) == HOSPITALS
    assert [round for which, round in grid.asked if which == 12] == [0, 2, None]


def test_a_round_ends_with_the_quorum(tmp_path: Path) -> None:
    settings = asked(tmp_path, quorum=3, deadline=120.0)
    grid = grid_of(settings)
    grid.silent = {13}
    known, answers = run(settings, grid)
    same(answers, in_process(settings, without="long_beach"))
    assert [one["site"] for one in known["left_out"]] == ["node 13"]


def test_where_all_fail_the_run_says_why(tmp_path: Path) -> None:
    settings = asked(tmp_path)
    with pytest.raises(ModelError, match=r"no site has answered in round 0.*it diverged"):
        run(settings, grid_of(settings, **dict.fromkeys(HOSPITALS, failing)))


def test_too_few_nodes_are_told(tmp_path: Path) -> None:
    settings = asked(tmp_path, nodes=5, quorum=5, deadline=0.1)
    with pytest.raises(ExchangeError, match=r"4 nodes are there after 0\.1 s: expected 5"):
        run(settings)


def test_what_another_run_has_left_in_the_context_is_not_used(tmp_path: Path) -> None:
    settings = asked(tmp_path)
    grid = grid_of(settings)
    run(settings, grid)
    for held in grid.contexts.values():
        assert held.state.ByteSize() > 1000
        held.run_id = RUN_ID + 1
    start(server, grid, settings.config())
    same(read_tree(tmp_path / "answers.tree"), in_process(settings))


def test_what_a_real_sites_errors_say_stays_at_that_site(tmp_path: Path) -> None:
    settings = FlowerSettings(nodes=1, deadline=1.0)
    secret = tmp_path / "ward-7-mr-smith"
    grid = LocalGrid({11: client}, settings.config(), lambda node: {"folder": str(secret)})
    with pytest.raises(ModelError, match="ConfigError") as told:
        start(server, grid, settings.config())
    assert "smith" not in str(told.value)


def test_a_run_about_a_data_set_does_not_touch_the_folder_of_a_real_site(tmp_path: Path) -> None:
    settings = asked(tmp_path, nodes=1, deadline=1.0)
    grid = LocalGrid({11: client_app()}, settings.config(), lambda node: {"folder": str(tmp_path), "partition-id": 0})
    with pytest.raises(ModelError, match="ConfigError"):
        start(server, grid, settings.config())
