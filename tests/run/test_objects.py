"""A method, a learner, a model, a data set and a partition of one's own: as objects, by path, and installed."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from packages import installed
from peerwise.cli import main
from peerwise.errors import ConfigError, DataError, PartitionError
from peerwise.evaluate import assess
from peerwise.methods.fedavg import FedAvg
from peerwise.report.story import story_of
from peerwise.run import Experiment, load_run, simulate
from peerwise.run.flower.settings import FlowerSettings
from peerwise.trust.dynamic import KNORAE

MINE = '''
import numpy as np
from sklearn.linear_model import LogisticRegression

from peerwise import Method, Parcel, load
from peerwise.data import Share
from peerwise.trust import BestSingle


class ClassShares(Method):
    """Answers with the classes' shares at all sites."""

    def __init__(self, least=1.0):
        self.smallest = least  # under another name than the argument's

    def share(self, site, round):
        return Parcel(counts=np.bincount(site.train.y, minlength=len(site.classes)))

    def absorb(self, site, round, inbox):
        site.state["counts"] = sum(parcel["counts"] for parcel in inbox.values()) + self.smallest

    def predict_proba(self, site, X):
        return np.tile(site.state["counts"] / site.state["counts"].sum(), (len(X), 1))


class Favourite(BestSingle):
    """The best single model under another name."""


def ridge():
    """A strongly regularised regression."""
    return LogisticRegression(C=0.01, max_iter=500)


def few_digits(rows=200):
    """The first digits."""
    return load("digits").take(slice(0, rows))


def odd_and_even(dataset, sites, rng, *, mixed=0.1):
    """One site with most even digits, one with most odd ones."""
    side = np.where(rng.random(len(dataset)) < mixed, 1 - dataset.y % 2, dataset.y % 2)
    return [Share(np.flatnonzero(side == place), name) for place, name in enumerate(("even", "odd"))]


def torn(dataset, sites, rng):
    return [Share(np.array([len(dataset)]), "beyond")]
