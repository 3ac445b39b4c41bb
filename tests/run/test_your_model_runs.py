"""Models of a site's own making, in simulations with workers and at a real site."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from peer_sites import QUICK, Sites, founded

from peerwise.cli import main
from peerwise.errors import ConfigError, MayNotLeave
from peerwise.models.worker import Worker
from peerwise.parcels.egress import attack
from peerwise.run import simulate
from peerwise.run.peer import fit, preview, status, train

NAME = "ward_models"
MODELS = """
from sklearn.impute import SimpleImputer
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

def bayes():
    return make_pipeline(SimpleImputer(), GaussianNB())

def neighbours():
    return make_pipeline(SimpleImputer(), StandardScaler(), KNeighborsClassifier(5))

def svm():
    return make_pipeline(SimpleImputer(), StandardScaler(), SVC(probability=True))
"""
pytestmark = pytest.mark.filterwarnings("ignore:Skipping features", "ignore:.*probability.*:FutureWarning")


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "code"
    folder.mkdir(mode=0o755)
    path = folder / f"{NAME}.py"
    path.write_text(MODELS)
    path.chmod(0o644)
    monkeypatch.syspath_prepend(str(folder))
    yield path
    sys.modules.pop(NAME, None)


@pytest.mark.slow
def test_workers_train_it_alike() -> None:
    asked: dict[str, Any] = {"models": ["logistic", f"{NAME}:bayes"], "methods": ["knorae"], "seeds": 1, "rows": 300}
    alone, together = (simulate("heart_disease", workers=workers, **asked) for workers in (1, 2))
    assert f"{NAME}.bayes@cleveland" in alone.predictions[0, "knorae", "cleveland"]["details"]["models"]
    assert alone.results["accuracy"].equals(together.results["accuracy"])


def test_a_real_site_uses_all_its_models_and_publishes_those_that_may_leave(
    formed_sites: Sites, worker: Worker, capsys: pytest.CaptureFixture[str]
) -> None:
    sites = formed_sites
    mine = [f"{NAME}:bayes", f"{NAME}:neighbours", f"{NAME}:svm"]
    sites.change("south", models=["logistic", *mine])
    plain = {"logistic", f"{NAME}.bayes", f"{NAME}.neighbours", f"{NAME}.svm"}
    assert set(train(sites["south"])["models"]) == plain
    before = preview(sites["south"], sites.transport("south"))
    assert set(before["held"]) == {f"{NAME}.neighbours", f"{NAME}.svm"}
    assert main(["publish", "--folder", str(sites.root / "south")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"held back, used here alone: {NAME}.svm: the model has support vectors" in said
    told = sites.publish("south")
    assert not told["again"]
    assert told["models"] == ["logistic", f"{NAME}.bayes"]
    assert sites.told("south", "published")[0]["held"] == [f"{NAME}.neighbours", f"{NAME}.svm"]
    sites.pull("north", worker)
    peers = {peer["site"]: peer for peer in status(sites["north"])["peers"]}
    assert peers["south"]["models"] == ["logistic", f"{NAME}.bayes"]
    found = sites.signed("north").fetch("south", "models")
    assert found is not None
    assert found.manifest.card is not None
    assert set(found.manifest.card["models"]) == {"logistic", f"{NAME}.bayes"}, "what stays is not spoken of"
    fit(sites["south"], worker, use_peers=True)
    pool = sites["south"].bundle.load_item("bundle", "state")["pool"]
    assert {name.partition("@")[0] for name in pool} == plain, "at home all of them have a say"


def test_if_none_may_leave_nothing_does(formed_sites: Sites) -> None:
    formed_sites.change("south", models=[f"{NAME}:neighbours", f"{NAME}:svm"])
    with pytest.raises(MayNotLeave, match=r"model 'ward_models\.neighbours' may not leave"):
        formed_sites.publish("south")
    assert formed_sites.told("south", "published") == []
    told = formed_sites.publish("south", allow="the rows are invented")
    assert told["models"] == [f"{NAME}.neighbours", f"{NAME}.svm"]


def test_the_attack_fits_it_again(formed_sites: Sites) -> None:
    formed_sites.change("south", models=[f"{NAME}:bayes"], attack_seconds=1e6)
    found = preview(formed_sites["south"], formed_sites.transport("south"))["findings"][f"{NAME}.bayes"]["attack"]
    assert (found["kind"], found["shadows"]) == ("lira", attack.SHADOWS)


def test_a_model_that_is_not_there_is_refused_before_a_site_begins(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such name as 'forst'"):
        founded(tmp_path, **{**QUICK, "models": [f"{NAME}:forst"]})
    assert not (tmp_path / "north").exists()


def test_looking_at_a_site_runs_none_of_its_code(fitted_sites: Sites, module: Path) -> None:
    module.write_text("raise RuntimeError('I was run')\n")
    fitted_sites.change("north", models=[f"{NAME}:bayes"])
    assert status(fitted_sites["north"])
    with pytest.raises(ConfigError, match="I was run"):
        train(fitted_sites["north"])
