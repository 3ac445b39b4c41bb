"""The race runs at a tiny size without any peer, says which are missing, and draws its page from what it kept."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from peerwise.models.zoo import find_build

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from race import tables  # noqa: E402
from race.exponents import exponent  # noqa: E402
from race.page import SECTIONS, write_page  # noqa: E402
from race.peers.sites_task import NETS  # noqa: E402
from race.splits import first_sites, split_file  # noqa: E402


def raced(out: Path, *arguments: object) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PEERWISE_")}
    command = [sys.executable, BENCHMARKS / "race", "--size", "tiny", "--out", out, *map(str, arguments)]
    found = subprocess.run(command, capture_output=True, text=True, env=clean, timeout=600)
    assert found.returncode == 0, found.stderr[-3000:]
    return found.stdout


def figures(out: Path, part: str) -> Any:
    return json.loads((out / f"{part}.json").read_text())["figures"]


def test_every_rule_answers_as_the_plain_one_does_and_the_missing_peers_are_named(tmp_path: Path) -> None:
    said = raced(tmp_path, "--only", "rules")
    assert "pip install rigfl==0.3.0 graphroute==0.1.7" in said
    assert "pip install DESlib==0.3.7 'scikit-learn<1.6'" in said
    for found in figures(tmp_path, "rules")["widths"].values():
        assert found["deslib"] is None
        assert len(found["ours"]["said"]["inputs"]) == 8
        lines = [*found["ours"]["said"]["inputs"].values(), *found["ours"]["said"]["decision"].values()]
        assert all(line["same"] == 1.0 and line["ours"] > 0 and line["plain"] > 0 for line in lines)


def test_selection_has_feddes_on_the_class_balanced_graph_of_one_site(tmp_path: Path) -> None:
    raced(tmp_path, "--only", "selection", "--page", tmp_path / "race.md")
    pool = figures(tmp_path, "selection")["synthetic"]
    found = pool["class_balanced"]
    assert pool["peerwise"]["said"]["own_peak"] < 0.75 * pool["feddes"]["said"]["own_peak"], "it does without torch"
    assert found["k"] == 5
    assert found["rows"] == {"train": 60, "validation": 30, "test": 30}
    for memory in ("malloc", "kept"):
        assert found[memory]["graphroute"] is None
        said = found[memory]["feddes"]["said"]
        assert said["epochs"] > 0
        assert said["steps"] == 2 * said["epochs"], "60 rows in batches of 32"
        assert said["own_peak"] > 0
        assert all(said["seconds"][phase] > 0 for phase in ("graph", "learning", "rest", "queries"))
    text = (tmp_path / "race.md").read_text()
    assert "The class-balanced graph, 5 neighbors of every class, at the first site of synthetic" in text
    assert "| training, CPU s per epoch |" in text


def test_many_sites_compares_ours_with_bare_loops_that_learn_the_same(tmp_path: Path) -> None:
    said = raced(tmp_path, "--only", "many_sites", "--page", tmp_path / "race.md")
    assert "pip install --no-deps fluke-fl==0.8.1 fedlab==1.3.0" in said
    found = figures(tmp_path, "many_sites")
    for federation in found["federations"]:
        names = {"ours, run folder", "ours, no folder", "bare loop, plain", "bare loop, lean"}
        names.add("bare loop, lean, scored")
        assert set(federation["contenders"]) == names, "the others have no environment here"
        for costs in federation["contenders"].values():
            assert all(costs[key]["least"] > 0 for key in ("round", "start", "peak"))
        loops = [name for name in names if name.startswith("bare")]
        plain, lean, scored = (federation["contenders"][name]["accuracy"] for name in loops)
        assert plain == lean == scored
    assert found["large"]["peak"] > 0
    assert all(min(seconds) > 0 for seconds in found["smallest"].values())
    text = (tmp_path / "race.md").read_text()
    assert "6 sites of 12 train, 4 validation and 4 test rows, mlp64" in text
    assert "| ours, run folder |" in text


def test_the_nets_of_many_sites_are_those_of_ours() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 1, 28, 28), dtype=np.uint8)
    scaled = torch.from_numpy(pixels).float() / 127.5 - 1
    for name, build in NETS.items():
        ours, theirs = find_build(name)(pixels, (), 10), build()
        weights = ours.state_dict()
        theirs.load_state_dict({f"body.{key.split('body.')[-1]}": value for key, value in weights.items()})
        assert torch.allclose(ours(torch.from_numpy(pixels)), theirs(scaled), atol=1e-5), name


def test_the_class_balanced_table_has_both_sides_and_their_ratio() -> None:
    def cost(times: float) -> dict[str, Any]:
        seconds = {"graph": times, "learning": 8 * times, "rest": times, "queries": 0.5 * times}
        return {"said": {"right": [0.75], "epochs": 4, "steps": 8, "seconds": seconds, "own_peak": 100 * times}}

    pair = {"feddes": cost(1), "graphroute": cost(3)}
    balanced = {"k": 5, "rows": {"train": 60, "validation": 30, "test": 30}, "malloc": pair, "kept": pair}
    about = {"sites": 1, "models": 3, "test": 30, "own": [0.5]}
    whole = {"said": {"right": [0.75], "seconds": {"fit": 1.0}}}
    pool = {"about": about, "peerwise": whole, "feddes": None, "graphroute": None, "class_balanced": balanced}
    text = tables.selection({"C7": pool})
    assert "| accuracy | 75.00 % | 75.00 % |  | 75.00 % | 75.00 % |  |" in text
    assert "| whole fit, CPU s | 10 | 30 | 3 x | 10 | 30 | 3 x |" in text
    assert "| training, CPU s per epoch | 2 | 6 | 3 x |" in text
    assert "| training, CPU s per step | 1 | 3 | 3 x |" in text
    assert "| peak memory, MB | 100 | 300 | 3 x |" in text


def test_the_page_has_a_place_for_every_part_and_the_class_balanced_rows() -> None:
    text = (BENCHMARKS.parent / "docs" / "race.md").read_text()
    for name in SECTIONS:
        assert f"<!-- measured: {name} -->" in text
        assert f"<!-- end of {name} -->" in text
    selection = text.partition("<!-- measured: selection -->")[2].partition("<!-- end of selection -->")[0]
    balanced = selection.partition("The class-balanced graph")[2]
    for label in ("accuracy", *tables.SITE_COSTS):
        (line,) = [line for line in balanced.splitlines() if line.startswith(f"| {label} |")]
        assert " - " not in line, "both sides are measured"


@pytest.mark.slow
def test_flowers_fedavg_does_the_same_work_as_ours(tmp_path: Path) -> None:
    raced(tmp_path, "--only", "rounds")
    runs = figures(tmp_path, "rounds")["methods"]["fedavg"]
    ours, flower = runs["ours"]["said"], runs["flower"]["said"]
    assert ours["right"] == flower["right"]
    assert flower["bytes"]["received"] > 1.9 * flower["bytes"]["sent"]  # the weights come twice a round
    assert runs["rigfl"] is None


@pytest.mark.slow
def test_a_part_that_is_there_is_kept_and_the_page_has_tables_plots_and_its_text(tmp_path: Path) -> None:
    raced(tmp_path, "--only", "bounds", "selection", "feddes", "growth")
    before = (tmp_path / "growth.json").read_bytes()
    said = raced(tmp_path, "--only", "growth", "--page", tmp_path / "race.md")
    assert "growth: kept from before" in said
    assert (tmp_path / "growth.json").read_bytes() == before
    text = (tmp_path / "race.md").read_text()
    assert "Size tiny: no result" in text
    assert "| digits_tiny | 3 |" in text
    assert "| sites | ours | all, CPU s | 3 to 12 |" in text
    assert "GFLOP/s" in text
    assert (tmp_path / "race_growth.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_written_around_the_tables_stays(tmp_path: Path) -> None:
    page = tmp_path / "race.md"
    page.write_text("Before.\n<!-- measured: bounds -->\nold\n<!-- end of bounds -->\nAfter.\n")
    rate = {"step": 0.001, "seconds": 0.001, "rate": 2e9, "fixed": 0.5, "rows": 10, "bytes": 1e9}
    found = {"machine": {"single": 4e9, "double": 2e9, "memory": 1e9}, "training": {"lenet5": rate}}
    found |= {"outputs": {"lenet5": rate}, "fit": rate, "neighbours": rate}
    about = {"size": "full", "cores": 2, "processor": "x", "seconds": 60, "commit": "abc", "versions": {}}
    write_page(page, {"bounds": {"figures": found, "about": about}})
    text = page.read_text()
    assert text.startswith("Before.\n<!-- measured: bounds -->\n")
    assert text.endswith("<!-- end of bounds -->\nAfter.\n")
    assert "old" not in text
    assert "50% of single" in text
    with pytest.raises(SystemExit, match="has no line '<!-- measured: growth -->'"):
        write_page(page, {"growth": {}})


def test_exponents_of_a_power_law_are_found_with_their_margin() -> None:
    sizes = np.array([10, 30, 100, 300])
    exact = exponent(sizes.tolist(), (3 * sizes**1.5).tolist())
    assert exact.value == pytest.approx(1.5)
    assert exact.margin == pytest.approx(0, abs=1e-6)
    rough = exponent(sizes.tolist(), (3 * sizes**1.5 * [1.2, 0.8, 1.2, 0.8]).tolist())
    assert abs(rough.value - 1.5) < rough.margin
    assert np.isnan(exponent([10], [1.0]).value)


def test_sites_cut_in_pieces_keep_their_rows_and_parts(tmp_path: Path) -> None:
    whole = split_file("digits_tiny", None, tmp_path)
    assert split_file("digits_tiny", None, tmp_path) == whole
    few, all_rows = dict(np.load(first_sites(whole, 4, tmp_path, pieces=4))), dict(np.load(whole))
    assert sorted(set(few["client"].tolist())) == [0, 1, 2, 3]
    for code in range(3):
        first = all_rows["x"][(all_rows["client"] == 0) & (all_rows["split"] == code)]
        cut = few["x"][few["split"] == code]
        assert sorted(map(bytes, first)) == sorted(map(bytes, cut))
