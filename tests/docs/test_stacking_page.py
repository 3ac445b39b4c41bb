"""The page on stacking runs as it stands, and so do its study's federations."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from peerwise.evaluate.contribution_files import load_graph

ROOT = Path(__file__).parents[2]


def test_the_page_on_stacking_runs(capsys: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/stacking.md").read_text("utf-8"), flags=re.S)
    exec(compile(block, "docs/stacking.md", "exec"), {})
    assert "stacking:pooled" in capsys.readouterr().out
    assert set(load_graph("graph.graphml")) == {"cleveland", "hungarian", "long_beach", "switzerland"}
    assert (tmp_path / "graph.svg").read_text("utf-8").startswith("<svg")


@pytest.mark.parametrize("page", ["docs/stacking.md", "docs/results/stacking.md"])
def test_links_of_the_stacking_pages_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text("utf-8")):
        if not target.startswith("http"):
            assert (ROOT / page).parent.joinpath(target).exists(), f"{page} links to {target}"


@pytest.mark.parametrize("script", ["stacking.py", "stacking_figures.py", "stacking_graph.py"])
def test_the_scripts_of_the_study_say_how_they_are_run(script: str) -> None:
    command = [sys.executable, str(ROOT / "experiments" / script), "--help"]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert f"python experiments/{script}" in found.stdout
