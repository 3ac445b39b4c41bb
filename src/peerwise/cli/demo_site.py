"""peerwise demo --serve: the four hospitals as real sites in one folder, one of which answers on a page."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path

from peerwise.cli.output import messages_console


def serve_hospital(folder: Path, port: int, *, quiet: bool) -> int:
    """Makes the federation unless it is there, then serves until Ctrl-C."""
    from peerwise.run.peer.demo import demo_site
    from peerwise.serve.addresses import Address
    from peerwise.serve.running import serve
    from peerwise.serve.settings import Settings
    from peerwise.serve.tokens import fresh_token

    def say(text: str) -> None:
        messages_console(quiet).print(text, markup=False, soft_wrap=True)

    address = Address(port=port)
    address.bound().close()  # a port that is taken is told now, not when all is made
    site = demo_site(folder, say)
    token = fresh_token()

    def ready(text: str) -> None:
        note = f"{text}\nCtrl-C ends it; {folder} is used again next time."
        messages_console().print(note, markup=False, soft_wrap=True)
        if sys.stdout.isatty() and _has_display():
            webbrowser.open(text.split()[-1])

    serve(site, Settings(token=token, quiet=True), address, ready, shown=token)
    return 0


def _has_display() -> bool:
    """Without one, a browser for the terminal would be taken, and take the terminal."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
