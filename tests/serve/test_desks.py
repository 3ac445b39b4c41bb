"""What a bundle answers when it is opened for a service: the same as the commands, whatever happens to its workers."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

sys.path.append(str(Path(__file__).parents[1] / "run"))
from peer_sites import Sites, copied, fitted_by, formed, mislabeled, table

from peerwise import PeerwiseClassifier, Pool, wrap
from peerwise.data import Site
from peerwise.data.task import read_inputs
from peerwise.errors import PeerwiseError
from peerwise.models.worker import Worker
from peerwise.parcels import Store, pack
from peerwise.run.peer import fit, predict
from peerwise.run.peer.folder import PeerFolder
from peerwise.serve.answering import explained, predicted
from peerwise.serve.opening import open_desk
from peerwise.serve.reading import Asked
from peerwise.trust import BestSingle
from peerwise.trust.prediction_sets import PredictionSets


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as process:
        yield process


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory, worker: Worker) -> Sites:
    return fitted_by("peerwise", tmp_path_factory.mktemp("fitted"), worker)


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ward") / "ward.csv"
    table("west", 40).to_csv(path, index=False)
    return path


def rows_of(sites: Sites, file: Path) -> np.ndarray:
    return np.asarray(read_inputs(sites["north"].task, file).X)


@pytest.mark.parametrize("method", ["peerwise", "knorae", "stacking"])
def test_a_sites_desk_answers_as_predict_does(tmp_path: Path, ward: Path, worker: Worker, method: str) -> None:
    sites = fitted_by(method, tmp_path, worker)
    expected = predict(sites["north"], ward, worker, explain=5)
    desk = open_desk(tmp_path / "north")
    try:
        served = desk.answer(rows_of(sites, ward))
        np.testing.assert_allclose(served.probabilities, expected.probabilities, atol=1e-9)
        np.testing.assert_array_equal(served.answers, expected.answers)
        assert served.trust is not None
        homes = [model.site for model in desk.about.models]
        for row, trust in enumerate(expected.trust):
            found = {home: served.trust[row, [h == home for h in homes]].sum() for home in set(homes)}
            assert {home: pytest.approx(value, abs=1e-6) for home, value in trust.items()} == found
        assert {model.site for model in desk.about.models} == {"north", "south", "east"}
        assert all(bool(model.version) != model.own for model in desk.about.models)
    finally:
        desk.close()


def test_a_rule_for_balanced_accuracy_holds_in_the_service_as_in_predict(tmp_path: Path, worker: Worker) -> None:
    """The task's metric is balanced accuracy, and one class is rare at this site."""
    sites, file = formed(tmp_path, method="peerwise"), tmp_path / "north.csv"
    rows = table("north", 600)
    rare = rows["outcome"].eq("unclear") & (rows.index % 12 != 2)
    rows[~rare].to_csv(file, index=False)
    fit(sites["north"], worker, use_peers=True)
    expected = predict(sites["north"], file, worker, level=0.6)
    assert (expected.answers != expected.probabilities.argmax(axis=1)).any(), "else the rule would not show"
    desk = open_desk(tmp_path / "north")
    try:
        told = predicted(desk, Asked(rows_of(sites, file), 0.6, False, ()))
        for row, answer in zip(expected.rows(), told["answers"], strict=True):
            assert (answer["answer"], answer["unsure"], answer["set"]) == (row["answer"], row["unsure"], row["set"])
            assert answer["answer"] in answer["set"]
    finally:
        desk.close()


def test_own_models_that_did_better_are_served_and_named(tmp_path: Path, ward: Path, worker: Worker) -> None:
    sites = mislabeled(formed(tmp_path, method="global_ensemble", ask="never"), "south", "east")
    for name in ("south", "east"):
        sites.publish(name)
    sites.pull("north", worker)
    assert fit(sites["north"], worker)["own_models_answer"]
    expected = predict(sites["north"], ward, worker)
    desk = open_desk(tmp_path / "north")
    try:
        assert desk.about.own_models_answer
        assert {model.site for model in desk.about.models} == {"north"}
        np.testing.assert_allclose(desk.answer(rows_of(sites, ward)).probabilities, expected.probabilities, atol=1e-9)
    finally:
        desk.close()


