"""What a newcomer does wrong with the commands of a site: each mistake is told in a line that says what to do."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from peer_windows import found, hospital_tables, join, peerwise, refused, right

from packages import installed

OF_A_FOLDER = ("doctor", "train", "preview", "publish", "live", "pull", "review", "fit", "status")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return hospital_tables(tmp_path_factory.mktemp("rows"))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, tables: dict[str, Path]) -> Path:
    """A founder and a member who have done nothing yet."""
    root = tmp_path_factory.mktemp("pair")
    fingerprint = found(root / "north", tables["cleveland"], root / "shared")
    join(root / "south", tables["hungarian"], root / "north", fingerprint)
    return root


@pytest.mark.parametrize("verb", OF_A_FOLDER)
def test_a_folder_that_is_no_site_is_told_as_such_and_stays_as_it_is(verb: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for folder in (tmp_path, tmp_path / "nowhere", tmp_path / "notes.txt"):
        line = refused(verb, "--folder", folder)
        assert "expected the folder of a site. Make one with 'peerwise init FOLDER', or name it with --folder" in line
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


FOUND = "--data ROWS --target diagnosis"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--data nope.csv --target diagnosis --meet m", "nope.csv is not there: expected"),
        (FOUND, "neither --meet nor --listen is given"),
        ("--data ROWS --meet m", "neither --task nor --target is given"),
        ("--data ROWS --target diag --meet m", "did you mean 'diagnosis'?"),
        (f"{FOUND} --meet m --positive ill", "Choices: disease, healthy."),
        (f"{FOUND} --meet m --metric acc", "Choices: accuracy, auprc"),
        (f"{FOUND} --meet m --models fores", "did you mean 'forest'?"),
        (f"{FOUND} --meet m --models resnet18", "takes image rows"),
        (f"{FOUND} --meet m --method fedes", "did you mean 'feddes'?"),
        (f"{FOUND} --meet m --set meeting.transport=pigeon", "meeting: unknown transport 'pigeon'"),
        (f"{FOUND} --meet m --set name.first=x", "name is {'first': 'x'}: expected text"),
        (f"{FOUND} --meet m --set ask=sometimes", "expected 'first' or 'always' or 'never'"),
        (f"{FOUND} --meet m --set aks=always", "did you mean 'ask'?"),
        (f"{FOUND} --meet m --set ask", "expected KEY=VALUE"),
        (f"{FOUND} --meet m --column =x", "expected KEY=VALUE"),
        (f"{FOUND} --meet m --listen host:1", "expected one of them"),
        (f"{FOUND} --listen localhost", "expected HOST:PORT"),
        (f"{FOUND} --meet bogus://x", "expected a path or an fsspec URL"),
        (f"{FOUND} --meet m --name a/b", "Choose another name"),
        (f"{FOUND} --meet m --public p.csv", "p.csv is not there"),
        (f"{FOUND} --meet m --fingerprint AB", "whom --invite names"),
        (f"{FOUND} --meet m --task t.toml", "--target is settled by --task"),
        ("--data ROWS --task t.toml --meet m", "t.toml cannot be read"),
        (f"{FOUND} --invite i.json", "--target is settled by --invite"),
        ("--data ROWS --invite i.json --fingerprint AB", "i.json cannot be read"),
    ],
)
def test_init_refuses_what_cannot_be_meant(
    arguments: str, says: str, tables: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [str(tables["cleveland"]) if part == "ROWS" else part for part in arguments.split()]
    assert says in refused("init", "site", *given)
    assert not (tmp_path / "site" / "peerwise.toml").exists()


def test_a_founder_meets_by_the_transport_of_a_package(
    tables: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = {"peerwise.transports": {"acme_wire": "acme:Wire"}}
    monkeypatch.syspath_prepend(str(installed(tmp_path / "package", entries)))
    rows, wire = tables["cleveland"], ("--meet", "acme-7", "--set", "meeting.transport=acme_wire")
    right("init", tmp_path / "north", "--data", rows, "--target", "diagnosis", *wire)
    meeting = tomllib.loads((tmp_path / "north" / "peerwise.toml").read_text())["meeting"]
    assert (meeting["folder"], meeting["transport"]) == ("acme-7", "acme_wire")


def test_a_fingerprint_that_is_missing_or_wrong_stops_both_sides(pair: Path, tables: dict[str, Path]) -> None:
    invite, rows = pair / "north" / "invite.json", tables["long_beach"]
    for given in ((), ("--fingerprint", "AAAA-BBBB")):
        line = refused("init", pair / "late", "--data", rows, "--invite", invite, *given)
        assert "Ask that site for its fingerprint over the telephone" in line
        line = refused("admit", pair / "south" / "request.json", *given, "--folder", pair / "north")
        assert "Ask that site for its fingerprint over the telephone" in line
    assert not (pair / "late").exists()


def test_letters_for_somebody_else_are_told_by_name(pair: Path, tables: dict[str, Path]) -> None:
    north, south = pair / "north", pair / "south"
    line = refused("init", pair / "x", "--data", tables["long_beach"], "--invite", north / "task.toml")
    assert "task.toml is not the invite.json of a founder" in line
    line = refused("admit", south / "request.json", "--folder", south)
    assert "asks to join: expected the founder's welcome, as 'south' is not the founder. Send it to 'north'" in line
    assert "is not a welcome by the founder 'north'" in refused("admit", north / "roster.json", "--folder", south)
    assert "is neither the request.json" in refused("admit", north / "invite.json", "--folder", north)
    assert "'south' is not the founder: expected 'north'" in refused("admit", "--renew", "--folder", south)
    assert "expected one of a file, --revoke SITE, --renew and --rotate" in refused("admit", "--folder", north)
    assert "the reason is empty: expected --why" in refused("admit", "--revoke", "south", "--folder", north)
    assert "a site's folder already" in refused(
        "init", north, "--data", tables["cleveland"], "--target", "diagnosis", "--meet", pair / "m"
    )


def test_commands_in_an_odd_order_say_what_comes_first(pair: Path, tables: dict[str, Path]) -> None:
    north, ward = pair / "north", tables["switzerland"]
    assert "Run 'peerwise fit' first" in refused("predict", ward, "--folder", north)
    assert "run 'peerwise pull' first" in refused("accept", "south", "--why", "x", "--folder", north)
    assert "run 'peerwise pull' first" in refused("review", "south", "--folder", north)
    assert "nothing to withdraw" in refused("withdraw", "--why", "x", "--folder", north)
    assert "the reason is empty: expected --why" in refused("withdraw", "--folder", north)
    assert "the reason is empty: expected --why" in refused("accept", "south", "--folder", north)
    assert "expected one as 'peerwise review' shows it" in refused(
        "accept", "south", "--version", "last", "--why", "x", "--folder", north
    )
    assert "nothing has arrived: run 'peerwise pull'" in right("review", "--folder", north).out
    assert "it has published nothing" in right("pull", "--folder", north).out
    assert "run 'peerwise pull'" in refused("live", "--folder", north)
    assert "the own models answer" in right("fit", "--folder", north).out
    assert right("predict", ward, "--folder", north, "--explain", "1").out.splitlines()[1].endswith("own 1.00")


def test_a_site_that_is_not_admitted_yet_trains_and_is_told_what_to_wait_for(
    tables: dict[str, Path], tmp_path: Path
) -> None:
    fingerprint = found(tmp_path / "north", tables["cleveland"], tmp_path / "shared")
    invite = ("--invite", tmp_path / "north" / "invite.json", "--fingerprint", fingerprint, "--models", "logistic")
    said = right("init", tmp_path / "south", "--data", tables["hungarian"], *invite).out
    assert "peerwise admit WELCOME" in said
    right("train", "--folder", tmp_path / "south")
    for verb in ("publish", "pull", "preview"):
        assert "expected the founder's welcome" in refused(verb, "--folder", tmp_path / "south")
    done = peerwise("doctor", "--folder", tmp_path / "south")
    assert done.code == 2
    assert "problem  members" in done.out
    assert "founder's welcome" in right("status", "--folder", tmp_path / "south").out


def test_a_table_with_other_names_and_codes_is_told_and_mapped(tables: dict[str, Path], tmp_path: Path) -> None:
    north = tmp_path / "north"
    fingerprint = found(north, tables["cleveland"], tmp_path / "shared")
    rows = pd.read_csv(tables["hungarian"]).rename(columns={"chol": "Cholesterin"})
    rows["sex"] = rows["sex"].map({"male": "M", "female": "W"})
    rows.to_csv(tmp_path / "other.csv", index=False)
    join(tmp_path / "wrong", tmp_path / "other.csv", north, fingerprint)
    line = refused("train", "--folder", tmp_path / "wrong")
    assert "column 'chol' is not there. Give its local name" in line
    assert "'M' (213 rows), 'W' (81 rows): expected 'female', 'male'" in line
    assert peerwise("doctor", "--folder", tmp_path / "wrong").out.count("problem  rows") == 2
    codes = 'codes={"sex":{"M":"male","W":"female"}}'
    join(tmp_path / "right", tmp_path / "other.csv", north, fingerprint, "--column", "chol=Cholesterin", "--set", codes)
    assert "176 train" in right("train", "--folder", tmp_path / "right").out
    right("fit", "--folder", tmp_path / "right")
    said = right("predict", tmp_path / "other.csv", "--folder", tmp_path / "right", "--format", "json").told
    assert len(said["rows"]) == len(rows)
    shutil.copy(tables["hungarian"], tmp_path / "plain.csv")
    assert "column 'Cholesterin'" in refused("predict", tmp_path / "plain.csv", "--folder", tmp_path / "right")


def test_files_to_answer_that_are_none(tables: dict[str, Path], tmp_path: Path) -> None:
    north = tmp_path / "north"
    found(north, tables["cleveland"], tmp_path / "shared")
    right("fit", "--folder", north)
    head = tables["switzerland"].read_text().splitlines()[0]
    (tmp_path / "rows.csv").write_text(head + "\n")
    (tmp_path / "nothing.csv").write_text("")
    np.savez(tmp_path / "arrays.npz", X=np.zeros(3))
    pd.read_csv(tables["switzerland"]).drop(columns="age").to_csv(tmp_path / "without.csv", index=False)
    for name, says in {
        "rows.csv": "has no rows",
        "nothing.csv": "cannot be read as a table",
        "arrays.npz": "cannot be read as a table",
        "without.csv": "column 'age' is not there",
        "nowhere.csv": "nowhere.csv is not there",
    }.items():
        assert says in refused("predict", tmp_path / name, "--folder", north)
    ward = tables["switzerland"]
    assert "--explain is -1: expected" in refused("predict", ward, "--explain", "-1", "--folder", north)
    (tmp_path / "folder").mkdir()
    assert "cannot be written" in refused("predict", ward, "--out", tmp_path / "folder", "--folder", north)


@pytest.mark.parametrize("arguments", [["accept"], ["predict"], ["init", "x"], ["live", "--every", "x"], ["pul"]])
def test_wrong_arguments_exit_with_2_and_a_short_usage(arguments: list[str]) -> None:
    done = peerwise(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("usage: peerwise")
    assert len(done.err.splitlines()) <= 6
