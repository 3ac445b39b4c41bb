"""Experiments are checked in full before any work: keys, names, types, choices; TOML files and their grids."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from peerwise.errors import ConfigError
from peerwise.run import Experiment, experiment_from, read_experiments, set_key

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def written(folder: Path, text: str) -> Path:
    path = folder / "trial.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seed": 3}, r"unknown experiment key 'seed': did you mean 'seeds'\? Choices: .*partition_settings"),
        ({"seeds": "three"}, "seeds is 'three': expected a whole number"),
        ({"seeds": 0}, "seeds is 0: expected a whole number of at least 1"),
        ({"seeds": True}, "seeds is True: expected a whole number"),
        ({"seeds": 2.0}, "seeds is 2.0: expected a whole number"),
        ({"seeds": None}, "seeds is None: expected a whole number"),
        ({"sites": -1}, "sites is -1: expected a whole number of at least 1"),
        ({"rows": 1}, "rows is 1: expected a whole number of at least 2"),
        ({"folds": 1}, "folds is 1: expected a whole number of at least 2"),
        ({"epochs": "x"}, "epochs is 'x': expected a whole number or nothing"),
        ({"public": -1}, "public is -1"),
        ({"methods": 5}, "methods is 5: expected a list of text"),
        ({"methods": [5]}, r"methods is \(5,\): expected a list of text"),
        ({"methods": []}, r"methods is empty: expected at least one of .*peerwise"),
        ({"methods": ["local", "local"]}, "methods names 'local' twice"),
        ({"methods": "fedes"}, r"methods: unknown method 'fedes': did you mean 'feddes'\? Choices: .*local"),
        ({"models": {"logistic": 1}}, "models is {'logistic': 1}: expected a list of text"),
        ({"models": "forrest"}, r"models: unknown model 'forrest': did you mean 'forest'\?"),
        ({"models": "forest,forest"}, "models names 'forest' twice"),
        ({"dataset": 5}, "dataset is 5: expected text"),
        ({"dataset": "hart_disease"}, r"dataset: unknown data set 'hart_disease': did you mean 'heart_disease'\?"),
        ({"dataset": "nowhere/rows.csv"}, r"dataset: nowhere/rows.csv is not there"),
        ({"options": "x"}, "options is 'x': expected a table"),
        ({"device": 0}, "device is 0: expected text"),
        ({"subgroup": 3}, "subgroup is 3: expected text or nothing"),
        ({"assign": "some"}, "assign is 'some': expected 'all' or 'cycle' or nothing"),
        ({"partition": "dirichlt"}, r"partition: unknown partition 'dirichlt': did you mean 'dirichlet'\?"),
        ({"partition": ["dirichlet"]}, r"partition is \['dirichlet'\]: expected text or nothing"),
        ({"partition_settings": {"alpha": 1}}, "partition_settings {'alpha': 1} without a partition"),
        ({"partition": "exdir", "partition_settings": 3}, "partition_settings is 3: expected a table"),
        (
            {"partition": "dirichlet", "partition_settings": {"alfa": 1}},
            r"partition 'dirichlet': partition_settings: unknown parameter 'alfa': did you mean 'alpha'\?.*min_rows",
        ),
        (
            {"partition": "dirichlet", "partition_settings": {"alpha": "x"}},
            "partition_settings.alpha is 'x': expected a finite number",
        ),
        (
            {"partition": "exdir", "partition_settings": {"classes_per_site": 2.5}},
            "partition_settings.classes_per_site is 2.5: expected a whole number",
        ),
        ({"partition": "disjoint", "partition_settings": {"alpha": 1}}, "unknown parameter 'alpha': there are none"),
        ({"method": 3}, "method is 3: expected a table of a table"),
        ({"method": {"peerwise": 3}}, "method is {'peerwise': 3}: expected a table of a table"),
        ({"method": {"fedes": {}}}, "method: unknown method 'fedes'"),
        ({"method": {"peerwise": {"kk": 1}}}, r"method.peerwise: unknown parameter 'kk': did you mean 'k'\?"),
        ({"method": {"peerwise": {"k": "x"}}}, "method.peerwise.k is 'x': expected a whole number"),
        (
            {"methods": ["local"], "method": {"peerwise": {"k": 3}}},
            r"method.peerwise has settings, but methods is local",
        ),
        (
            {"methods": ["peerwise"], "method": {"peerwise:a": {}}},
            r"method.peerwise:a has settings, but methods is peerwise",
        ),
        ({"methods": "fedes:a"}, r"methods: unknown method 'fedes:a'"),
        (
            {"methods": "peerwise:"},
            r"method 'peerwise:' has the tag '': expected letters, digits, dashes and underscores",
        ),
        ({"methods": "peerwise:a/b"}, r"has the tag 'a/b'"),
        ({"methods": "peerwise:a:b"}, r"has the tag 'a:b'"),
        ({"methods": f"peerwise:{'a' * 41}"}, r"has the tag 'a{41}': expected letters, .*, at most 40"),
        ({"methods": "peerwise:a,peerwise:a"}, "methods names 'peerwise:a' twice"),
        ({"methods": "peerwise:a", "method": {"peerwise:a": {"kk": 1}}}, r"method.peerwise:a: unknown parameter 'kk'"),
        ({"public_alpha": 0.1}, "public_alpha is 0.1 and public 0: expected a number above 0, and public rows"),
        ({"public": 5, "public_alpha": 0}, "public_alpha is 0 and public 5: expected a number above 0"),
        ({"flipped": -1}, "flipped is -1: expected a whole number of at least 0"),
        ({"tune": -1}, "tune is -1"),
        ({"tune": 3}, "tune is 3, but none of local, peerwise trains in rounds: add a method that does, e.g. fedavg"),
        ({"training": {"lr": 1}}, "training is {'lr': 1}, but none of local, peerwise trains in rounds"),
        ({"methods": "fedavg", "training": {"lrr": 1}}, r"training: unknown parameter 'lrr': did you mean 'lr'\?"),
        ({"methods": "fedavg", "training": {"rounds": 0}}, "training.rounds is 0: expected at least 1"),
        ({"methods": "fedavg", "training": {"batch_size": 0}}, "training.batch_size is 0: expected at least 1"),
        ({"methods": "fedavg", "training": {"local_epochs": 1.5}}, "training.local_epochs is 1.5: expected a whole"),
        ({"methods": "fedavg", "training": {"optimizer": "x"}}, "training.optimizer is 'x': expected 'sgd' or 'adam'"),
        ({"methods": "fedavg", "training": {"lr": 0}}, "training.lr is 0: expected a learning rate above 0"),
        ({"methods": "fedavg", "training": 3}, "training is 3: expected a table"),
        ({"methods": "fedavg", "method": {"fedavg": {"lr": -1}}}, "method.fedavg.lr is -1: expected a learning rate"),
        ({"methods": "fedavg", "method": {"fedavg": {"rounds": "x"}}}, "method.fedavg.rounds is 'x': expected a whole"),
        ({"methods": "local", "method": {"local": {"lr": 1}}}, "method.local: unknown parameter 'lr': there are none"),
        ({"join": 0}, "join is 0: expected a share of the sites, above 0 and at most 1"),
        ({"join": 1.1}, "join is 1.1"),
        ({"absent": {"site-0": 3}}, "absent is {'site-0': 3}: expected a table of a list of a whole number"),
        ({"absent": [0]}, r"absent is \[0\]: expected a table of .*For example absent.site-0=\[0,1\]"),
        ({"absent": {"site-0": [-1]}}, r"absent.site-0 is \[-1\]: expected rounds, which count from 0"),
    ],
    ids=str,
)
def test_a_wrong_experiment_is_refused_with_the_key_and_the_choices(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        experiment_from(settings)


def test_names_may_be_a_list_or_divided_by_commas() -> None:
    assert Experiment(methods="local, peerwise").methods == Experiment(methods=["local", "peerwise"]).methods  # type: ignore[arg-type]


def test_what_decides_the_models_decides_the_folder_and_nothing_else() -> None:
    base = Experiment(methods=("peerwise",))
    same = [Experiment(methods=("local", "peerwise"), seeds=9, method={"peerwise": {"k": 7}}),
            Experiment(subgroup="sex"),
            Experiment(methods=("fedavg",), training={"lr": 0.1}, tune=3, join=0.5, absent={"a": [1]})]  # fmt: skip
    other = [Experiment(rows=99), Experiment(models=("logistic",)), Experiment(epochs=3), Experiment(folds=4),
             Experiment(partition="natural"), Experiment(public=3), Experiment(public=3, public_alpha=0.1),
             Experiment(flipped=1)]  # fmt: skip
    assert {each.pool_key for each in same} == {base.pool_key}
    assert len({base.pool_key, *(each.pool_key for each in other)}) == 1 + len(other)


def test_a_method_with_settings_of_its_own_has_a_label_of_its_own() -> None:
    plain, seven, eight = (Experiment(method={"peerwise": {"k": k}} if k else {}) for k in (0, 7, 8))
    assert plain.label("peerwise") == "peerwise"
    assert plain.label("peerwise") != seven.label("peerwise") != eight.label("peerwise")
    assert seven.label("local") == "local"


def test_a_tag_makes_a_second_method_of_one_and_is_its_label() -> None:
    both = Experiment(methods=("peerwise", "peerwise:wide"), method={"peerwise:wide": {"k": 9}, "peerwise": {"k": 3}})
    assert both.label("peerwise:wide") == "peerwise:wide"
    assert both.label("peerwise").startswith("peerwise~")
    assert (both.settings("peerwise"), both.settings("peerwise:wide")) == ({"k": 3}, {"k": 9})


def test_a_methods_own_settings_go_before_the_budget_of_the_run() -> None:
    found = Experiment(
        methods=("fedavg", "fedavg:slow", "local", "local_rounds", "centralised_rounds", "peerwise"),
        training={"lr": 0.5, "rounds": 7},
        method={"fedavg:slow": {"lr": 0.001}, "local_rounds": {"rounds": 9}},
    )
    rest = {"local_epochs": 1, "batch_size": 32, "optimizer": "sgd"}
    assert found.budget("fedavg") == {"lr": 0.5, "rounds": 7, **rest}
    assert found.budget("fedavg:slow") == {"lr": 0.001, "rounds": 7, **rest}
    assert found.budget("local_rounds") == {"lr": 0.5, "rounds": 9, **rest}
    assert found.label("local_rounds") == "local_rounds", "what others are held to keeps its name"
    assert found.budget("centralised_rounds") == found.budget("fedavg")
    assert found.budget("peerwise") is found.budget("local") is None, "local is always the models of the pool"


def test_asking_for_methods_without_rounds_does_not_wait_for_torch() -> None:
    code = "import sys; from peerwise.run import Experiment; Experiment(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0


def test_a_grid_gives_one_experiment_for_each_point(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        dataset = "digits"
        partition = "dirichlet"
        methods = ["local", "peerwise"]
        [partition_settings]
        min_rows = 5
        [grid]
        "partition_settings.alpha" = [0.1, 1]
        "peerwise.k" = [3, 7]
        models = [["logistic"], ["logistic", "forest"]]
        """,
    )
    found = read_experiments(path)
    assert len(found) == 8
    one = found["trial-alpha0.1-k7-modelslogistic,forest"]
    assert one.partition_settings == {"min_rows": 5, "alpha": 0.1}
    assert one.method == {"peerwise": {"k": 7}}
    assert one.models == ("logistic", "forest")
    assert len({each.pool_key for each in found.values()}) == 4
    assert all(Path(name).name == name for name in found)


