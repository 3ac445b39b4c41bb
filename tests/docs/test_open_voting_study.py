"""The open-voting study measures what its tables say: whose rows teach a student, what a name stands for."""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
MODULES = tuple(
    f"open_voting{part}" for part in ("", "_cells", "_many", "_students", "_tables", "_sizes", "_published", "_picture")
)


@pytest.fixture
def study(monkeypatch: Any) -> dict[str, Any]:
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    return {name.removeprefix("open_voting").lstrip("_"): importlib.import_module(name) for name in MODULES}


def test_every_cell_is_a_federation_that_can_be_set_up(study: dict[str, Any]) -> None:
    from peerwise.run import experiment_from

    cells = study["cells"]
    for fast in (True, False):
        simulated = set(cells.STUDIES) - {"many", "students"}
        found = [cell for name in simulated for cell in cells.cells(name, fast=fast)]
        assert len({cell.name for cell in found}) == len(found), "two cells would share a folder"
        for cell in found:
            experiment_from({"dataset": cell.dataset, **cells.settings_of(cell, cell.size(fast=fast), 3)})


def test_a_name_stands_for_what_it_says(study: dict[str, Any]) -> None:
    from peerwise.methods.fedov import FedOV
    from peerwise.methods.fedsov import FedSOV

    def plan(method: Any, name: str) -> Any:
        return method(**study["cells"].method_settings(name, 20, study["cells"].FAST["fashion_mnist"])).plan()

    assert plan(FedSOV, "fedsov").sparsity == pytest.approx(0.95)
    magnitude = plan(FedSOV, "fedsov:magnitude-80")
    assert (magnitude.compress, magnitude.sparsity) == ("magnitude", 0.8)
    for name, placeholders in (("fedsov:full", False), ("fedsov:proser", True)):
        terms = plan(FedSOV, name).terms
        assert (terms.second_best, terms.between, plan(FedSOV, name).compress) == (placeholders, placeholders, "none")
    assert plan(FedOV, "fedov").terms.second_best
    assert not plan(FedOV, "fedov:plain").terms.between


def test_a_cell_runs_and_is_not_run_again(study: dict[str, Any], tmp_path: Path, monkeypatch: Any) -> None:
    cells, voting = study["cells"], study[""]
    tiny = replace(
        cells.FAST["coloured_digits"], rows=80, tested=40, epochs=1, prune_epochs=1, rounds=1, local_epochs=1
    )
    monkeypatch.setitem(cells.FAST, "coloured_digits", tiny)
    cell = cells.Cell("colour", "coloured_digits", "by colour", 2, ("fedsov", "fedavg"), net="cnn8")
    assert len(list(voting.run_cell(cell, 2, tmp_path, fast=True, workers=1))) == 1
    assert not list(voting.run_cell(cell, 2, tmp_path, fast=True, workers=1))
    table = study["tables"].read(tmp_path, "*/methods.csv")
    assert list(table["method"]) == ["fedsov", "fedavg"]
    seeds = [float(value) for value in table["by_seed"][0].split()]
    assert table["accuracy"][0] == pytest.approx(np.mean(seeds) / 100, abs=1e-3)
    text = study["tables"].markdown(table, pd.DataFrame())
    assert "### Table 8: feature skew" in text
    assert f"{100 * table['accuracy'][1]:.1f} ± " in text


def test_a_page_is_rendered_from_an_empty_folder_and_says_what_was_not_run(
    study: dict[str, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    page = tmp_path / "page.md"
    marks = "<!-- measured -->", "<!-- end of measured -->"
    page.write_text(f"before\n{marks[0]}\nold\n{marks[1]}\nafter\n")
    monkeypatch.setattr(sys, "argv", ["open_voting_tables.py", str(tmp_path), "--page", str(page)])
    study["tables"].main()
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "\nold\n" not in text
    assert text.count("Not run yet.") == len(study["tables"].NOTES), "sizes are counted, all else and the time measured"
    assert "| 10 | 149 k |" in text


def test_a_vote_at_one_place_is_the_vote_of_all(study: dict[str, Any]) -> None:
    """What the first site answers is what every site of a whole run answers."""
    from peerwise.data import make_sites
    from peerwise.data.loaders.coloured import coloured_digits
    from peerwise.methods.fedsov import FedSOV
    from peerwise.run import run_method

    method = FedSOV(local_epochs=2, compress="none")
    digits = coloured_digits(colours=2).take(np.arange(80))
    asked, again = (make_sites(digits, recipes=("cnn8",), test="common") for _ in range(2))
    run_method(method, asked)
    first = study["many"].at_the_first(method, again)
    assert np.array_equal(method.predict_proba(first, first.test.X), method.predict_proba(asked[0], first.test.X))


def test_a_student_is_taught_by_rows_like_those_of_the_sites_and_by_no_test_row(study: dict[str, Any]) -> None:
    if not os.environ.get("PEERWISE_DATA"):
        pytest.skip("needs Fashion-MNIST: set PEERWISE_DATA to a folder that has it")
    from peerwise.data import load

    cells, students = study["cells"], study["students"]
    cell = cells.Cell("students", "fashion_mnist", "dirichlet 0.1", 10, ())
    sites, pool = students.federation(load("fashion_mnist"), cell, replace(cells.FAST["fashion_mnist"], rows=600), 0)
    other = students.like(sites, pool)
    own = {row.tobytes() for site in sites for row in site.train.X}
    tested = {row.tobytes() for row in sites[0].test.X}
    label = {row.tobytes(): int(code) for row, code in zip(pool.X, pool.y, strict=True)}
    for site, rows in zip(sites, other, strict=True):
        found = {row.tobytes() for row in rows}
        assert not found & own
        assert not found & tested
        assert {label[row] for row in found} <= set(np.unique(site.train.y).tolist())
    assert sum(map(len, other)) > 0.85 * len(own)
    taught = list(students.lessons(other, np.random.default_rng(0), fast=True))
    assert [(count, share) for count, share, _ in taught][:5] == [(count, 1.0) for count in (10, 7, 5, 3, 1)]
    assert len(taught[-1][2]) == round(0.1 * len(taught[0][2]))


def test_the_counted_sizes_are_those_of_the_documentation(study: dict[str, Any]) -> None:
    """Ten sites have 1.4 times the parameters of one whole net, and send 98 kB each instead of 598."""
    counted = study["sizes"].counted
    assert 10 * counted(11, 10)[0] / counted(11, 1)[0] == pytest.approx(1.40, abs=0.01)
    assert counted(11, 10)[1] == pytest.approx(98_000, rel=0.01)
    assert counted(11, 1)[1] == pytest.approx(598_000, rel=0.01)
