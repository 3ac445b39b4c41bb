"""The command line within this process: what is printed where, and what is refused with exit code 2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from peerwise.cli import main
from peerwise.data import DATASETS, PARTITIONS
from peerwise.methods import method_names
from peerwise.models import ZOO
from peerwise.transport import TRANSPORTS
from peerwise.trust import LEARNERS

TINY = ["digits", "--sites", "3", "--rows", "300", "--models", "logistic", "--seeds", "1", "--folds", "2"]
KNOWN = {
    "methods": method_names(), "learners": LEARNERS, "datasets": DATASETS, "models": ZOO, "partitions": PARTITIONS,
    "transports": TRANSPORTS,
}  # fmt: skip
JSON_PARTS = {"experiment", "evaluation", "summary", "sites", "subgroups", "site_subgroups", "fell_back", "folder"}
JSON_PARTS |= {"peers_left_out", "missed_rounds", "privacy", "tuned", "collapsed", "curves"}
JSON_PARTS |= {"confusions", "vote_curves"}
SUMMARY_NAMES = """
    method accuracy accuracy_std accuracy_seed_std accuracy_worst accuracy_worst_tenth accuracy_gain
    accuracy_gain_low accuracy_gain_high accuracy_wins accuracy_ties accuracy_losses accuracy_win_rate
    accuracy_win_rate_low accuracy_win_rate_high accuracy_negative_transfer accuracy_negative_transfer_size
    accuracy_negative_transfer_burden accuracy_worst_tenth_gain balanced_accuracy balanced_accuracy_gain
    balanced_accuracy_gain_low balanced_accuracy_gain_high tests significantly_better significantly_worse auroc
    auroc_sites auprc sensitivity specificity ece log_loss brier ensemble_size ess fallback oracle oracle_gap_closed
    selected_wrong missed_right mismatch trust_on_wrong pool_wrong home_spearman home_spearman_peers
    bytes_sent bytes_received rounds
"""
SITE_NAMES = """
    seed method site test_rows accuracy balanced_accuracy auroc auprc sensitivity specificity ece log_loss brier
    reference own_accuracy own_balanced_accuracy only_ours only_own accuracy_gain accuracy_gain_low accuracy_gain_high
    balanced_accuracy_gain balanced_accuracy_gain_low balanced_accuracy_gain_high mcnemar_p holm_p ensemble_size ess
    fallback oracle oracle_gap_closed mismatch trust_on_wrong undefined fell_back_to fell_back_why peers_left_out
    bytes_sent bytes_received rounds took_part best_round lr