def test_the_table_fast_takes_the_place_of_full_sizes_only_when_asked(tmp_path: Path) -> None:
    path = written(tmp_path, 'dataset = "digits"\nrows = 900\nmethods = ["local", "peerwise"]\n[fast]\nrows = 200\n'
                             '"peerwise.k" = 3\n[grid]\nsites = [2, 3]\n')  # fmt: skip
    assert [one.rows for one in read_experiments(path).values()] == [900, 900]
    small = read_experiments(path, fast=True)
    assert [(one.sites, one.rows, one.settings("peerwise")) for one in small.values()] == [
        (2, 200, {"k": 3}),
        (3, 200, {"k": 3}),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seeds = 1", "trial.toml: fast is {}: expected a table of smaller sizes"),
        ("fast = 3", "trial.toml: fast is 3: expected a table"),
        ("[fast]\nrow = 200", "trial.toml: unknown method or experiment key 'row': did you mean 'rows'"),
        ("[fast]\ntraining.rounds = 2", 'fast.training is a table, which would .*: write "training.rounds" = 2'),
    ],
)
def test_a_file_without_fast_sizes_or_with_wrong_ones_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError, match=message):
        read_experiments(path, fast=True)
    if "fast" in text:
        with pytest.raises(ConfigError, match=message):
            read_experiments(path)


