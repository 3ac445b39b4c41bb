"""Models that a site brings itself: any classifier that a function returns."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from packages import installed
from peerwise.data import Site
from peerwise.data.rows import Rows
from peerwise.errors import ConfigError, ModelError
from peerwise.federation import PEERS_LEFT_OUT
from peerwise.methods.fedov import FedOV
from peerwise.methods.own_models import LEFT_OUT, own_models
from peerwise.models import ZOO, OnnxModel, find_recipe, own_recipe
from peerwise.parcels import Keep, Parcel
from peerwise.parcels.gate import Gate
from peerwise.run import Experiment, simulate
from peerwise.run.flower.settings import FlowerSettings

pytestmark = [
    pytest.mark.filterwarnings("ignore:Skipping features without any observed values"),
    pytest.mark.filterwarnings("ignore:Stochastic Optimizer"),
]
OWN = importlib.import_module("peerwise.models.own_recipe")
MODELS = """
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

number = 3

def prepared(model):
    return make_pipeline(SimpleImputer(strategy="median"), StandardScaler(), model)

def bayes():
    '''Gaussian naive Bayes.'''
    return prepared(GaussianNB())

def linear_svm():
    return prepared(CalibratedClassifierCV(LinearSVC(), cv=2, ensemble=False))

def trees():
    return make_pipeline(SimpleImputer(), ExtraTreesClassifier(10, min_samples_leaf=5))

def net():
    return prepared(MLPClassifier((4,), max_iter=300))

def neighbours():
    return prepared(KNeighborsClassifier(3))

def xgboost():
    from xgboost import XGBClassifier
    return XGBClassifier(n_estimators=5, max_depth=2, n_jobs=1)

def lightgbm():
    from lightgbm import LGBMClassifier
    return LGBMClassifier(n_estimators=5, min_child_samples=5, n_jobs=1, verbose=-1)

def by_seed(seed):
    return prepared(LogisticRegression(C=1 + seed % 7))

def without_probabilities():
    return LinearSVC()

def unprepared():
    return LogisticRegression()

def a_class():
    return GaussianNB

def a_number():
    return 3

def needs_more(depth):
    return ExtraTreesClassifier(max_depth=depth)

def broken():
    raise RuntimeError("not today")

def image_recipe():
    from peerwise.models import ZOO
    return ZOO["lenet"]

def table_recipe():
    from peerwise.models import ZOO
    return ZOO["logistic"]

class Odd(GaussianNB):
    pass

