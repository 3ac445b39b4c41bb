"""The tables of the terminal: readable at 80 columns, honest where there is nothing to say."""

from __future__ import annotations

import io
from typing import Literal

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from peerwise.evaluate import Assessment
from peerwise.methods import method_names
from peerwise.report import print_assessment, print_summary
from peerwise.report.cells import size as bytes_shown
from peerwise.report.tables import PHASES


def summary(names: list[str], paired: bool = True) -> pd.DataFrame:
    """Lines as wide as they can get."""
    lines = {}
    for place, name in enumerate(names):
        line: dict[str, float | str | None] = {"bar": ("own", "local")[place % 2] if paired else None}
        for metric in ("accuracy", "balanced_accuracy"):
            line |= {metric: min(0.5 + 0.05 * place, 1.0), f"{metric}_std": 0.123, f"{metric}_seed_std": 0.012}
            line[f"{metric}_worst_tenth"] = 0.25
            if paired:
                line |= {f"{metric}_gain": min(0.05 * place - 0.05, 1.0), f"{metric}_wins": 1.0, f"{metric}_ties": 0.0}
                line |= {f"{metric}_losses": 0.0, f"{metric}_negative_transfer_burden": 0.1234}
                line |= {f"{metric}_gain_low": -0.123, f"{metric}_gain_high": 0.123}
        line |= dict.fromkeys(("auroc", "auprc", "sensitivity", "specificity", "ece"), 1.0)
        line |= {"log_loss": 12.345, "brier": 1.999, "tests": 200, "significantly_better": 150}
        line |= {"significantly_worse": 3, "oracle_gap_closed": -1.234, "trust_on_wrong": 1.0, "mismatch": 123.4}
        line |= {"home_spearman": -0.55, "ensemble_size": 123.4, "ess": 120.1, "fallback": 1.0, "oracle": 1.0}
        line |= {"bytes_sent": 7.8e8, "bytes_received": 7.8e10, "rounds": 1000.0} | {
            f"seconds_{phase}": 12345.6 for phase in PHASES
        }
        lines[name] = line
    return pd.DataFrame.from_dict(lines, orient="index")


def shown(table: pd.DataFrame, width: int = 80, colour: bool = False) -> str:
    text = io.StringIO()
    system: Literal["standard"] | None = "standard" if colour else None
    settings = {"positive": "disease", "threshold": 0.3}
    print_summary(
        table,
        Console(file=text, width=width, highlight=False, force_terminal=colour, color_system=system),
        settings,
    )
    return text.getvalue()


def test_tables_of_all_methods_fit_80_columns_without_cutting_a_word() -> None:
    names = [*method_names(), "global_ensemble~abc123"]
    text = shown(summary(names))
    assert "…" not in text
    assert all(len(line) <= 80 for line in text.splitlines())
    for name in names:
        expected = 4 if name in ("local", "local_rounds") else 6  # they are not held to themselves
        assert sum(line.startswith(f"{name} ") for line in text.splitlines()) == expected
    assert "780 MB" in text
    assert "78 GB" in text
    assert "'disease' is called from a probability of 0.3" in text


def lines_of(text: str, method: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.startswith(f"{method} ")]


def test_numbers_are_percent_with_a_sign_where_it_is_a_gain() -> None:
    right, own, balanced, worth, trusted, _ = lines_of(shown(summary(["local", "low", "peerwise"])), "peerwise")
    assert right == ["peerwise", "60.0", "12.3", "1.2", "25.0", "60.0", "1.2", "25.0"]
    assert own == ["peerwise", "+5.0", "-12.3", "to", "+12.3", "100/0/0", "12.34", "150/3"]
    assert balanced == own[:-1]
    assert worth == ["peerwise", "100.0", "100.0", "100.0", "100.0", "100.0", "12.35", "2.00"]
    assert trusted == ["peerwise", "123", "120", "100.0", "100.0", "-123.4", "100.0", "123", "-0.55"]


def test_the_cost_has_rounds_and_bytes_sent_and_received() -> None:
    cost = lines_of(shown(summary(["local", "peerwise"])), "peerwise")[-1]
    assert cost == ["peerwise", "1000", "780", "MB", "78", "GB", "12346", "12346", "12346", "12346"]
    bare = summary(["peerwise"]).drop(columns=["bytes_received", "rounds"])
    assert lines_of(shown(bare), "peerwise")[-1][:5] == ["peerwise", "-", "780", "MB", "-"]


