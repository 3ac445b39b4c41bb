"""The app that Flower runs: its settings, its folder, and the command that writes it."""

from __future__ import annotations

import argparse
import json
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import RecordDict
from flwr.cli.config_utils import load_and_validate
from flwr.common.config import flatten_dict, parse_config_args
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from hypothesis import given
from hypothesis import strategies as st

from peerwise.cli import flower as verb
from peerwise.errors import ConfigError, ParcelError
from peerwise.federation import Broadcast
from peerwise.parcels import Parcel
from peerwise.run.flower.records import Reply, read_request, request, tree_in, tree_record
from peerwise.run.flower.settings import FlowerSettings, write_app

HEART = {"dataset": "heart_disease", "models": ["mlp"]}


def test_flower_takes_the_folder_and_finds_both_apps_in_it(tmp_path: Path) -> None:
    settings = FlowerSettings(method="fedproto", settings={"rounds": 3, "lr": 0.5}, research=HEART, nodes=3)
    path = write_app(tmp_path / "app", settings)
    config, warnings = load_and_validate(path)
    assert warnings == []
    app = config["tool"]["flwr"]["app"]
    components = {"serverapp": "peerwise.run.flower.server:app", "clientapp": "peerwise.run.flower.client:app"}
    assert app["components"] == components
    assert FlowerSettings.read(flatten_dict(app["config"])) == settings
    for place in components.values():
        module, _, name = place.partition(":")
        assert callable(getattr(import_module(module), name))


