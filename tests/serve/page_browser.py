"""A real browser for the page: Debian's chromium, without a window; it keeps what the page should never do."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here: apt-get install chromium")


@dataclass
class Kept:
    """``expected``: statuses that a test brings about; the browser writes each of them to its console."""

    home: str
    expected: tuple[int, ...] = ()
    errors: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def look(self, page: Any) -> None:
        page.on("console", lambda message: message.type in ("error", "warning") and self.note(message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.see(request.url))

    def note(self, text: str) -> None:
        if not any(f"status of {status}" in text for status in self.expected):
            self.errors.append(text)

    def see(self, url: str) -> None:
        if urlsplit(url).netloc != urlsplit(self.home).netloc and not url.startswith("blob:"):
            self.elsewhere.append(url)


@contextmanager
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(
    browser: Any, home: str, token: str = "", *, width: int = 1280, expected: tuple[int, ...] = (), **settings: Any
) -> Iterator[Any]:
    """A fresh page at the printed address; at the end it must have been quiet and have asked nobody else."""
    context = browser.new_context(viewport={"width": width, "height": 900}, **settings)
    context.set_default_timeout(60_000)  # of a busy machine
    page = context.new_page()
    kept = Kept(home, expected)
    kept.look(page)
    try:
        page.goto(f"{home}/#token={token}" if token else home)
        yield page
        assert context.cookies() == []
    finally:
        context.close()
    assert kept.errors == []
    assert kept.elsewhere == []


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, str]]:
    """The real service as a process of its own: its address and its token."""
    command = [sys.executable, "-m", "peerwise", "serve", str(folder), "--port", "0", "-q"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        told = process.stderr.readline()
        found = re.search(r"(http://\S+)/#token=(\S+)", told)
        assert found, told + process.stderr.read()
        try:
            yield found[1], found[2]
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 0


def overflow(page: Any) -> int:
    """Pixels by which the page is wider than the window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
