"""What `peerwise serve` says when it cannot start: one sentence each."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from serve_processes import COMMAND, PATIENCE


def refused(*options: str) -> str:
    """The one sentence with which the command does not start."""
    found = subprocess.run([*COMMAND, *options], capture_output=True, text=True, timeout=PATIENCE)
    assert found.returncode == 2, found.stderr
    assert found.stdout == ""
    assert len(found.stderr.strip().splitlines()) == 1, found.stderr
    return found.stderr


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port} of 127.0.0.1 is in use" in refused(str(tmp_path), "--port", str(port))


def test_folders_that_hold_no_bundle_are_told(tmp_path: Path) -> None:
    assert "is not there: expected a folder" in refused(str(tmp_path / "none"))
    assert "holds no bundle" in refused(str(tmp_path), "--port", "0")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--host", "0.0.0.0"), "expected --tls-cert and --tls-key"),
        (("--host", "no-such-host.invalid"), "expected an address of this machine"),
        (("--host", "0.0.0.0", "--plain-http", "--no-token"), "expected a token where others can reach"),
        (("--no-token", "--token-file", "t"), "exclude each other"),
        (("--tls-cert", "c"), "belong together"),
        (("--tls-cert", "c", "--tls-key", "k"), "cannot be used"),
        (("--port", "70000"), "expected 0 to 65535"),
        (("--level", "1"), "--level is 1: expected 0.5 to 0.999"),
        (("--workers", "0"), "--workers is 0: expected 1 to 64"),
        (("--rate", "0"), "--rate is 0: expected 0.1"),
        (("--body-mb", "0"), "--body-mb is 0"),
        (("--body-mb", "nan"), "--body-mb is nan: expected a number of megabytes"),
    ],
)
def test_options_that_cannot_be_meant_are_told(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    assert said in refused(str(tmp_path), *options)


def test_a_short_token_and_a_certificate_that_is_none_are_told(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("short\n")
    assert "has 5 characters: expected at least 16" in refused(str(tmp_path), "--token-file", str(tmp_path / "token"))
    (tmp_path / "cert").write_text("no certificate")
    files = ("--tls-cert", str(tmp_path / "cert"), "--tls-key", str(tmp_path / "cert"))
    assert "expected a certificate and its key" in refused(str(tmp_path), *files)


def test_without_its_extra_the_service_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['fastapi'] = None; from peerwise.cli import main; sys.exit(main())"
    found = subprocess.run([sys.executable, "-c", code, "serve", str(tmp_path)], capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (2, "")
    assert "pip install 'peerwise[serve]'" in found.stderr
    assert len(found.stderr.strip().splitlines()) == 1


def test_asking_for_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom peerwise.cli import parser_for\nparser_for(['serve'])\n"
        "print([name for name in ('numpy', 'pandas', 'fastapi', 'uvicorn', 'torch', 'sklearn') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.stdout.strip() == "[]", found.stderr