def cannot_be_written():
    return prepared(Odd())
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Write a module that can be imported; forgotten afterwards."""
    known = set(sys.modules)
    folder = tmp_path / "code"
    folder.mkdir(mode=0o755)
    monkeypatch.syspath_prepend(str(folder))

    def new(text: str = MODELS, name: str = "my_models", mode: int = 0o644) -> str:
        path = folder / f"{name}.py"
        path.write_text(text)
        path.chmod(mode)
        for cached in folder.glob(f"__pycache__/{name}.*"):
            cached.unlink()
        sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return name

    yield new
    for name in set(sys.modules) - known:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


def some_site(*models: str, classes: tuple[int, ...] = (0, 1, 2, 3), rows: int = 96, **more: Any) -> Site:
    """A column has no value at all, others have gaps; of four classes only these are here."""
    rng = np.random.default_rng(0)
    y = np.asarray(classes)[np.arange(rows) % len(classes)]
    X = rng.normal(size=(rows, 5)) + y[:, None]
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 3] = np.nan
    half = rows // 2
    train, val = Rows(X[:half].astype(np.float32), y[:half]), Rows(X[half:].astype(np.float32), y[half:])
    names = ("a", "b", "c", "d")
    return Site("north", "table", names, train, val, val.take(slice(0, 0)), recipes=models, **more)


SORTS = ["bayes", "linear_svm", "trees", "net", "neighbours", "xgboost", "lightgbm", "by_seed", "table_recipe"]


@pytest.mark.parametrize("sort", SORTS)
def test_any_classifier_is_trained_written_and_answers_over_all_classes(sort: str, write: Any) -> None:
    write()
    site = some_site(f"my_models:{sort}", classes=(1, 3))
    own = own_models(site, folds=3)
    assert list(own.files) == [f"my_models.{sort}"]
    assert LEFT_OUT not in site.state
    assert own.held_out is not None
    assert own.held_out.shape == (len(site.train), 1, 4)
    said = OnnxModel(own.files[f"my_models.{sort}"], name=sort).predict_proba(site.val.X)
    assert said[:, [0, 2]].max() < 1e-6, "nothing is known here of these classes"
    assert np.mean(said.argmax(axis=1) == site.val.y) > 0.7
    assert np.mean(own.held_out[:, 0].argmax(axis=1) == site.train.y) > 0.7


def test_one_class_is_enough(write: Any) -> None:
    write()
    own = own_models(some_site("my_models:bayes", classes=(2,)), folds=3)
    said = OnnxModel(own.files["my_models.bayes"], name="bayes").predict_proba(np.zeros((4, 5), np.float32))
    assert (said.argmax(axis=1) == 2).all()


@pytest.mark.parametrize("sort", ["bayes", "xgboost"])
def test_rows_may_count_differently(sort: str, write: Any) -> None:
    write()
    rows = some_site(classes=(0, 1)).train
    fit: Any = own_recipe(f"my_models:{sort}").fit
    weights = np.where(rows.y == 1, 1e-3, 1.0)
    plain, weighted = (
        fit(rows, None, classes=4, features=(), seed=0, **more).predict_proba(rows.X)[:, 1].mean()
        for more in ({}, {"weights": weights})
    )
    assert weighted < plain / 2


def test_a_model_for_which_all_rows_count_alike_says_so(write: Any) -> None:
    write()
    rows = some_site().train
    fit: Any = own_recipe("my_models:neighbours").fit
    fit(rows, None, classes=4, features=(), seed=0, weights=np.ones(len(rows)))
    with pytest.raises(ModelError, match=r"'my_models\.neighbours' takes no sample_weight"):
        fit(rows, None, classes=4, features=(), seed=0, weights=np.full(len(rows), 0.5))


@pytest.mark.parametrize("sort", ["trees", "net", "by_seed", "xgboost"])
def test_the_seed_alone_decides_the_file(sort: str, write: Any) -> None:
    write()
    site = some_site()
    fit = own_recipe(f"my_models:{sort}").fit
    first, again, other = (
        fit(site.train, None, classes=4, features=(), seed=seed).to_onnx() for seed in (2**32 - 1, 2**32 - 1, 5)
    )
    assert first == again
    assert (first != other) == (sort != "xgboost"), "boosting without any drawing of rows has nothing to draw"


def test_a_peer_lets_such_a_model_in(write: Any) -> None:
    from peerwise.models.worker import Worker

    write()
    sorts = ["bayes", "linear_svm", "trees", "net", "xgboost", "lightgbm"]
    site = some_site(*(f"my_models:{sort}" for sort in sorts))
    own = own_models(site, held_out=False)
    with Worker() as worker:
        facts = [Gate(worker).check(data, inputs={"x": (5,)}, classes=4) for data in own.files.values()]
    assert [found.outputs for found in facts] == [4] * len(sorts)


def test_a_change_of_code_or_of_parameters_is_trained_anew(write: Any, tmp_path: Path) -> None:
    text = "from sklearn.linear_model import LogisticRegression as L\nfrom sklearn.impute import SimpleImputer as I\n"
    text += "from sklearn.pipeline import make_pipeline\n\ndef make():\n    return make_pipeline(I(), L(C=1.0))\n"
    done: list[str] = []
    site = some_site("my_models:make", keep=Keep(tmp_path / "work", lambda key, parts: done.append(str(parts["what"]))))

    def trained(code: str) -> bytes:
        done.clear()
        write(code)
        return own_models(site, held_out=False).files["my_models.make"]

    first = trained(text)
    assert done == ["model"]
    assert trained(text) == first
    assert done == [], "the same code is the same model"
    assert trained(text.replace("C=1.0", "C=0.01")) != first
    assert done == ["model"]
    trained(text.replace("1.0", "0.5 + 0.5"))
    assert done == ["model"], "another text counts as another model"


def test_a_parameter_from_elsewhere_counts_too(write: Any) -> None:
    write("from sklearn.linear_model import LogisticRegression as L\nC = 1.0\n\ndef make():\n    return L(C=C)\n")
    first = own_recipe("my_models:make").content
    assert own_recipe("my_models:make").content == first
    sys.modules["my_models"].C = 2.0  # type: ignore[attr-defined]
    assert own_recipe("my_models:make").content != first


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("my_models", "unknown model 'my_models'.*'module:Name'"),
        ("my_modles:bayes", "No module named 'my_modles'.*PYTHONPATH"),
        ("my_models:bayse", "no such name as 'bayse'"),
        ("my_models:number", "a int of that name"),
        ("my_models:a_number", "returns a int: expected a function"),
        ("my_models:a_class", "returns the class GaussianNB"),
        ("my_models:needs_more", "takes depth: expected a function without arguments"),
        ("my_models:broken", "RuntimeError: not today"),
        ("my_models:without_probabilities", "LinearSVC without predict_proba"),
        ("my_models:sub.bayes", "no name of a function"),
        ("../my_models:bayes", "no name of a function"),
        (f"{'m' * 120}:bayes", "at most 100"),
    ],
)
def test_what_is_no_model_is_refused_in_one_sentence(name: str, why: str, write: Any) -> None:
    write()
    with pytest.raises(ConfigError, match=why) as refused:
        own_recipe(name)
    assert "\n" not in str(refused.value)


def test_a_module_that_cannot_be_imported_says_why(write: Any) -> None:
    write("1 / 0\n", "hasty")
    with pytest.raises(ConfigError, match=r"importing 'hasty' failed \(ZeroDivisionError"):
        own_recipe("hasty:make")


@pytest.mark.parametrize(
    ("sort", "why"),
    [
        ("unprepared", "'my_models.unprepared' could not be fitted.*NaN.*Impute them"),
        ("cannot_be_written", "'my_models.cannot_be_written'.*cannot be written as ONNX"),
        ("image_recipe", "takes image rows, site 'north' has table rows"),
    ],
)
def test_a_model_that_cannot_serve_here_says_why(sort: str, why: str, write: Any) -> None:
    write()
    with pytest.raises(ModelError, match=why):
        own_models(some_site(f"my_models:{sort}"), folds=2)


def test_one_that_fails_leaves_the_others(write: Any) -> None:
    write()
    site = some_site("my_models:unprepared", "my_models:bayes", "logistic")
    assert list(own_models(site, folds=2).files) == ["logistic", "my_models.bayes"]
    assert "could not be fitted" in site.state[LEFT_OUT]["my_models.unprepared"]


@pytest.mark.skipif(sys.platform == "win32", reason="rights are others there")
@pytest.mark.parametrize("what", ["file", "folder"])
def test_code_that_others_may_change_is_not_run(what: str, write: Any, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    write(f"open({str(ran)!r}, 'w').close()\n", "shared", mode=0o666 if what == "file" else 0o644)
    if what == "folder":
        (tmp_path / "code").chmod(0o777)
    with pytest.raises(ConfigError, match=r"others may write to .*go-w"):
        own_recipe("shared:make")
    assert not ran.exists()


def test_a_name_that_somebody_sent_runs_nothing(write: Any, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    write(f"open({str(ran)!r}, 'w').close()\n", "trap")
    for name in ("trap:make", "trap", "trap.make"):
        with pytest.raises(ConfigError, match="unknown model"):
            find_recipe(name)
    Experiment(models=("trap:make",))  # as those do who look at somebody's results
    with pytest.raises(ConfigError, match="it is the hub that names them"):
        FlowerSettings(research={"dataset": "heart_disease", "models": ["trap:make"]})
    site = some_site("mlp")
    site.state["first"] = 0
    FedOV().absorb(site, 0, {"south": Parcel(recipe="trap:make", weights={}, classes=list(site.classes))})
    assert "unknown model 'trap:make'" in site.state[PEERS_LEFT_OUT]["*@south"]
    assert not ran.exists()


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], None]:
    """As an installed package would."""

    def add(name: str, where: str) -> None:
        folder = tmp_path_factory.mktemp("package")
        monkeypatch.syspath_prepend(str(installed(folder, {"peerwise.models": {name: where}}, folder.name)))

    return add


def test_an_installed_package_may_offer_models(write: Any, offer: Any) -> None:
    write()
    offer("ward-bayes", "my_models:bayes")
    assert own_recipe("ward-bayes").description == "Gaussian naive Bayes."
    assert list(own_models(some_site("ward-bayes"), folds=2).files) == ["ward-bayes"]


def test_names_that_others_could_not_tell_apart_are_refused(write: Any, offer: Any) -> None:
    write()
    offer("my_models.bayes", "my_models:bayes")
    offer("twice", "my_models:bayes")
    offer("twice", "my_models:trees")
    offer("logistic", "my_models:trees")
    with pytest.raises(ConfigError, match=r"both be called 'my_models\.bayes'"):
        own_models(some_site("my_models.bayes", "my_models:bayes"))
    with pytest.raises(ConfigError, match="both be called"):
        Experiment(models=("my_models.bayes", "my_models:bayes"))
    with pytest.raises(ConfigError, match=r"offered by package.* and by package"):
        own_recipe("twice")
    assert own_recipe("logistic") is ZOO["logistic"]


def test_a_column_without_any_value_is_left_out_of_the_file_as_it_was_of_the_model(write: Any) -> None:
    write()
    own = own_models(some_site("my_models:trees"), held_out=False)
    steps = [node.op_type for node in onnx.load_from_string(own.files["my_models.trees"]).graph.node]
    assert steps[:2] == ["Gather", "Imputer"]


def test_a_run_goes_on_only_with_the_same_code(write: Any, tmp_path: Path) -> None:
    write()
    asked: dict[str, Any] = {"models": "my_models:bayes", "methods": ["local"], "seeds": 1, "rows": 200}
    simulate("heart_disease", out=tmp_path / "run", **asked)
    simulate("heart_disease", out=tmp_path / "run", **asked)
    write(MODELS.replace("GaussianNB())", "GaussianNB(var_smoothing=0.1))"))
    with pytest.raises(ConfigError, match="run"):
        simulate("heart_disease", out=tmp_path / "run", **asked)
