"""The README's real federation, typed into two windows as it stands there; and every peer command on our pages."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from peerwise.cli import VERBS, parser_for

ROOT = Path(__file__).parents[2]
PATIENCE = 300
FINGERPRINT = re.compile(r"(?:[A-Z2-7]{4}-){4}[A-Z2-7]{4}")
PAGES = ("README.md", "docs/federation.md", "docs/privacy-officer.md")


def section() -> list[str]:
    """The lines of the README's block, without remarks; what goes on over two lines in one."""
    text = (ROOT / "README.md").read_text().partition("## A real federation")[2].partition("\n## ")[0]
    block = "\n".join(line[4:] for line in text.splitlines() if line.startswith("    "))
    return [line for line in block.replace("\\\n", "").splitlines() if not line.startswith("#")]


def swapped(line: str) -> str:
    """The same for window 2."""
    return line.replace("cleveland", "*").replace("hungarian", "cleveland").replace("*", "hungarian")


class Windows:
    """A shell in one folder, in which `peerwise` is the one under test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        command = folder / "bin" / "peerwise"
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m peerwise "$@"\n')
        command.chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}

    def type(self, line: str) -> str:
        settings = {"cwd": self.folder, "env": self.environment, "capture_output": True, "text": True}
        done = subprocess.run(["sh", "-c", line], check=False, timeout=PATIENCE, **settings)  # type: ignore[call-overload]
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return str(done.stdout)

    @contextmanager
    def in_background(self, line: str, says: str) -> Iterator[None]:
        """A command with & at its end, ended by Ctrl-C."""
        command = ["sh", "-c", "exec " + line.rstrip("& ")]
        started = subprocess.Popen(command, cwd=self.folder, env=self.environment, stderr=subprocess.PIPE, text=True)
        late = threading.Timer(PATIENCE, started.kill)
        late.start()
        try:
            assert started.stderr is not None
            assert any(says in said for said in started.stderr), f"{line} never said {says!r}"
            yield
        finally:
            late.cancel()
            started.send_signal(signal.SIGINT)
            try:
                started.communicate(timeout=60)
            finally:
                started.kill()
        assert started.returncode == 0


def free_addresses(count: int) -> list[str]:
    taken = [socket.socket() for _ in range(count)]
    try:
        for each in taken:
            each.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{each.getsockname()[1]}" for each in taken]
    finally:
        for each in taken:
            each.close()


@pytest.mark.slow
def test_two_windows_form_a_federation_by_the_readme(tmp_path: Path) -> None:
    pytest.importorskip("zenoh")
    first, second, admit, welcome, show, live, fetch, decide, answer = section()
    windows = Windows(tmp_path)
    windows.type("peerwise demo --files hospitals")
    ours, theirs = free_addresses(2)
    founders = FINGERPRINT.search(windows.type(first.replace("127.0.0.1:7447", ours)))
    assert founders is not None
    members = FINGERPRINT.search(
        windows.type(second.replace("127.0.0.1:7448", theirs).replace("FINGERPRINT-1", founders[0]))
    )
    assert members is not None
    windows.type(admit.replace("FINGERPRINT-2", members[0]))
    windows.type(welcome)
    for line in (show, swapped(show)):
        assert "would go to" in windows.type(line)
    with windows.in_background(live, "is live at"), windows.in_background(swapped(live), "is live at"):
        for line in (fetch, swapped(fetch)):
            assert "next: peerwise accept" in windows.type(line)
    for peer, line in (("hungarian", decide), ("cleveland", swapped(decide))):
        said = windows.type(line)
        assert f"peers: {peer}" in said
        assert "the own models: " in said
    for line in (answer, swapped(answer)):
        header, *rows = windows.type(line).splitlines()
        assert header.split() == ["row", "answer", "p", "sure?", "trust", "note"]
        answers = [row for row in rows if re.match(r"\d +\S+ +[01]\.\d\d +(sure|unsure)\b", row)]
        assert len(answers) == 3
        alone = "the own models answer alone" in "\n".join(rows)
        assert alone or all(re.search(r" (own|hungarian|cleveland) [01]\.\d\d", row) for row in answers)
        assert any("answers to cases with a known outcome" in row for row in rows)


def commands(page: str) -> list[str]:
    """Every command on a page, in a table, a sentence or a block."""
    text = (ROOT / page).read_text().replace("\\\n", "")
    found = re.findall(r"`(peerwise [^`]+)`", text)
    for line in text.splitlines():
        if line.startswith("    peerwise "):
            found += [part.strip(" &") for part in line.partition("  #")[0].split("&&")]
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_command_on_a_page_is_one_that_is_understood(page: str) -> None:
    found = commands(page)
    assert len(found) > 3
    for command in found:
        assert is_understood(shlex.split(command)[1:]), f"{page}: {command}"


def is_understood(arguments: list[str]) -> bool:
    try:
        parser_for(arguments).parse_args(arguments)
    except SystemExit as stopped:  # with 0 where help or the version was asked for
        return not stopped.code
    return True


def test_the_page_shows_every_command_of_a_site() -> None:
    shown = {command.split()[1] for command in commands("docs/federation.md")}
    assert shown >= {name for name, (module, _) in VERBS.items() if module.startswith("peer.")}