def test_the_bundles_folder_is_as_good_as_the_sites(fitted: Sites) -> None:
    for path in (fitted.root / "north", fitted.root / "north" / "bundle"):
        desk = open_desk(path)
        assert desk.about.site == "north"
        desk.close()


def test_how_sure_an_answer_is_comes_from_the_test_rows_alone(fitted: Sites) -> None:
    desk = open_desk(fitted.root / "north")
    try:
        site = fitted["north"].site()
        assert desk.about.calibration_rows == len(site.test)
        served = desk.answer(site.test.X)
        scores = np.sort(1 - served.probabilities[np.arange(len(site.test)), site.test.y])
        cut = scores[int(np.ceil((len(scores) + 1) * 0.8)) - 1]
        found = desk.sets()(served.probabilities, 0.8)
        likeliest = np.eye(3, dtype=bool)[served.probabilities.argmax(axis=1)]
        np.testing.assert_array_equal(found, (1 - served.probabilities <= cut) | likeliest)
    finally:
        desk.close()


def test_a_killed_worker_costs_nothing_but_time(fitted: Sites, ward: Path) -> None:
    desk = open_desk(fitted.root / "north")
    try:
        X = rows_of(fitted, ward)
        before = desk.answer(X)
        pid = desk._worker.pid  # type: ignore[attr-defined]
        os.kill(pid, signal.SIGKILL)
        after = desk.answer(X)
        np.testing.assert_array_equal(before.probabilities, after.probabilities)
        assert not after.failed
    finally:
        desk.close()


def test_a_bundle_that_is_replaced_meanwhile_does_not_disturb_an_open_desk(
    fitted: Sites, tmp_path: Path, ward: Path, worker: Worker
) -> None:
    sites = copied(fitted, tmp_path)
    desk = open_desk(tmp_path / "north")
    try:
        before = desk.answer(rows_of(sites, ward)).probabilities
        sites.change("north", method="best_single")
        fit(sites["north"], worker, use_peers=True)
        os.kill(desk._worker.pid, signal.SIGKILL)  # type: ignore[attr-defined]
        np.testing.assert_array_equal(desk.answer(rows_of(sites, ward)).probabilities, before)
    finally:
        desk.close()


def test_one_case_is_opened_with_its_nearest_known_cases(fitted: Sites, ward: Path) -> None:
    desk = open_desk(fitted.root / "north")
    try:
        found = desk.explain(rows_of(fitted, ward)[:1])
        assert found is not None
        assert {model["name"] for model in found["models"]} == {model.name for model in desk.about.models}
        assert sum(model["trust"] for model in found["models"]) == pytest.approx(1)
        site = fitted["north"].site()
        for near in found["neighbours"]:
            part = site.train if near["part"] == "train" else site.val
            row = near["row"] - (0 if near["part"] == "train" else len(site.train))
            assert near["label"] == site.classes[part.y[row]]
            assert list(near["values"].values()) == pytest.approx(np.asarray(part.X)[row].tolist(), rel=1e-6)
    finally:
        desk.close()


def test_validation_cases_can_be_asked_again_until_the_rows_change(fitted: Sites, tmp_path: Path) -> None:
    sites = copied(fitted, tmp_path)
    desk, site = open_desk(tmp_path / "north"), sites["north"].site()
    cases = desk.cases()
    assert [case["label"] for case in cases] == [site.classes[code] for code in site.val.y]
    sent = np.array([list(case["row"].values()) for case in cases], np.float32)
    np.testing.assert_allclose(sent, site.val.X, rtol=1e-6)
    desk.close()
    table("north", seed=5).to_csv(tmp_path / "north.csv", index=False)
    other = open_desk(tmp_path / "north")
    assert other.cases() == []
    other.close()