def test_settings_can_be_changed_for_one_run(tmp_path: Path) -> None:
    settings = FlowerSettings(research=HEART, nodes=3, settings={"k": 7})
    changed = parse_config_args(["method='fedproto' settings='{\"rounds\": 2}' deadline=5.0"])
    found = FlowerSettings.read({**settings.config(), **changed})
    assert (found.method, found.settings, found.deadline, found.nodes) == ("fedproto", {"rounds": 2}, 5.0, 3)
    assert found.make().rounds == 2


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"methd": "peerwise"}, "unknown .*'methd': did you mean 'method'"),
        ({"method": "fedess"}, "did you mean 'feddes'"),
        ({"settings": '{"kk": 7}'}, "'kk'"),
        ({"settings": "k=7"}, "settings is 'k=7': expected an object in JSON"),
        ({"settings": "[1]"}, "settings"),
        ({"nodes": 0}, "nodes is 0: expected at least 1"),
        ({"nodes": 2, "quorum": 3}, "quorum is 3: expected at most 2"),
        ({"deadline": "soon"}, "deadline"),
        ({"research": '{"sites": 3}'}, "without a data set"),
        ({"research": '{"dataset": "digits", "methods": ["local"]}'}, r"research\.methods"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_runs(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        FlowerSettings.read(config)


def written(tmp_path: Path, *arguments: str) -> FlowerSettings:
    parser = argparse.ArgumentParser()
    verb.add_to(parser.add_subparsers())
    found = parser.parse_args(["flower", str(tmp_path / "app"), *arguments])
    assert found.run(found) == 0
    config = tomllib.loads((tmp_path / "app" / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    return FlowerSettings.read(config)


def test_the_command_writes_what_was_asked_for(tmp_path: Path, capsys: Any) -> None:
    found = written(
        tmp_path, "--method", "fedproto", "--dataset", "heart_disease", "--models", "mlp", "--nodes", "3",
        "--partition", "dirichlet", "--set", "partition_settings.alpha=0.5", "--set", "fedproto.rounds=4",
        "--out", "here", "--format", "json",
    )  # fmt: skip
    research = {"dataset": "heart_disease", "models": "mlp", "partition": "dirichlet"}
    assert found.research == {**research, "partition_settings": {"alpha": 0.5}}
    assert found.settings == {"rounds": 4}
    assert Path(found.out) == Path.cwd() / "here"
    assert json.loads(capsys.readouterr().out)["config"]["nodes"] == 3


def test_for_real_sites_no_data_set_is_named(tmp_path: Path, capsys: Any) -> None:
    found = written(tmp_path, "--nodes", "3", "--set", "peerwise.k=9")
    assert (found.research, found.settings, found.make().rounds) == ({}, {"k": 9}, 1)
    assert "flwr run" in capsys.readouterr().out


def test_settings_of_another_method_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the method is 'peerwise'"):
        written(tmp_path, "--set", "fedproto.rounds=4")


def test_a_project_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'mine'\n")
    with pytest.raises(ConfigError, match="no Flower app"):
        write_app(tmp_path, FlowerSettings())
    assert "mine" in (tmp_path / "pyproject.toml").read_text()


def sent(content: RecordDict) -> RecordDict:
    """As it comes out of Flower's own encoding."""
    return recorddict_from_proto(recorddict_to_proto(content))


@given(st.dictionaries(st.text(min_size=1).filter(lambda name: name[0] != "$"), st.binary(max_size=50), max_size=4))
def test_whatever_sites_are_called_their_parcels_arrive_under_their_names(notes: dict[str, bytes]) -> None:
    parcels = {name: Parcel(note=data, level=np.arange(3.0)) for name, data in notes.items()}
    packed = {name: parcel.encode() for name, parcel in parcels.items()}
    round, broadcast = read_request(sent(request(4, Broadcast(3, packed))))
    assert broadcast is not None
    assert (round, broadcast.round) == (4, 3)
    assert list(broadcast.content) == sorted(parcels)
    assert {name: broadcast.content[name] for name in broadcast.content} == parcels


def test_one_parcel_for_all_and_nothing_at_all_arrive_too() -> None:
    parcel = Parcel(weights=np.ones((2, 2), np.float32))
    _, broadcast = read_request(sent(request(1, Broadcast(0, parcel.encode(), {"east": "it sent nonsense"}))))
    assert broadcast is not None
    assert broadcast == Broadcast(0, parcel, {"east": "it sent nonsense"})
    assert broadcast.content.nbytes == parcel.nbytes
    assert read_request(sent(request(0, None))) == (0, None)
    assert read_request(sent(request(None, Broadcast(2, {})))) == (None, Broadcast(2, {}))


def test_states_of_any_size_go_through_flowers_records() -> None:
    state = {"w": np.arange(100_000, dtype=np.float64), "model": bytes(range(256)) * 1000, "nested": {"round": 3}}
    found = tree_in(sent(RecordDict({"state": tree_record(state)}))["state"])
    assert np.array_equal(found["w"], state["w"])
    assert (found["model"], found["nested"]) == (state["model"], {"round": 3})


def test_a_reply_comes_back_as_it_was() -> None:
    reply = Reply("north", 10, 20, [(0, 0.5), (1, 0.75)], 1, ["mlp@south"], Parcel(note="x").encode(), {"y": [1]})
    assert Reply.read(sent(reply.content()), tested=True) == reply
    silent = Reply("north", 0, 0, [], None, [], None)
    assert Reply.read(sent(silent.content()), tested=True) == silent


def test_answers_on_test_rows_are_unread_where_nobody_expects_them() -> None:
    content = Reply("north", 0, 0, [], None, [], None, {"y": [0] * 300_000}).content()
    assert Reply.read(sent(content), tested=False).tested is None
    with pytest.raises(ParcelError, match="250000"):
        Reply.read(sent(content), tested=True)


@pytest.mark.parametrize("name", ["", "$blob", "a\nb", "x" * 300])
def test_names_that_would_spoil_files_or_lines_are_refused(name: str) -> None:
    with pytest.raises(ParcelError, match="calls itself"):
        Reply.read(Reply(name, 0, 0, [], None, [], None).content(), tested=False)


def test_scores_that_are_no_numbers_are_refused() -> None:
    content = Reply("north", 0, 0, [], None, [], None).content()
    content["reply"] = tree_record({**tree_in(content["reply"]), "scores": [[0, "nan"]]})
    with pytest.raises(ParcelError, match="not finite"):
        Reply.read(content, tested=False)


def test_a_record_without_a_manifest_is_refused() -> None:
    content = Reply("north", 0, 0, [], None, [], None).content()
    del content["reply"]["manifest"]
    with pytest.raises(ParcelError, match="manifest"):
        Reply.read(content, tested=False)