def test_without_a_grid_there_is_one_experiment_named_after_the_file(tmp_path: Path) -> None:
    assert list(read_experiments(written(tmp_path, 'dataset = "digits"'))) == ["trial"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seeds = ", "is not TOML"),
        ("seeds = 3\nsede = 4", "unknown experiment key 'sede': did you mean 'seeds'"),
        ("seeds = 'three'", "seeds is 'three': expected a whole number"),
        ("seeds = 2024-01-01", "seeds is datetime.date"),
        ("grid = 5", "grid is 5: expected a table of lists"),
        ("[grid]\nseeds = 5", "grid.seeds is 5: expected a list with at least one value"),
        ("[grid]\nseeds = []", "grid.seeds is .*: expected a list with at least one value"),
        ("[grid]\nseeds = [1, 1]", "grid holds the point 'trial-seeds1' twice"),
        ("[grid]\nsites = [3, -1]", "sites is -1"),
        ("[grid]\n'fedes.k' = [3]", "unknown method or experiment key 'fedes': did you mean 'feddes'"),
        ("dataset = 'digits'\n[grid]\n'dataset.x' = [3]", "'dataset' is 'digits', which has no keys of its own"),
        ("[grid]\n'peerwise.kk' = [3]", "unknown parameter 'kk'"),
    ],
)
def test_a_wrong_file_is_refused_with_its_path(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"trial.toml.*{message}"):
        read_experiments(written(tmp_path, text))


