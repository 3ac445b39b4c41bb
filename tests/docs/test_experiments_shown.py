"""Every experiment in the repository can be run as it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from peerwise.run import read_experiments

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "experiments").glob("*.toml"))


SIZES = [(file, False) for file in FILES]
SIZES += [(file, True) for file in FILES if "\n[fast]\n" in file.read_text("utf-8")]


@pytest.mark.parametrize(("file", "fast"), SIZES, ids=lambda part: getattr(part, "stem", "fast" if part else "full"))
def test_an_experiment_is_read_and_checked_in_full(file: Path, fast: bool) -> None:
    points = read_experiments(file, fast=fast)
    assert points
    assert len({point.to_toml() for point in points.values()}) == len(points), "two points of a grid are the same"
    for point in points.values():
        assert {"local", "local_rounds"} & {*point.methods}, "every study is held to the site's own model"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_experiment_says_what_it_shows_and_how_to_run_it(file: Path) -> None:
    comment = [line for line in file.read_text("utf-8").splitlines() if line.startswith("#")]
    assert not comment[0].startswith("#   ")
    assert any(line.startswith(f"#   peerwise simulate experiments/{file.name} ") for line in comment)


def test_the_studies_of_fedmosaic_are_all_on_its_page() -> None:
    page = (ROOT / "docs" / "results" / "fedmosaic.md").read_text("utf-8")
    for file in FILES:
        if file.stem.startswith("fedmosaic_"):
            assert f"peerwise simulate experiments/{file.name} " in page