def test_every_site_of_the_bundle_has_a_line_with_its_card(fitted: Sites) -> None:
    desk = open_desk(fitted.root / "north")
    try:
        lines = desk.peers()
        assert [line["site"] for line in lines] == ["north", "east", "south"]
        assert [line["own"] for line in lines] == [True, False, False]
        assert lines[1]["card"]["task"]["name"] == "ward"
        assert lines[1]["created"] < lines[1]["expires"]
        assert sum(line["contribution"] for line in lines) == pytest.approx(1)
        assert all(0 <= line["agreement"] <= 1 and 0 <= line["accuracy"] <= 1 for line in lines)
        assert lines[0]["right_where_own_fails"] == 0  # it has one own model, which is the own model
    finally:
        desk.close()


def cancer() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_breast_cancer(return_X_y=True)
    return X.astype(np.float32), y


def models(X: object, y: np.ndarray) -> dict[str, object]:
    return {
        "mine": make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(X[200:300], y[200:300]),  # type: ignore[index]
        "forest": RandomForestClassifier(20, random_state=0).fit(X[300:], y[300:]),  # type: ignore[index]
    }


@pytest.mark.parametrize("kind", [PeerwiseClassifier, BestSingle])
def test_a_saved_learner_answers_as_it_did(tmp_path: Path, kind: type) -> None:
    X, y = cancer()
    learner = kind(Pool(models(X, y)), own=["mine"]).fit(X[:100], y[:100])
    learner.save(tmp_path, calibration=(X[100:200], y[100:200]))
    desk = open_desk(tmp_path)
    try:
        served = desk.answer(X[100:200])
        np.testing.assert_allclose(served.probabilities, learner.predict_proba(X[100:200]), atol=1e-4)
        assert desk.about.calibration_rows == 100
        assert [model.own for model in desk.about.models] == [True, False]
        assert desk.about.sets == "marginal"
        found = desk.sets()(served.probabilities, 0.9)
        assert found[np.arange(100), y[100:200]].mean() >= 0.9
    finally:
        desk.close()


def test_a_saved_learner_tells_who_pulled_its_answer_by_site(tmp_path: Path) -> None:
    X, y = cancer()
    named = dict(zip(("mine@north", "forest@south"), models(X, y).values(), strict=True))
    learner = PeerwiseClassifier(Pool(named), own=["mine@north"]).fit(X[:100], y[:100])
    learner.save(tmp_path)
    desk = open_desk(tmp_path)
    try:
        assert [(model.site, model.own) for model in desk.about.models] == [("north", True), ("south", False)]
        expected = dict(zip(learner.sites_, learner.influence(X[100:101])[0], strict=True))
        told = explained(desk, Asked(X[100:101], 0.9, False, ()))["explanation"]["evidence"]
        assert {line["site"]: pytest.approx(line["influence"], abs=1e-4) for line in told} == expected
    finally:
        desk.close()


def test_a_saved_learner_is_as_sure_for_each_class_where_that_was_asked_for(tmp_path: Path) -> None:
    X, y = cancer()
    learner = PeerwiseClassifier(Pool(models(X, y)), own=["mine"]).fit(X[:100], y[:100])
    learner.save(tmp_path, calibration=(X[100:200], y[100:200]), by_class=True)
    desk = open_desk(tmp_path)
    try:
        assert desk.about.sets == "by-class"
        expected = PredictionSets.fit(learner.predict_proba(X[100:200]), y[100:200], by_class=True)
        np.testing.assert_allclose(desk.sets().limits(0.9), expected.limits(0.9), atol=1e-4)
    finally:
        desk.close()


def test_a_site_that_chose_sets_by_class_is_served_with_them(fitted: Sites, worker: Worker, tmp_path: Path) -> None:
    sites = copied(fitted, tmp_path / "other")
    sites.change("north", sets="by-class")
    fit(sites["north"], worker, use_peers=True)
    desk = open_desk(sites.root / "north")
    try:
        assert desk.about.sets == "by-class"
        assert desk.sets().by_class
        assert desk.sets(frugal=True).by_class
    finally:
        desk.close()


