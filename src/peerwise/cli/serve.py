"""peerwise serve: answers over HTTP, and a page."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from peerwise.errors import ConfigError

ABOUT = """Answer rows over HTTP from the bundle that 'peerwise fit' or PeerwiseClassifier.save wrote, and show them on
a page. A bundle that is written anew is taken over without a request being lost. Ctrl-C ends it."""
EXAMPLE = "example: peerwise serve north --token-file north/token"


def add_to(verbs: Any) -> None:
    parser = verbs.add_parser("serve", description=ABOUT, epilog=EXAMPLE)
    parser.add_argument(
        "bundle", type=Path, metavar="BUNDLE", help="a site's folder, or that of a saved PeerwiseClassifier"
    )
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (default 127.0.0.1: this machine alone)")
    parser.add_argument("--port", type=int, default=8080, help="default 8080; 0: any that is free")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="what clients have to know; made if not there")
    parser.add_argument("--no-token", action="store_true", help="anyone on this machine may ask")
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate, PEM")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="its key, PEM")
    parser.add_argument("--plain-http", action="store_true", help="no TLS: there is a proxy in front that speaks it")
    parser.add_argument("--level", type=float, default=0.9, help="of the prediction sets (default 0.9)")
    parser.add_argument("--workers", type=int, default=1, help="requests answered at the same time (default 1)")
    parser.add_argument("--queue", type=int, default=64, help="requests that may wait (default 64)")
    parser.add_argument("--rate", type=float, default=100.0, help="requests a second from one address (default 100)")
    parser.add_argument("--body-mb", type=float, default=8.0, help="megabytes of one request (default 8)")
    parser.add_argument("-q", "--quiet", action="store_true", help="no line for each request")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    if not math.isfinite(arguments.body_mb):
        raise ConfigError(f"--body-mb is {arguments.body_mb:g}: expected a number of megabytes, such as 8.")
    try:
        return _run(arguments)
    except PermissionError as error:
        where = error.filename or arguments.bundle
        raise ConfigError(f"{where} may not be read: expected files that this user may read.") from error


def _run(arguments: argparse.Namespace) -> int:
    from peerwise.cli.output import messages_console
    from peerwise.serve.addresses import Address
    from peerwise.serve.running import serve
    from peerwise.serve.settings import MEGABYTE, Settings
    from peerwise.serve.tokens import fresh_token, token_in

    address = Address(arguments.host, arguments.port, arguments.tls_cert, arguments.tls_key, plain=arguments.plain_http)
    _check_token_options(arguments, address.is_loopback)
    kept = arguments.token_file
    token = None if arguments.no_token else token_in(kept) if kept is not None else fresh_token()
    settings = Settings(
        token=token,
        level=arguments.level,
        desks=arguments.workers,
        waiting=arguments.queue,
        rate=arguments.rate,
        body_bytes=int(arguments.body_mb * MEGABYTE),
        hosts=address.names if token is None else None,
        quiet=arguments.quiet,
    )

    def tell(text: str) -> None:
        messages_console().print(text, markup=False, soft_wrap=True)

    serve(arguments.bundle, settings, address, tell, shown=token if kept is None else None)
    return 0


def _check_token_options(arguments: argparse.Namespace, is_loopback: bool) -> None:
    if arguments.no_token and arguments.token_file is not None:
        raise ConfigError("--no-token and --token-file exclude each other: expected one of them.")
    if arguments.no_token and not is_loopback:
        raise ConfigError(
            f"--no-token with --host {arguments.host}: expected a token where others can reach the service."
        )
