"""The examples on our pages run as they stand."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def python_blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.S)


@pytest.mark.parametrize("block", range(2))
def test_readme_example_runs(block: int, capsys: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = python_blocks("README.md")
    assert len(blocks) == 2
    exec(compile(blocks[block], f"README.md example {block + 1}", "exec"), {})
    assert capsys.readouterr().out.strip()
    assert not list(tmp_path.iterdir()), "an example left files behind"


def test_the_page_on_federations_runs(capsys: Any) -> None:
    (block,) = python_blocks("docs/federation.md")
    exec(compile(block, "docs/federation.md", "exec"), {})
    assert "bytes sent" in capsys.readouterr().out


def test_tutorial_runs_from_top_to_bottom() -> None:
    shared: dict[str, Any] = {}
    for number, block in enumerate(python_blocks("docs/your-method.md")):
        exec(compile(block, f"docs/your-method.md block {number + 1}", "exec"), shared)
    assert "SharedMeans" in shared


def test_the_page_on_rounds_runs(capsys: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = python_blocks("docs/rounds.md")
    exec(compile(block, "docs/rounds.md", "exec"), {})
    assert "fedmosaic:surer" in capsys.readouterr().out


def test_the_page_on_own_models_runs(capsys: Any, tmp_path: Path, monkeypatch: Any) -> None:
    module, use = python_blocks("docs/your-model.md")
    path = tmp_path / "my_models.py"
    path.write_text(module)
    path.chmod(0o644)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_models", raising=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Skipping features without any observed values")
        exec(compile(use, "docs/your-model.md", "exec"), {})
    assert "peerwise" in capsys.readouterr().out
    monkeypatch.delitem(sys.modules, "my_models")


def test_the_page_for_those_who_come_from_deslib_runs(capsys: Any) -> None:
    (block,) = python_blocks("docs/dynamic-selection.md")
    exec(compile(block, "docs/dynamic-selection.md", "exec"), {})
    assert "models have a say" in capsys.readouterr().out


def test_tutorial_method_is_about_forty_lines() -> None:
    first = python_blocks("docs/your-method.md")[0]
    code = [line for line in first.splitlines() if line.strip()]
    assert len(code) <= 40


def test_readme_fits_two_screens() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100


PAGES = ["README.md", "CHANGELOG.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text()):
        if not target.startswith("http"):
            assert (ROOT / page).parent.joinpath(target).exists(), f"{page} links to {target}"