'''
SMALL: dict[str, Any] = {"seeds": 1, "folds": 2, "options": {"rows": 180}}
BY_PATH = {"dataset": "mine_:few_digits", "partition": "mine_:odd_and_even", "models": ["logistic", "mine_:ridge"]}
SITES = {"even", "odd"}


@pytest.fixture(autouse=True)
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    folder = tmp_path / "code"
    folder.mkdir(mode=0o755)
    (folder / "mine_.py").write_text(MINE)
    (folder / "mine_.py").chmod(0o644)
    monkeypatch.syspath_prepend(str(folder))
    yield importlib.import_module("mine_")
    sys.modules.pop("mine_", None)


def given(mine: Any, **more: Any) -> dict[str, Any]:
    objects = {"dataset": mine.few_digits, "partition": mine.odd_and_even, "models": ["logistic", mine.ridge]}
    return {**SMALL, **objects, "methods": [mine.ClassShares(2.0), "local", mine.Favourite()], **more}


def numbers(table: pd.DataFrame) -> pd.DataFrame:
    return table[[column for column in table if not column.startswith("seconds")]]


def test_objects_and_names_stand_side_by_side_and_a_folder_goes_on(mine: Any, tmp_path: Path) -> None:
    run = simulate(**given(mine), out=tmp_path / "run")
    label, local, learner = run.results["method"].unique()
    assert (local, learner) == ("local", "favourite")
    assert label.startswith("class_shares~"), "its settings are not the defaults"
    assert set(run.results["site"]) == SITES
    assert run.predictions[0, learner, "odd"]["details"]["models"][0] == "logistic@even"
    assert "mine_.ridge@odd" in run.predictions[0, learner, "odd"]["details"]["models"]
    told: list[dict[str, Any]] = []
    again = simulate(**given(importlib.reload(mine)), out=tmp_path / "run", on_event=told.append)
    assert {event["event"] for event in told} == {"start", "method", "end"}, "nothing is done again"
    pd.testing.assert_frame_equal(run.results, again.results)
    other = simulate(**given(mine, methods=[mine.ClassShares(500.0), mine.ClassShares()]), out=tmp_path / "run")
    assert list(other.results["method"].unique()) == [other.experiment.label(name) for name in other.experiment.methods]
    assert "class_shares" in set(other.results["method"]), "one with the defaults needs no hash"
    assert label not in set(other.results["method"])
    sites = [other.predictions[0, method, "even"]["probabilities"] for method in other.results["method"].unique()]
    assert sites[0].std() < sites[1].std(), "each was made with its own arguments"
    with pytest.raises(ConfigError, match="holds a run with other data, sites, models"):
        simulate(**given(mine, models=["logistic"]), out=tmp_path / "run")


@pytest.mark.parametrize("by_path", [True, False])
def test_a_method_whose_code_was_changed_runs_again(mine: Any, tmp_path: Path, by_path: bool) -> None:
    def again(old: str, new: str) -> pd.DataFrame:
        path = tmp_path / "code" / "mine_.py"
        path.write_text(path.read_text().replace(old, new))
        changed = importlib.reload(mine)
        methods = ["mine_:ClassShares", "mine_:Favourite"] if by_path else [changed.ClassShares(), changed.Favourite()]
        told: list[dict[str, Any]] = []
        run = simulate("digits", rows=100, sites=2, models=["logistic"], seeds=1, folds=2, methods=methods,
                       out=tmp_path / "run", on_event=told.append)  # fmt: skip
        done.append({event["event"] for event in told} != {"start", "method", "end"})
        return run.results

    done: list[bool] = []
    first = again("", "")
    pd.testing.assert_frame_equal(first, again("", ""))
    assert done == [True, False], "the same code goes on"
    second = again("+ self.smallest", "+ 1000 * self.smallest + np.arange(10)")
    assert done == [True, False, True]
    assert list(second["method"]) == list(first["method"])
    assert not second["log_loss"].equals(first["log_loss"])


def test_a_folder_is_read_without_the_objects(mine: Any, tmp_path: Path) -> None:
    run = simulate(**given(mine, methods=[mine.ClassShares(2.0), "local"]), out=tmp_path / "run")
    code = "import sys; from peerwise.run import load_run; print(*load_run(sys.argv[1]).results['method'].unique())"
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "run"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == list(run.results["method"].unique())
    sys.modules.pop("mine_")
    (tmp_path / "code" / "mine_.py").unlink()
    kept = load_run(tmp_path / "run")
    rows = story_of(kept, assess(kept)).sheets["settings"].rows
    assert [cell.text for cell in rows[0]] == [kept.results["method"][0], "least", "2.0", "changed"]
    with pytest.raises(ConfigError, match="the data set was given as an object"):
        simulate(kept.experiment, out=tmp_path / "other")


@pytest.mark.slow
def test_workers_give_the_same_from_objects_that_no_module_has(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    settings = {**SMALL, "training": {"rounds": 2}, "epochs": 2}
    script.write_text(f"""{MINE}
from peerwise import simulate
from peerwise.methods.fedavg import FedAvg
one, two = (simulate(few_digits, partition=odd_and_even, models=["mlp", ridge], workers=workers,
                     methods=[ClassShares(), Favourite(), FedAvg(lr=0.1)], **{settings!r}) for workers in (1, 2))
columns = [name for name in one.results if not name.startswith("seconds")]
assert one.results[columns].equals(two.results[columns])
assert "__main__.ridge@odd" in two.predictions[0, "favourite", "odd"]["details"]["models"]
""")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr


def test_paths_name_the_same_things_as_the_objects(mine: Any) -> None:
    names = ["mine_:ClassShares", "local", "mine_:Favourite"]
    run = simulate(**{**SMALL, **BY_PATH, "methods": names, "method": {"mine_:ClassShares": {"least": 2.0}}})
    pd.testing.assert_frame_equal(numbers(run.results), numbers(simulate(**given(mine)).results))


def test_the_command_line_finds_modules_of_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path / "code")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(tmp_path / "code")])
    sys.modules.pop("mine_")
    asked = ["simulate", "mine_:few_digits", "--partition", "mine_:odd_and_even", "--models", "logistic", "-q"]
    asked += ["--methods", "mine_:ClassShares,local", "--set", "mine_:ClassShares.least=2", "--seeds", "1"]
    assert main([*asked, "--format", "json", "--set", "partition_settings.mixed=0.2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["method"].partition("~")[0] for row in found["summary"]] == ["class_shares", "local"]


def test_an_installed_package_is_found_and_listed_and_a_broken_one_breaks_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = {
        "peerwise.methods": {"ward_shares": "mine_:ClassShares", "ill": "mine_:Nothing", "gone": "no_such_module:X"},
        "peerwise.learners": {"favourite_one": "mine_:Favourite"},
        "peerwise.models": {"ward_ridge": "mine_:ridge"},
        "peerwise.datasets": {"few": "mine_:few_digits"},
        "peerwise.partitions": {"by_parity": "mine_:odd_and_even"},
        "peerwise.transports": {"pigeon": "mine_:ClassShares"},
    }
    monkeypatch.syspath_prepend(str(installed(tmp_path / "site", entries)))
    run = simulate("few", partition="by_parity", models=["logistic", "ward_ridge"],
                   methods=["ward_shares", "favourite_one"], **SMALL)  # fmt: skip
    assert list(run.results["method"].unique()) == ["ward_shares", "favourite_one"]
    assert set(run.results["site"]) == SITES
    for group, offered in entries.items():
        kind = group.removeprefix("peerwise.")
        assert main(["list", kind, "--format", "json"]) == 0
        listed = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
        for name, where in offered.items():
            assert listed[name]["origin"] == f"some_package ({where})"
            broken = name in ("ill", "gone")
            assert listed[name]["about"].startswith("cannot be used: ") == broken, listed[name]
        assert all(
            "origin" not in listed[name] for name in listed if name not in {**offered, **entries["peerwise.learners"]}
        )
    with pytest.raises(ConfigError, match=r"'ill', offered by some_package: 'mine_' has no such name as 'Nothing'"):
        simulate("few", methods="ill", **SMALL)


def test_metadata_that_cannot_be_read_is_said_once_and_hides_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from peerwise.registry import registered_names

    monkeypatch.syspath_prepend(str(installed(tmp_path / "fine", {"peerwise.methods": {"fine": "mine_:ClassShares"}})))
    installed(tmp_path / "broken", {"peerwise.methods": {}}, "broken_package")
    (tmp_path / "broken" / "broken_package-1.0.dist-info" / "entry_points.txt").write_text(
        "[peerwise.methods]\nno sign\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "broken"))
    with pytest.warns(UserWarning, match="entry points of an installed package cannot be read"):
        assert {"fine", "fedavg"} <= set(registered_names("methods", "learners"))


def test_an_object_of_a_shipped_class_is_what_its_name_with_these_settings_is(tmp_path: Path) -> None:
    common = {"sites": 2, "rows": 160, "models": ["mlp"], "epochs": 1, "training": {"rounds": 2}, "out": tmp_path}
    common |= {"seeds": 1, "folds": 2}
    by_name = simulate("digits", **common, methods="fedavg,knorae", method={"fedavg": {"lr": 0.2}, "knorae": {"k": 3}})
    told: list[dict[str, Any]] = []
    objects = simulate("digits", **common, methods=[FedAvg(lr=0.2), KNORAE(k=3)], on_event=told.append)
    pd.testing.assert_frame_equal(by_name.results, objects.results)
    assert {event["event"] for event in told} == {"start", "method", "end"}
    assert set(objects.results[objects.results["lr"].notna()]["rounds"]) == {2}, "training fills what is left out"


def test_what_cannot_be_told_apart_or_made_again_is_refused(mine: Any) -> None:
    with pytest.raises(ConfigError, match="names 'local' twice"):
        simulate("digits", methods=["local", "local"])
    with pytest.raises(ConfigError, match=r"holds the class ClassShares: expected an object, ClassShares\(...\)"):
        simulate("digits", methods=[mine.ClassShares])
    changed = mine.ClassShares()
    changed.smallest = 7
    with pytest.raises(ConfigError, match="ClassShares has another smallest than its constructor gives it"):
        simulate("digits", methods=[changed])
    with pytest.raises(TypeError, match="most"):
        mine.ClassShares(most=3)
    with pytest.raises(ConfigError, match="stands for an object with other settings"):
        Experiment(methods=("fedavg~123456",))
    with pytest.raises(ConfigError, match=r"method.fedavg has settings, .*give them to the object, FedAvg\(...\)"):
        simulate("digits", methods=[FedAvg()], method={"fedavg": {"lr": 0.5}})
    with pytest.raises(ConfigError, match="'mine_' has no such name as 'ClasShares'"):
        simulate("digits", methods="mine_:ClasShares")
    with pytest.raises(ConfigError, match=r"expected a class, of peerwise\.Method or peerwise.TrustLearner"):
        simulate("digits", methods="mine_:ridge")
    with pytest.raises(ConfigError, match=r"method.mine_:ClassShares: unknown parameter 'leest': did you mean 'least'"):
        simulate("digits", methods="mine_:ClassShares", method={"mine_:ClassShares": {"leest": 1}})


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("ClassShares):\n    def __init__(self):\n        raise RuntimeError('not today')", "RuntimeError: not today"),
        ("ClassShares):\n    def __init__(self, least):\n        pass", "TypeError: .*'least'"),
        ("Method):\n    pass", "TypeError: .*abstract.*predict_proba"),
        ("TrustLearner):\n    pass", "TypeError: .*abstract"),
        ("BestSingle):\n    def check_settings(self):\n        raise KeyError('k')", "KeyError: 'k'"),
    ],
)
def test_a_class_that_cannot_be_made_is_one_sentence(
    mine: Any, code: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (tmp_path / "code" / "mine_.py").open("a") as file:
        file.write(f"\n\nfrom peerwise.trust import TrustLearner\n\nclass Ill({code}\n")
    importlib.reload(mine)
    with pytest.raises(ConfigError, match=rf"method 'mine_:Ill': Ill cannot be made \({why}"):
        simulate("digits", methods="mine_:Ill", models=["logistic"])
    assert main(["simulate", "digits", "--methods", "mine_:Ill", "--models", "logistic", "-q"]) == 2
    assert "Ill cannot be made" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"methods": [3]}, "methods holds 3: expected names, methods or trust learners"),
        ({"methods": 3}, "methods holds 3: expected names, methods or trust learners"),
        ({"models": [LogisticRegression()]}, r"LogisticRegression\(\): expected names, recipes or functions"),
        ({"models": LogisticRegression()}, r"LogisticRegression\(\): expected names, recipes or functions"),
        ({"models": [lambda: LogisticRegression()]}, "models holds a lambda: .*Give it a name with def"),
    ],
)
def test_objects_of_another_kind_are_refused_with_what_is_expected(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        simulate("digits", **given)


def test_own_functions_that_return_something_else_are_refused(mine: Any) -> None:
    with pytest.raises(PartitionError, match=r"'mine_:torn' gives site 'beyond' rows 1797 to 1797: expected a list of"):
        simulate("digits", partition=mine.torn)
    with pytest.raises(PartitionError, match=r"returned \[\]: expected a list of peerwise\.data\.Share"):
        simulate("digits", partition=lambda dataset, sites, rng: [], models=["logistic"])
    with pytest.raises(DataError, match="returned a list: expected a peerwise"):
        simulate(lambda: [1])
    with pytest.raises(DataError, match="mine_:few_digits: unknown option 'rowz': did you mean 'rows'"):
        simulate(mine.few_digits, options={"rowz": 3})
    with pytest.raises(ConfigError, match=r"partition 'mine_:odd_and_even': partition_settings: unknown parameter"):
        simulate("digits", partition=mine.odd_and_even, partition_settings={"mixd": 1})


def test_a_data_set_function_may_take_any_options(mine: Any) -> None:
    def wrapped(*more: Any, **options: Any) -> Any:
        return mine.few_digits(*more, **options)

    run = simulate(wrapped, options={"rows": 90}, sites=2, models=["logistic"], methods="local", seeds=1, folds=2)
    assert run.experiment.options == {"rows": 90}


class ByParity:
    def __init__(self, partition: Any) -> None:
        self.partition = partition

    def __call__(self, dataset: Any, sites: Any, rng: Any, *, mixed: float = 0.0) -> Any:
        return self.partition(dataset, sites, rng, mixed=mixed)


top_level = lambda dataset, sites, rng, *, mixed=0.0: importlib.import_module("mine_").odd_and_even(  # noqa: E731
    dataset, sites, rng, mixed=mixed
)


@pytest.mark.parametrize("kind", ["partial", "object", "lambda"])
def test_a_partition_may_be_anything_that_can_be_called(mine: Any, kind: str) -> None:
    kinds = {"partial": partial(mine.odd_and_even, mixed=0.0), "object": ByParity(mine.odd_and_even)}
    partition = kinds.get(kind, top_level)
    common = {"rows": 100, "models": ["logistic"], "methods": "local", "seeds": 1, "folds": 2}
    run = simulate("digits", partition=partition, partition_settings={"mixed": 0.2}, **common)
    assert set(run.results["site"]) == SITES
    with pytest.raises(ConfigError, match="partition_settings: unknown parameter 'mixd'"):
        simulate("digits", partition=partition, partition_settings={"mixd": 1})


@pytest.mark.parametrize(
    "told", [{"method": "mine_:ClassShares"}, {"method": "mine_:ClassShares:slow"},
             {"research": {"dataset": "mine_:few_digits"}}, {"research": {"dataset": "fedavg:few_digits"}},
             {"research": {"dataset": "digits", "partition": "mine_:odd_and_even"}},
             {"research": {"dataset": "digits", "partition": "fedavg:odd_and_even"}}]
)  # fmt: skip
def test_a_node_imports_nothing_that_a_hub_has_named(told: dict[str, Any]) -> None:
    """Nor where the module is called like a method, so that the name looks like that of a method with a tag."""
    with pytest.raises(ConfigError, match=r"'(mine_|fedavg):.*expected one that is registered on every node"):
        FlowerSettings(**told)


def test_a_node_reads_no_file_that_a_hub_has_named(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("x,y\n1,a\n2,b\n")
    for there in (tmp_path / "rows.csv", tmp_path):
        with pytest.raises(ConfigError, match="expected one that is registered on every node"):
            FlowerSettings(research={"dataset": str(there), "options": {"target": "y"}})
