"""Sites with public rows, images and sequences, by command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from peer_windows import hospital_tables, peerwise, refused, right

SHAPES = {"image": "x = [1, 28, 28]", "sequence": "static = [2]\nseries = [12, 3]"}
MODELS = {"image": "small_cnn", "sequence": "cnn1d"}


def arrays(kind: str, place: Path) -> Path:
    """Two classes that anything can tell apart."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    names = np.array(["clear", "ill"])[y]
    if kind == "image":
        X = rng.integers(0, 80, (60, 1, 28, 28)) + 100 * y[:, None, None, None]
        np.savez(place, X=X.astype(np.uint8), y=names)
    else:
        series = rng.normal(size=(60, 12, 3)) + 2 * y[:, None, None]
        np.savez(place, static=rng.normal(size=(60, 2)).astype(np.float32), series=series.astype(np.float32), y=names)
    return place


def task(kind: str, place: Path) -> Path:
    place.write_text(
        f'format = 1\nname = "findings"\nkind = "{kind}"\nclasses = ["clear", "ill"]\npositive = "ill"\n'
        f'target = "finding"\nmetric = "auroc"\n\n[shape]\n{SHAPES[kind]}\n'
    )
    return place


@pytest.mark.parametrize("kind", SHAPES)
def test_arrays_with_a_task_of_their_own_are_trained_on_and_answered(kind: str, tmp_path: Path) -> None:
    rows, agreed, site = arrays(kind, tmp_path / "rows.npz"), task(kind, tmp_path / "task.toml"), tmp_path / "north"
    meet = ("--meet", tmp_path / "shared", "--models", MODELS[kind])
    assert "expected --task FILE.toml" in refused("init", site, "--data", rows, "--target", "finding", *meet)
    right("init", site, "--data", rows, "--task", agreed, *meet)
    assert "ok       rows" in peerwise("doctor", "--folder", site).out
    assert MODELS[kind] in right("train", "--folder", site).out
    right("fit", "--folder", site)
    said = right("predict", rows, "--explain", "2", "--folder", site, "--format", "json").told
    assert len(said["rows"]) == 60
    assert said["rows"][0]["trust"] == {"north": 1.0}


def test_a_table_in_the_place_of_arrays_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    agreed = task("image", tmp_path / "task.toml")
    right("init", tmp_path / "north", "--data", tmp_path / "rows.csv", "--task", agreed, "--meet", tmp_path / "shared")
    line = refused("train", "--folder", tmp_path / "north")
    assert "rows.csv is no .npz file: expected one, because the task has image rows" in line


def test_public_rows_are_part_of_the_task_and_every_site_names_its_copy(tmp_path: Path) -> None:
    tables = hospital_tables(tmp_path / "rows")
    public = tmp_path / "public.csv"
    pd.read_csv(tables["long_beach"]).drop(columns="diagnosis").head(60).to_csv(public, index=False)
    method = ("--method", "fedmosaic", "--models", "mlp")
    north, meet = tmp_path / "north", ("--target", "diagnosis", "--meet", tmp_path / "shared")
    told = right("init", north, "--data", tables["cleveland"], *meet, "--public", public, *method, "--format", "json")
    assert "publishes nothing beforehand: run 'peerwise fit'" in refused("publish", "--folder", north)
    joining = ("--data", tables["hungarian"], "--invite", north / "invite.json", *method)
    joining = (*joining, "--fingerprint", told.told["fingerprint"])
    right("init", tmp_path / "without", *joining)
    assert "the task has public rows 'public': expected" in refused("train", "--folder", tmp_path / "without")
    right("init", tmp_path / "with", *joining, "--public", public)
    assert "ok       rows" in peerwise("doctor", "--folder", tmp_path / "with").out
    public.write_text(public.read_text().replace("male", "female", 1))
    assert "public" in refused("train", "--folder", tmp_path / "with")