def test_bytes_that_are_no_text_and_a_file_that_is_not_there_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "trial.toml"
    with pytest.raises(ConfigError, match="is not there: expected an experiment file"):
        read_experiments(path)
    path.write_bytes(b"seeds = \xff\xfe")
    with pytest.raises(ConfigError, match="is not TOML"):
        read_experiments(path)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("seeds", {"seeds": 7}),
        ("peerwise.k", {"method": {"peerwise": {"k": 7}}}),
        ("method.peerwise.k", {"method": {"peerwise": {"k": 7}}}),
        ("peerwise:a.k", {"method": {"peerwise:a": {"k": 7}}}),
        ("method.peerwise:a.k", {"method": {"peerwise:a": {"k": 7}}}),
        ("training.lr", {"training": {"lr": 7}}),
        ("absent.site-0", {"absent": {"site-0": 7}}),
        ("options.target", {"options": {"target": 7}}),
        ("partition_settings.alpha", {"partition_settings": {"alpha": 7}}),
    ],
)
def test_a_dotted_key_sets_one_value(key: str, expected: dict[str, Any]) -> None:
    settings: dict[str, Any] = {}
    set_key(settings, key, 7)
    assert settings == expected


def test_a_dotted_key_below_a_plain_value_is_refused() -> None:
    with pytest.raises(ConfigError, match="'peerwise' is 3, which has no keys of its own"):
        set_key({"method": {"peerwise": 3}}, "peerwise.k", 7)


def test_an_experiment_survives_its_own_toml(tmp_path: Path) -> None:
    experiment = Experiment(
        dataset="digits", rows=50, partition="exdir", partition_settings={"alpha": 0.5}, sites=4, models=("mlp",),
        epochs=3, methods=("peerwise:a", "fedavg"), method={"peerwise:a": {"k": 3, "random_state": None}}, seeds=2,
        public=20, public_alpha=0.5, flipped=1, training={"lr": 0.1}, tune=2, join=0.5, absent={"site-1": [0, 2]},
    )  # fmt: skip
    read = read_experiments(written(tmp_path, experiment.to_toml()))["trial"]
    assert read.method == {"peerwise:a": {"k": 3}}
    assert (read.pool_key, read.seeds, read.methods) == (experiment.pool_key, 2, ("peerwise:a", "fedavg"))
    assert (read.training, read.tune, read.join) == ({"lr": 0.1}, 2, 0.5)
    assert read.absent == {"site-1": [0, 2]}


@pytest.mark.parametrize(("name", "points"), [("heart", 1), ("digits_dirichlet", 3), ("feddes_fashion", 6)])
def test_the_experiments_in_the_repository_are_in_order(name: str, points: int) -> None:
    found = read_experiments(EXPERIMENTS / f"{name}.toml")
    assert len(found) == points
    assert all({"local", "local_rounds"} & set(each.methods) and "peerwise" in each.methods for each in found.values())
    assert len({each.pool_key for each in found.values()}) == points
