"""The page on the service names every option of the command and every path of the API."""

from __future__ import annotations

import argparse
from pathlib import Path

from peerwise.cli import parser_for
from peerwise.serve.guard import PATHS

PAGE = (Path(__file__).parents[2] / "docs" / "service.md").read_text()


def test_every_option_is_on_the_page() -> None:
    parser = parser_for(["serve"])
    verbs = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    options = [option for action in verbs.choices["serve"]._actions for option in action.option_strings[-1:]]
    assert len(options) > 10
    for option in options:
        assert option == "--help" or f"`{option}" in PAGE, option


def test_every_path_is_on_the_page() -> None:
    for path in PATHS:
        assert f" {path}`" in PAGE or f" {path}?" in PAGE, path