def test_a_learner_fitted_to_a_data_frame_is_asked_by_its_columns(tmp_path: Path) -> None:
    X, y = cancer()
    frame = pd.DataFrame(X[:, :4], columns=["radius", "texture", "perimeter", "area"]).astype(np.float32)
    learner = PeerwiseClassifier(Pool(models(frame, y)), own=["mine"]).fit(frame[:100], y[:100])
    learner.save(tmp_path)
    desk = open_desk(tmp_path)
    try:
        assert [feature.name for feature in desk.about.features] == list(frame.columns)
        served = desk.answer(frame[100:150].to_numpy())
        np.testing.assert_allclose(served.probabilities, learner.predict_proba(frame[100:150]), atol=1e-4)
        assert desk.sets()(served.probabilities, 0.9).all(), "nothing was left to calibrate on"
    finally:
        desk.close()


def test_text_reaches_own_models_and_is_refused_where_others_would_never_answer(tmp_path: Path) -> None:
    X, y = cancer()
    frame = pd.DataFrame({"radius": X[:, 0], "size": np.where(X[:, 3] > 600, "large", "small")})
    columns = make_column_transformer((OneHotEncoder(), ["size"]), remainder="passthrough")
    model = make_pipeline(columns, LogisticRegression()).fit(frame, y)
    for own in (["mine"], []):
        learner = PeerwiseClassifier(Pool({"mine": model}), own=own, features="decision")
        learner.fit(frame[:200], y[:200]).save(tmp_path / f"own-{len(own)}")
    desk = open_desk(tmp_path / "own-1")
    try:
        assert [feature.values for feature in desk.about.features] == [(), ("large", "small")]
        sent = np.stack([X[200:230, 0], (X[200:230, 3] <= 600)], axis=1)
        served = desk.answer(sent.astype(np.float32))
        np.testing.assert_array_equal(served.probabilities.argmax(axis=1), learner.predict(frame[200:230]))
    finally:
        desk.close()
    with pytest.raises(PeerwiseError, match=r"column 'size' holds text, and models that are not own ones"):
        open_desk(tmp_path / "own-0")


def test_what_cannot_be_served_is_told(tmp_path: Path, fitted: Sites) -> None:
    with pytest.raises(PeerwiseError, match="holds no bundle: expected a site's folder after 'peerwise fit'"):
        open_desk(tmp_path)
    with pytest.raises(PeerwiseError, match="has no bundle"):
        open_desk(fitted.root / "south")
    X, y = cancer()
    pixels = X[:60, :16].reshape(60, 1, 4, 4)
    scaled = wrap(lambda rows: np.full((len(rows), 2), 0.5), name="scaled", classes=[0, 1])
    with pytest.warns(UserWarning, match="saved by name only"):
        PeerwiseClassifier(Pool([scaled])).fit(pixels, y[:60]).save(tmp_path / "scaled")
    with pytest.raises(PeerwiseError, match=r"type float32: expected a table, or images of uint8"):
        open_desk(tmp_path / "scaled")
    with pytest.warns(UserWarning, match="saved by name only"):
        PeerwiseClassifier(Pool([scaled])).fit(X[:60], y[:60]).save(tmp_path / "code")
    with pytest.raises(PeerwiseError, match=r"model 'scaled' could not be exported"):
        open_desk(tmp_path / "code")


def test_nothing_but_the_prediction_sets_learns_from_a_sites_test_rows(
    fitted: Sites, worker: Worker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sites = copied(fitted, tmp_path / "other")
    before = Store(sites.root / "north" / "bundle").load("bundle")
    real = PeerFolder.site

    def other_test_rows(peer: PeerFolder) -> Site:
        site = real(peer)
        assert len(site.test)
        return site.replace(test=replace(site.test, X=site.test.X[::-1] + 1, y=1 - site.test.y))

    monkeypatch.setattr(PeerFolder, "site", other_test_rows)
    shutil.rmtree(sites.root / "north" / "work")  # the own models are trained again
    fit(sites["north"], worker, use_peers=True)
    after = Store(sites.root / "north" / "bundle").load("bundle")
    assert not np.array_equal(*(tree["assurance"]["sets"]["probabilities"] for tree in (after, before)))
    for tree in (before, after):
        tree["about"].pop("made")
        for time_taken in ("run", "seconds"):
            tree["state"].pop(time_taken)
        for name in ("sets", "frugal_sets"):
            tree["assurance"].pop(name)
    assert pack(after)[0] == pack(before)[0]