def test_the_number_of_tests_is_told() -> None:
    assert "of 200 sites x seeds (exact McNemar test at 5 %, Holm)" in shown(summary(["peerwise"]))


def test_without_own_models_there_is_no_table_against_them() -> None:
    assert "Against what a site has alone: accuracy" in shown(summary(["peerwise"]))
    assert "Against" not in shown(summary(["peerwise"], paired=False))
    assert "Against" not in shown(summary(["local"]))


def test_methods_that_do_not_choose_have_no_table_of_choices() -> None:
    table = summary(["local", "centralised"])
    table["ensemble_size"] = np.nan
    assert "Whom it trusts" not in shown(table)


def test_more_than_two_classes_have_no_columns_of_dashes() -> None:
    table = summary(["local", "peerwise"])
    table[["sensitivity", "specificity"]] = np.nan
    assert "tivity" not in shown(table)
    assert "AUROC" in shown(table)


def test_the_bare_summary_of_results_has_tables_too() -> None:
    """What `summarise` gives by itself, without tests and intervals."""
    lost = ["tests", "significantly_better", "significantly_worse", "oracle_gap_closed", "trust_on_wrong", "mismatch"]
    ends = [f"{metric}_gain_{end}" for metric in ("accuracy", "balanced_accuracy") for end in ("low", "high")]
    text = shown(summary(["local", "peerwise"]).drop(columns=[*lost, *ends, "home_spearman"]))
    assert "sig." not in text
    assert lines_of(text, "peerwise")[1] == ["peerwise", "+0.0", "-", "100/0/0", "12.34"]


def test_subgroups_sites_that_fell_back_and_models_left_out_follow_the_tables() -> None:
    metrics = dict.fromkeys(("accuracy", "balanced_accuracy", "auroc", "sensitivity", "specificity"), 1.0)
    groups = pd.DataFrame(
        [
            {"method": name, "subgroup": group, "rows": 12.3, **metrics, "accuracy_gain": -0.123, "bar": "own"}
            for group in ("[bold]old", "a subgroup with a very long name that goes on and on until the end of the line")
            for name in ("local", "global_ensemble~abc123")
        ]
    )
    why = {"seed": 2, "method": "peerwise", "site": "ward", "to": "its own models", "why": "the loss was NaN"}
    lost = {"seed": 0, "method": "peerwise", "site": "ward", "model": "[net]@b", "why": "on train rows: NaN"}
    found = Assessment({"positive": None}, summary(["local"]), pd.DataFrame(), groups, pd.DataFrame(), [why], [lost])
    text = io.StringIO()
    print_assessment(found, Console(file=text, width=80, highlight=False))
    assert "Subgroup [bold]old: 12 test rows a seed" in text.getvalue()
    assert "…" not in text.getvalue()
    assert lines_of(text.getvalue(), "global_ensemble~abc123")[0][-1] == "-12.3"
    assert "Site ward (seed 2, peerwise): answered by its own models, because the loss was NaN" in text.getvalue()
    assert "Site ward (seed 0, peerwise): without [net]@b, because on train rows: NaN" in text.getvalue()


def test_what_is_not_known_is_a_dash_and_never_nan() -> None:
    table = summary(["local", "peerwise"])
    table.loc["local"] = np.nan
    text = shown(table)
    assert "nan" not in text
    assert "-" in next(line for line in text.splitlines() if line.startswith("local"))


def test_colour_marks_the_best_and_the_worst_only() -> None:
    text = shown(summary(["low", "middle", "high"]), colour=True)
    first = {line.split()[0]: line for line in reversed(text.splitlines()) if line.split() and "\x1b[2m" not in line}
    assert "\x1b[31m" in first["low"]
    assert "\x1b[3" not in first["middle"]
    assert "\x1b[32m" in first["high"]


def test_one_method_alone_is_neither_best_nor_worst() -> None:
    assert "\x1b[3" not in shown(summary(["only"]), colour=True)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1, "1 B"), (999, "999 B"), (999.7, "1.0 kB"), (1000, "1.0 kB"), (9_949, "9.9 kB"), (9_960, "10 kB"),
     (77_042, "77 kB"), (999_999, "1.0 MB"), (3.2e6, "3.2 MB"), (7.1e8, "710 MB"), (2.5e9, "2.5 GB"), (4e12, "4.0 TB"),
     (4e15, "4000.0 TB"), (float("nan"), "-")],
)  # fmt: skip
def test_bytes_are_told_in_the_unit_that_fits(size: float, text: str) -> None:
    assert bytes_shown(size) == text
