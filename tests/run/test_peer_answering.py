"""Answers to new rows: whom they come from, what is odd in the file, and a bundle that is not as it should be."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from peer_sites import CLASSES, FEATURES, TASK, Sites, table

from peerwise.data.task import TaskFeature
from peerwise.errors import ConfigError, PeerwiseError
from peerwise.models import one_thread
from peerwise.models.worker import Worker
from peerwise.parcels import Store
from peerwise.parcels.tree import blob_names, narrowed
from peerwise.run.peer import fit, found, predict, read_bundle


def ward(sites: Sites, frame: pd.DataFrame, name: str = "ward.csv") -> Path:
    frame.to_csv(sites.root / name, index=False)
    return sites.root / name


@pytest.mark.parametrize("method", ["peerwise", "global_ensemble"])
def test_trust_sums_to_one_and_is_the_methods_own(method: str, fitted_sites: Sites, worker: Worker) -> None:
    fitted_sites.change("north", method=method)
    fit(fitted_sites["north"], worker, use_peers=True)
    said = predict(fitted_sites["north"], fitted_sites.root / "south.csv", worker, explain=5)
    assert len(said.trust) == len(said.notes) == 5
    kind, site = read_bundle(fitted_sites["north"], worker)
    X = table("south")[list(FEATURES)].to_numpy(np.float32)[:5]
    with one_thread():
        details = kind.predict_with_details(site, X)[1]
    for row, trust in enumerate(said.trust):
        assert sum(trust.values()) == pytest.approx(1)
        assert set(trust) == {"north", "south", "east"}
        for name, weight in zip(details["models"], details["trust"][row], strict=True):
            assert trust[name.partition("@")[2]] == pytest.approx(float(weight)), "each site has one model here"
        assert list(trust.values()) == sorted(trust.values(), reverse=True)


def test_explaining_more_rows_than_there_are_explains_all(fitted_sites: Sites, worker: Worker) -> None:
    file = ward(fitted_sites, table("south")[:4])
    assert len(predict(fitted_sites["north"], file, worker, explain=50).trust) == 4
    assert predict(fitted_sites["north"], file, worker).trust == []


def test_explaining_changes_no_answer(fitted_sites: Sites, worker: Worker) -> None:
    file = fitted_sites.root / "south.csv"
    plain = predict(fitted_sites["north"], file, worker).probabilities
    assert np.array_equal(plain, predict(fitted_sites["north"], file, worker, explain=3).probabilities)
    assert plain.sum(axis=1) == pytest.approx(1)


def test_a_row_is_answered_alike_whatever_rows_are_beside_it(fitted_sites: Sites, worker: Worker) -> None:
    rows = table("south")
    whole = predict(fitted_sites["north"], ward(fitted_sites, rows), worker).probabilities
    alone = [predict(fitted_sites["north"], ward(fitted_sites, rows[k : k + 1]), worker).probabilities for k in (0, 7)]
    assert np.allclose(np.concatenate(alone), whole[[0, 7]], atol=1e-6)


def test_the_target_and_other_columns_in_the_file_are_not_needed(fitted_sites: Sites, worker: Worker) -> None:
    rows = table("south")
    bare = predict(fitted_sites["north"], ward(fitted_sites, rows[list(FEATURES)]), worker)
    mixed = rows[list(FEATURES)[::-1]].assign(ward="B3", outcome="not known yet")
    full = predict(fitted_sites["north"], ward(fitted_sites, mixed), worker)
    assert np.array_equal(bare.probabilities, full.probabilities), "columns are found by name"
    assert bare.reading == []
    assert "'ward'" in " ".join(full.reading)


def test_a_value_that_nobody_knows_is_taken_as_missing_and_told(fitted_sites: Sites, worker: Worker) -> None:
    rows = table("south").astype({"age": object})
    rows.loc[2, "age"] = "old"
    gap = rows.copy()
    gap.loc[2, "age"] = ""
    odd = predict(fitted_sites["north"], ward(fitted_sites, rows), worker)
    assert "'old' (1 row" in " ".join(odd.reading)
    assert np.array_equal(
        odd.probabilities, predict(fitted_sites["north"], ward(fitted_sites, gap), worker).probabilities
    )


def test_values_far_out_of_range_are_told(fitted_sites: Sites, worker: Worker) -> None:
    said = predict(fitted_sites["north"], ward(fitted_sites, table("south").assign(age=4000.0)), worker)
    assert "another unit" in " ".join(said.reading)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty|no columns|cannot"),
        ("age,pressure,sugar,site\n", "no rows"),
        ("age,pressure,sugar\n1,2,3\n", "'site' is not there"),
        ("age;pressure;sugar;site\n1;2;3;4\n", "separated by ';'"),
        ("\x00\x01\x02", "expected|cannot|not there"),
    ],
)
def test_a_file_that_cannot_be_answered_says_why(text: str, says: str, fitted_sites: Sites, worker: Worker) -> None:
    (fitted_sites.root / "ward.csv").write_text(text)
    with pytest.raises(PeerwiseError, match=says):
        predict(fitted_sites["north"], fitted_sites.root / "ward.csv", worker)


def test_a_file_that_is_not_there_says_so(fitted_sites: Sites, worker: Worker) -> None:
    with pytest.raises(PeerwiseError, match=r"nowhere\.csv"):
        predict(fitted_sites["north"], fitted_sites.root / "nowhere.csv", worker)


def test_a_site_that_was_never_fitted_says_what_to_run(published_sites: Sites, worker: Worker) -> None:
    with pytest.raises(ConfigError, match="Run 'peerwise fit' first"):
        predict(published_sites["north"], published_sites.root / "south.csv", worker)


def test_a_damaged_bundle_is_refused_and_can_be_made_again(fitted_sites: Sites, worker: Worker) -> None:
    peer, file = fitted_sites["north"], fitted_sites.root / "south.csv"
    whole = predict(peer, file, worker).probabilities
    bundle = fitted_sites.root / "north" / "bundle"
    needed = blob_names(narrowed((bundle / "bundle.json").read_bytes(), "state"))
    for blob in (bundle / "blobs" / name for name in needed):
        data = blob.read_bytes()
        blob.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(PeerwiseError):
            predict(peer, file, worker)
        blob.write_bytes(data)
    blob.unlink()
    with pytest.raises(PeerwiseError):
        predict(peer, file, worker)
    fit(peer, worker, use_peers=True)
    assert np.array_equal(predict(peer, file, worker).probabilities, whole)


@pytest.mark.parametrize("text", ["", "{}", "[]", "no json"])
def test_a_bundle_that_is_none_is_refused_in_a_sentence(text: str, fitted_sites: Sites, worker: Worker) -> None:
    (fitted_sites.root / "north" / "bundle" / "bundle.json").write_text(text)
    with pytest.raises(PeerwiseError, match=r"\.|:"):
        predict(fitted_sites["north"], fitted_sites.root / "south.csv", worker)


@pytest.mark.parametrize(
    ("change", "says"), [({"format": 2}, "format 2: expected 3"), ({"task": "0" * 64}, "another task")]
)
def test_a_bundle_of_another_format_or_task_is_refused(
    change: dict[str, object], says: str, fitted_sites: Sites, worker: Worker
) -> None:
    store = Store(fitted_sites.root / "north" / "bundle")
    tree = store.load("bundle")
    store.save("bundle", {**tree, "about": {**tree["about"], **change}})
    with pytest.raises(PeerwiseError, match=says):
        predict(fitted_sites["north"], fitted_sites.root / "south.csv", worker)


def test_no_row_of_the_site_is_in_its_bundle(fitted_sites: Sites) -> None:
    """Competence methods keep their train rows as others' models see them, never the rows themselves."""
    site = fitted_sites["north"].site()
    for path in (fitted_sites.root / "north" / "bundle").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert not any(row.tobytes() in data for row in np.asarray(site.train.X))