"""
NETS = ["digits", "--sites", "3", "--rows", "240", "--models", "mlp", "--seeds", "1"]
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def no_constant(name: str) -> Any:
    raise AssertionError(f"{name} is no JSON")


def refused(capsys: Capture, *arguments: str) -> str:
    """One sentence on standard error, nothing on standard output, exit code 2."""
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("peerwise: ")
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in err
    return err


@pytest.mark.parametrize("what", KNOWN)
def test_list_names_everything_there_is(capsys: Capture, what: str) -> None:
    assert main(["list", what]) == 0
    table = capsys.readouterr().out
    assert all(name in table for name in KNOWN[what])
    assert main(["list", what, "--format", "json"]) == 0
    entries = json.loads(capsys.readouterr().out, parse_constant=no_constant)
    assert [entry["name"] for entry in entries] == sorted(KNOWN[what])
    assert all(entry["about"] for entry in entries)


@pytest.mark.parametrize("what", KNOWN)
def test_a_list_has_one_line_each_within_80_columns(capsys: Capture, what: str) -> None:
    main(["list", what])
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert [line.split()[0] for line in lines if line and not line.startswith("parameters")] == sorted(KNOWN[what])


def test_one_method_is_listed_with_its_parameters_and_its_budget(capsys: Capture) -> None:
    assert main(["list", "methods", "fedavg"]) == 0
    out = capsys.readouterr().out
    assert "  rounds = 100\n" in out
    assert "  optimizer = sgd\n" in out
    assert main(["list", "methods", "fedavg", "--format", "json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry["parameters"]["lr"] == 0.01


def test_a_method_of_ones_own_is_listed_as_simulate_takes_it(capsys: Capture) -> None:
    Path("listed_module.py").write_text(
        "from peerwise.trust import BestSingle\n\nclass Mine(BestSingle):\n    '''My rule. More.'''\n\n"
        "    def __init__(self, least, most=max):\n        pass\n"
    )
    assert main(["list", "methods", "listed_module:Mine"]) == 0
    assert capsys.readouterr().out == "listed_module:Mine: My rule.\n  least\n  most = <built-in function max>\n"
    assert main(["list", "methods", "listed_module:Mine", "--format", "json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry["about"] == "My rule."


def test_list_shows_parameters_with_their_defaults(capsys: Capture) -> None:
    main(["list", "methods", "--format", "json"])
    entries = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert entries["peerwise"]["parameters"]["k"] == 5
    assert entries["local"]["parameters"] == {}
    main(["list", "partitions", "--format", "json"])
    entries = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert set(entries["exdir"]["parameters"]) == {"classes_per_site", "alpha", "min_rows"}


def test_simulate_prints_the_tables_and_where_the_results_are(capsys: Capture) -> None:
    assert main(["simulate", *TINY, "--methods", "local,best_single", "--out", "here"]) == 0
    out, err = capsys.readouterr()
    assert "Against what a site has alone: accuracy" in out
    assert "results: here/results.parquet" in out
    assert out.endswith("\nreport: here/report.html\n")
    assert "<h1>digits, 3 sites, 1 seed</h1>" in Path("here/report.html").read_text()
    assert "seed 0, best_single: 3 sites" in err
    assert len(pd.read_parquet("here/results.parquet")) == 6


def test_without_out_the_folder_is_named_after_data_set_and_federation(capsys: Capture) -> None:
    assert main(["simulate", *TINY, "--methods", "local"]) == 0
    assert main(["simulate", *TINY, "--methods", "local", "--public", "10"]) == 0
    assert len([path for path in Path("runs").iterdir() if path.name.startswith("digits-")]) == 2


def test_json_alone_is_on_standard_output(capsys: Capture) -> None:
    arguments = [
        "--methods",
        "local,neighbourhood",
        "--set",
        "neighbourhood.k=3",
        "--format",
        "json",
        "-q",
        "--out",
        "x",
    ]
    assert main(["simulate", *TINY, *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    found = json.loads(out, parse_constant=no_constant)
    assert found["experiment"]["method"] == {"neighbourhood": {"k": 3}}
    assert found["summary"][0]["method"] == "local"
    assert found["summary"][0]["ess"] is None
    assert len(found["sites"]) == 6
    assert found["folder"] == "x"
    assert set(found) == JSON_PARTS
    assert set(SUMMARY_NAMES.split()) <= set(found["summary"][0])
    assert set(SITE_NAMES.split()) <= set(found["sites"][0])
    assert isinstance(found["sites"][3]["only_ours"], int)
    assert "more than two classes" in found["sites"][0]["undefined"]["sensitivity"]
    assert found["evaluation"]["positive"] is None


def test_class_names_reach_json_as_they_are(capsys: Capture) -> None:
    """Names that a terminal library would take for markup or pictures."""
    rng = np.random.default_rng(0)
    target = np.array([":heart:", "[red]", "Zürich"])[np.arange(90) % 3]
    frame = pd.DataFrame(
        {"a": rng.normal(size=90), "b": rng.normal(size=90), "target": target, "place": [":cat:"] * 90}
    )
    frame.loc[45:, "place"] = "[bold]b[/bold]"
    frame.to_csv("rows.csv", index=False)
    settings = ["--target", "target", "--site", "place", "--models", "logistic", "--seeds", "1"]
    assert main(["simulate", "rows.csv", *settings, "--methods", "local", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {line["site"] for line in found["sites"]} == {":cat:", "[bold]b[/bold]"}


HEART = ["heart_disease", "--models", "logistic", "--seeds", "1", "--folds", "2", "--methods", "local,best_single"]


def test_threshold_positive_class_and_subgroup_reach_the_numbers(capsys: Capture) -> None:
    base = ["simulate", *HEART, "--format", "json", "-q", "--out", "heart"]
    assert main(base) == 0
    plain = json.loads(capsys.readouterr().out, parse_constant=no_constant)
    assert plain["evaluation"]["positive"] == "disease"
    assert plain["subgroups"] == plain["site_subgroups"] == []
    assert main([*base, "--positive", "healthy", "--threshold", "0.2", "--subgroup", "sex"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=no_constant)
    assert (found["evaluation"]["positive"], found["evaluation"]["threshold"]) == ("healthy", 0.2)
    for before, after in zip(plain["summary"], found["summary"], strict=True):
        assert after["sensitivity"] >= before["specificity"]  # the healthy, called from a lower probability
        assert after["accuracy"] == before["accuracy"]
    groups = {(line["method"], line["subgroup"]): line for line in found["subgroups"]}
    assert set(groups) == {(m, g) for m in ("local", "best_single") for g in ("female", "male")}
    assert groups["best_single", "male"]["rows"] + groups["best_single", "female"]["rows"] == sum(
        line["test_rows"] for line in found["sites"] if line["method"] == "local"
    )


def test_the_tables_name_the_class_to_be_found_and_the_subgroups(capsys: Capture) -> None:
    assert main(["simulate", *HEART, "-q", "--out", "heart", "--threshold", "0.3", "--subgroup", "sex"]) == 0
    out = capsys.readouterr().out
    assert "'disease' is called from a probability of 0.3" in out
    assert "Subgroup female: " in out
    assert all(len(line) <= 80 for line in out.splitlines())


def test_a_grid_gives_a_folder_and_a_table_for_each_point(capsys: Capture) -> None:
    Path("trial.toml").write_text(
        'dataset = "digits"\nrows = 300\nsites = 3\nmodels = ["logistic"]\nseeds = 1\nmethods = ["local"]\n'
        'partition = "dirichlet"\n[grid]\n"partition_settings.alpha" = [1, 10]\n'
    )
    assert main(["simulate", "trial.toml", "--out", "both"]) == 0
    out = capsys.readouterr().out
    for name in ("trial-alpha1", "trial-alpha10"):
        assert f"{name}\n" in out
        assert Path("both", name, "results.parquet").is_file()
    assert main(["simulate", "trial.toml", "--out", "both", "--format", "json", "-q"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2


def test_partition_flags_reach_the_partition(capsys: Capture) -> None:
    flags = ["--partition", "exdir", "--classes-per-site", "4", "--alpha", "2", "--min-rows", "5"]
    assert main(["simulate", *TINY, *flags, "--methods", "local", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["experiment"]
    assert found["partition_settings"] == {"classes_per_site": 4, "alpha": 2, "min_rows": 5}


def test_methods_with_rounds_from_flags_to_tables_and_json(capsys: Capture) -> None:
    flags = ["--methods", "local_rounds,fedavg,fedavg:slow", "--set", "fedavg:slow.lr=0.001", "--rounds", "2",
             "--lr", "0.1", "--local-epochs", "1", "--batch-size", "16", "--optimizer", "sgd", "--tune", "2",
             "--join", "0.7", "--set", "absent.site-1=[0]", "--public", "20", "--public-alpha", "0.5", "--flipped", "1",
             "--out", "here"]  # fmt: skip
    assert main(["simulate", *NETS, *flags]) == 0
    out, err = capsys.readouterr()
    assert "seed 0, fedavg, lr 0.0333333: 3 sites, 2 rounds" in err
    assert "of 2 on validation rows (0.1, 0.0333333)" in out
    assert "fedavg:slow: not all took part in every round (from 0): " in out
    assert main(["simulate", *NETS, *flags, "--format", "json", "-q"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=no_constant)
    training = {"rounds": 2, "lr": 0.1, "local_epochs": 1, "batch_size": 16, "optimizer": "sgd"}
    wanted = {
        "training": training,
        "tune": 2,
        "join": 0.7,
        "absent": {"site-1": [0]},
        "public_alpha": 0.5,
        "flipped": 1,
    }
    assert {key: found["experiment"][key] for key in wanted} == wanted
    assert [line["method"] for line in found["tuned"]] == ["local_rounds", "fedavg", "fedavg:slow"]
    assert {line["site"] for line in found["missed_rounds"] if line["method"] == "fedavg"} >= {"site-1"}
    points = {line["site"]: line["points"] for line in found["curves"] if line["method"] == "fedavg"}
    assert [round for round, _ in points["site-0"]] == [0, 1]
    assert found["privacy"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate"], "no data set: name one"),
        (["simulate", "digts"], "unknown data set 'digts': did you mean 'digits'?"),
        (["simulate", "digits", "--split", "x.npz"], "both a data set"),
        (["simulate", *TINY, "--methods", "fedes"], "unknown method 'fedes': did you mean 'feddes'?"),
        (["simulate", *TINY, "--methods", ","], "methods is empty"),
        (["simulate", "digits", "--models", "forrest"], "did you mean 'forest'?"),
        (["simulate", "digits", "--models", "lenet"], "'lenet' takes image rows"),
        (["simulate", *TINY, "--alpha", "1"], "without a partition: name one"),
        (["simulate", *TINY, "--partition", "dirichlet", "--alpha", "x"], "alpha is 'x': expected a finite number"),
        (["simulate", *TINY, "--partition", "dirichlet", "--alpha", "NaN"], "alpha is nan: expected a finite number"),
        (["simulate", *TINY, "--partition", "disjoint", "--alpha", "1"], "unknown parameter 'alpha'"),
        (["simulate", *TINY, "--set", "nonsense"], "expected KEY=VALUE"),
        (["simulate", *TINY, "--set", "=3"], "expected KEY=VALUE"),
        (["simulate", *TINY, "--set", "nonsense=3"], "unknown method or experiment key 'nonsense'"),
        (["simulate", *TINY, "--set", "fedes.k=3"], "did you mean 'feddes'?"),
        (["simulate", *TINY, "--set", "peerwise.k=three"], "method.peerwise.k is 'three': expected a whole number"),
        (["simulate", *TINY, "--methods", "local", "--set", "peerwise.k=3"], "add 'peerwise' to methods"),
        (["simulate", *TINY, "--set", "options.target=x"], "digits: unknown option 'target'"),
        (["simulate", *TINY, "--threshold", "0"], "threshold is 0.0: expected a probability above 0 and at most 1"),
        (["simulate", *TINY, "--threshold", "1.5"], "threshold is 1.5"),
        (["simulate", *TINY, "--threshold", "nan"], "threshold is nan"),
        (["simulate", "heart_disease", "--positive", "diseas"], "unknown class 'diseas': did you mean 'disease'?"),
        (["simulate", "heart_disease", "--subgroup", "sexx"], "unknown column 'sexx': did you mean 'sex'?"),
        (["simulate", *TINY, "--seeds", "0"], "seeds is 0: expected a whole number of at least 1"),
        (["simulate", *TINY, "--workers", "0"], "workers is 0"),
        (["simulate", *TINY, "--executor", "slurm"], "executor is 'slurm': expected 'local', 'dask:ADDRESS'"),
        (["simulate", *TINY, "--executor", "dask:127.0.0.1:1"], "no Dask scheduler answers there"),
        (["simulate", *TINY, "--executor", "dask:nowhere"], "no Dask scheduler answers there"),
        (["simulate", *TINY, "--executor", "ray:127.0.0.1:1"], "no Ray cluster answers there"),
        (["simulate", *TINY, "--device", "abacus"], "device is 'abacus'"),
        (["simulate", *TINY, "--public", "300"], "public=300"),
        (["simulate", *TINY, "--out", "file"], "file is a file: expected a folder"),
        (["simulate", "--split", "lost.npz"], "lost.npz is not there"),
        (["simulate", "--split", "cut.npz"], "cut.npz"),
        (["simulate", "lost.csv"], "lost.csv is not there"),
        (["simulate", "rows.csv"], "say which target"),
        (["simulate", "lost.toml"], "lost.toml is not there"),
        (["simulate", "wrong.toml"], "wrong.toml: unknown experiment key 'sede': did you mean 'seeds'?"),
        (["simulate", "digits", "--fast"], "--fast is for experiment files"),
        (["simulate", "right.toml", "--fast"], "right.toml: fast is {}: expected a table of smaller sizes"),
        (["simulate", "right.toml", "--seeds", "2"], "seeds cannot be given beside it"),
        (
            ["simulate", "heart_disease", "--partition", "vertical", "--sites", "3"],
            "'stacking', which matches columns by name",
        ),
        (["simulate", "digits", "--methods", "local,fedavg"], "has no neural network among its models (logistic, for"),
        (["simulate", *TINY, "--lr", "0.1"], "none of local, peerwise trains in rounds"),
        (["simulate", *NETS, "--methods", "fedavg", "--lr", "0"], "training.lr is 0.0: expected a learning rate above"),
        (["simulate", *NETS, "--methods", "fedavg", "--optimizer", "x"], "training.optimizer is 'x': expected 'sgd'"),
        (["simulate", *NETS, "--methods", "fedavg:?"], "has the tag '?'"),
        (["simulate", *NETS, "--methods", "fedavg", "--set", "absent.x=[1]"], "absent: unknown site 'x'"),
        (["simulate", *NETS, "--methods", "fedavg", "--join", "0"], "join is 0.0: expected a share of the sites"),
        (["simulate", *TINY, "--methods", "local", "--flipped", "4"], "flipped is 4: expected at most 3"),
        (["list", "methods", "fedav"], "unknown method 'fedav': did you mean 'fedavg'?"),
        (["list", "methods", "no_module:Mine"], "method 'no_module:Mine': ModuleNotFoundError"),
        (["simulate", "digits", "--methods", "mine.My"], "is 'module:Name': did you mean 'mine:My'?"),
        (["simulate", "digits", "--partition", "mine.by"], "is 'module:Name': did you mean 'mine:by'?"),
        (["simulate", "digits", "--models", "mine.net"], "is 'module:Name': did you mean 'mine:net'?"),
        (["demo", "--seeds", "0"], "seeds is 0"),
        (["demo", "--out", "file"], "file is a file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_input_is_one_sentence_and_exit_code_2(capsys: Capture, arguments: list[str], message: str) -> None:
    Path("file").write_text("mine")
    Path("rows.csv").write_text("a,b\n1,2\n3,4\n")
    Path("wrong.toml").write_text("seeds = 3\nsede = 4\n")
    Path("right.toml").write_text('dataset = "digits"\n')
    np.savez("whole.npz", x=np.zeros((50, 3)), y=np.zeros(50), client=np.zeros(50), split=np.zeros(50))
    Path("cut.npz").write_bytes(Path("whole.npz").read_bytes()[:500])
    before = sorted(path.name for path in Path().iterdir())
    assert message in refused(capsys, *arguments)
    assert sorted(path.name for path in Path().iterdir()) == before, "nothing was begun"


@pytest.mark.parametrize(
    "arguments",
    [
        ["simulat"],
        ["list"],
        ["list", "cats"],
        ["simulate", "digits", "--sites", "x"],
        ["simulate", "digits", "--threshold", "high"],
        ["simulate", "digits", "--assign", "some"],
        ["list", "models", "--format", "xml"],
    ],
    ids=" ".join,
)
def test_wrong_arguments_exit_with_2_and_the_usage(capsys: Capture, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "usage: peerwise" in capsys.readouterr().err


def test_the_bare_command_shows_what_there_is(capsys: Capture) -> None:
    assert main([]) == 2
    assert "compare methods on a simulated federation" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["simulate", "report", "list", "demo"])
def test_the_help_of_every_verb_shows_an_example(capsys: Capture, verb: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([verb, "--help"])
    assert stopped.value.code == 0
    assert f"peerwise {verb} " in capsys.readouterr().out.split("example", 1)[1]


def test_help_tells_the_exit_codes(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "exit codes: 0 done, 1 a fault in Peerwise, 2 bad input" in capsys.readouterr().out


@pytest.mark.slow
def test_the_demo_prints_a_table_an_explained_case_and_where_the_results_are(capsys: Capture) -> None:
    assert main(["demo", "--seeds", "1", "--workers", "1", "--out", "demo", "-q"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    _, tables = out.split("The methods\n")
    for method, number in (("local", 4), ("global_ensemble", 7), ("best_single", 7), ("peerwise", 7)):
        assert sum(line.startswith(f"{method} ") for line in tables.splitlines()) == number
    assert "One answer opened" in out
    assert "(own)" in out
    assert "nearest known cases" in out
    assert "results: demo/results.parquet   settings: demo/config.toml" in out
    assert out.endswith("\nreport: demo/report.html\n")
    assert Path("demo/report.html").stat().st_size < 1_000_000
    assert len(pd.read_parquet("demo/results.parquet")) == 16
