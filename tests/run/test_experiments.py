"""Experiments are checked in full before any work: keys, names, types, choices; TOML files and their grids."""

from __future__ import annotations

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
        ({"methods": []}, r"methods is empty: expected at least one of .*feddes"),
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
        ({"method": {"feddes": 3}}, "method is {'feddes': 3}: expected a table of a table"),
        ({"method": {"fedes": {}}}, "method: unknown method 'fedes'"),
        ({"method": {"feddes": {"kk": 1}}}, r"method.feddes: unknown parameter 'kk': did you mean 'k'\?"),
        ({"method": {"feddes": {"k": "x"}}}, "method.feddes.k is 'x': expected a whole number"),
        ({"methods": ["local"], "method": {"feddes": {"k": 3}}}, r"method.feddes has settings, but methods is local"),
    ],
    ids=str,
)
def test_a_wrong_experiment_is_refused_with_the_key_and_the_choices(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        experiment_from(settings)


def test_names_may_be_a_list_or_divided_by_commas() -> None:
    assert Experiment(methods="local, feddes").methods == Experiment(methods=["local", "feddes"]).methods  # type: ignore[arg-type]


def test_what_decides_the_models_decides_the_folder_and_nothing_else() -> None:
    base = Experiment(methods=("feddes",))
    same = [Experiment(methods=("local", "feddes"), seeds=9, method={"feddes": {"k": 7}}), Experiment(subgroup="sex")]
    other = [Experiment(rows=99), Experiment(models=("logistic",)), Experiment(epochs=3), Experiment(folds=4),
             Experiment(partition="natural"), Experiment(public=3)]  # fmt: skip
    assert {each.pool_key for each in same} == {base.pool_key}
    assert len({base.pool_key, *(each.pool_key for each in other)}) == 1 + len(other)


def test_a_method_with_settings_of_its_own_has_a_label_of_its_own() -> None:
    plain, seven, eight = (Experiment(method={"feddes": {"k": k}} if k else {}) for k in (0, 7, 8))
    assert plain.label("feddes") == "feddes"
    assert plain.label("feddes") != seven.label("feddes") != eight.label("feddes")
    assert seven.label("local") == "local"


def test_a_grid_gives_one_experiment_for_each_point(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        dataset = "digits"
        partition = "dirichlet"
        methods = ["local", "feddes"]
        [partition_settings]
        min_rows = 5
        [grid]
        "partition_settings.alpha" = [0.1, 1]
        "feddes.k" = [3, 7]
        models = [["logistic"], ["logistic", "forest"]]
        """,
    )
    found = read_experiments(path)
    assert len(found) == 8
    one = found["trial-alpha0.1-k7-modelslogistic,forest"]
    assert one.partition_settings == {"min_rows": 5, "alpha": 0.1}
    assert one.method == {"feddes": {"k": 7}}
    assert one.models == ("logistic", "forest")
    assert len({each.pool_key for each in found.values()}) == 4
    assert all(Path(name).name == name for name in found)


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
        ("[grid]\n'feddes.kk' = [3]", "unknown parameter 'kk'"),
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
        ("feddes.k", {"method": {"feddes": {"k": 7}}}),
        ("method.feddes.k", {"method": {"feddes": {"k": 7}}}),
        ("options.target", {"options": {"target": 7}}),
        ("partition_settings.alpha", {"partition_settings": {"alpha": 7}}),
    ],
)
def test_a_dotted_key_sets_one_value(key: str, expected: dict[str, Any]) -> None:
    settings: dict[str, Any] = {}
    set_key(settings, key, 7)
    assert settings == expected


def test_a_dotted_key_below_a_plain_value_is_refused() -> None:
    with pytest.raises(ConfigError, match="'feddes' is 3, which has no keys of its own"):
        set_key({"method": {"feddes": 3}}, "feddes.k", 7)


def test_an_experiment_survives_its_own_toml(tmp_path: Path) -> None:
    experiment = Experiment(
        dataset="digits", rows=50, partition="exdir", partition_settings={"alpha": 0.5}, sites=4, models=("mlp",),
        epochs=3, methods=("feddes",), method={"feddes": {"k": 3, "random_state": None}}, seeds=2,
    )  # fmt: skip
    read = read_experiments(written(tmp_path, experiment.to_toml()))["trial"]
    assert read.method == {"feddes": {"k": 3}}
    assert (read.pool_key, read.seeds, read.methods) == (experiment.pool_key, 2, ("feddes",))


@pytest.mark.parametrize(("name", "points"), [("heart", 1), ("digits_dirichlet", 3), ("fashion_exdir", 4)])
def test_the_experiments_in_the_repository_are_in_order(name: str, points: int) -> None:
    found = read_experiments(EXPERIMENTS / f"{name}.toml")
    assert len(found) == points
    assert all({"local", "feddes"} <= set(each.methods) for each in found.values())
    assert len({each.pool_key for each in found.values()}) == points


def test_every_experiment_in_the_repository_is_tried_here() -> None:
    assert {path.stem for path in EXPERIMENTS.glob("*.toml")} == {"heart", "digits_dirichlet", "fashion_exdir"}