def test_answers_stay_when_everything_but_the_folder_is_gone(fitted_sites: Sites, worker: Worker) -> None:
    sites = fitted_sites
    file = ward(sites, table("south"), "kept.csv")
    before = predict(sites["north"], file, worker).probabilities
    for gone in ("meeting", "south", "east"):
        shutil.rmtree(sites.root / gone)
    for gone in ("north.csv", "north/roster.json", "north/keys/identity.key"):
        (sites.root / gone).unlink()
    for gone in ("peers", "seen", "work"):
        shutil.rmtree(sites.root / "north" / gone)
    assert np.array_equal(predict(sites["north"], file, worker).probabilities, before)


def test_local_names_and_codes_are_read_as_the_task_has_them(tmp_path: Path, worker: Worker) -> None:
    features = (*TASK.features, TaskFeature("sex", "category", values=("female", "male")))
    task = replace(TASK, features=features)
    rows = table("north").assign(sex=["female", "male"] * 45)
    rows.to_csv(tmp_path / "plain.csv", index=False)
    local = rows.rename(columns={"age": "alter"}).assign(sex=["w", "m"] * 45)
    local.to_csv(tmp_path / "local.csv", index=False)
    found_ = {}
    for name, more in (
        ("plain", {}),
        ("local", {"columns": {"age": "alter"}, "codes": {"sex": {"w": "female", "m": "male"}}}),
    ):
        settings = {"models": ["logistic"], "method": "knorae", "data": f"../{name}.csv", "name": "north", **more}
        found(tmp_path / name, {**settings, "meeting": {"folder": str(tmp_path / "meeting")}}, task)
        peer = Sites(tmp_path, (name,))[name]
        fit(peer, worker, use_peers=True)
        found_[name] = predict(peer, tmp_path / f"{name}.csv", worker).probabilities
    assert np.array_equal(found_["plain"], found_["local"])
    assert found_["plain"].shape == (90, len(CLASSES))
