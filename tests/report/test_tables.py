"""The tables of the terminal: readable at 80 columns, honest where there is nothing to say."""

from __future__ import annotations

import io
from typing import Literal

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from peerwise.methods import method_names
from peerwise.report import print_summary
from peerwise.report.tables import _bytes


def summary(names: list[str], paired: bool = True) -> pd.DataFrame:
    lines = {}
    for place, name in enumerate(names):
        line: dict[str, float] = {}
        for metric in ("accuracy", "balanced_accuracy"):
            line |= {metric: 0.5 + 0.05 * place, f"{metric}_std": 0.123, f"{metric}_seed_std": 0.012}
            line[f"{metric}_worst"] = 0.25
            if paired:
                line |= {f"{metric}_gain": 0.05 * place - 0.05, f"{metric}_wins": 1.0, f"{metric}_ties": 0.0}
                line[f"{metric}_losses"] = 0.0
        line |= {"ensemble_size": 123.4, "ess": 120.1, "fallback": 1.0, "oracle": 1.0, "bytes_sent": 7.8e8}
        line |= {f"seconds_{phase}": 12345.6 for phase in ("train", "outputs", "fit", "predict")}
        lines[name] = line
    return pd.DataFrame.from_dict(lines, orient="index")


def shown(table: pd.DataFrame, width: int = 80, colour: bool = False) -> str:
    text = io.StringIO()
    system: Literal["standard"] | None = "standard" if colour else None
    print_summary(table, Console(file=text, width=width, highlight=False, force_terminal=colour, color_system=system))
    return text.getvalue()


def test_tables_of_all_methods_fit_80_columns_without_cutting_a_word() -> None:
    names = [*method_names(), "global_ensemble~abc123"]
    text = shown(summary(names))
    assert "…" not in text
    assert all(len(line) <= 80 for line in text.splitlines())
    assert all(sum(line.startswith(f"{name} ") for line in text.splitlines()) == 4 for name in names)
    assert "win/tie/loss %" in text
    assert "780 MB" in text


def test_numbers_are_percent_with_a_sign_where_it_is_a_gain() -> None:
    lines = shown(summary(["local", "feddes", "best"])).splitlines()
    feddes = next(line for line in lines if line.startswith("feddes"))
    assert feddes.split() == ["feddes", "55.0", "12.3", "1.2", "25.0", "+0.0", "100", "/", "0", "/", "0"]
    assert "-5.0" in next(line for line in lines if line.startswith("local"))


def test_without_local_the_columns_against_it_are_left_out() -> None:
    assert "win/tie/loss" in shown(summary(["feddes"]))
    assert "win/tie/loss" not in shown(summary(["feddes"], paired=False))


def test_what_is_not_known_is_a_dash_and_never_nan() -> None:
    table = summary(["local", "feddes"])
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
    assert _bytes(size) == text
