"""The service from its start to its end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peerwise.errors import ConfigError
from peerwise.serve.addresses import Address
from peerwise.serve.room import Opener, Room, Shift
from peerwise.serve.settings import Settings

if TYPE_CHECKING:
    from socket import socket

    from uvicorn import Server

    from peerwise.serve.guard import Log
    from peerwise.serve.watching import Watch

NEEDED = ("fastapi", "uvicorn", "prometheus_client")
IDLE = 30  # seconds that a connection is kept for another request
STOPPED = 130  # exit code of what was stopped by Ctrl-C
GRACE = 30  # seconds in which requests under way are answered when the service ends

Tell = Callable[[str], None]


def serve(
    path: Path, settings: Settings, address: Address, tell: Tell, *, open_desk: Opener | None = None, shown: str | None
) -> None:
    """Serve the bundle in this folder until the process is told to end. ``tell`` gets one line when all is ready;
    ``shown`` is the token that stands in it."""
    if lacking := [name for name in NEEDED if find_spec(name) is None]:
        raise ConfigError(f"{lacking[0]} is not installed, and the service needs it: pip install 'peerwise[serve]'.")
    if not path.is_dir():
        raise ConfigError(
            f"{path} is not there: expected a folder that 'peerwise fit' or PeerwiseClassifier.save wrote."
        )
    address.check_certificate()
    with address.bound() as listening:
        room = Room(open_desk or _open_desk, path, settings.desks, settings.waiting)
        try:
            _served(room, settings, address, listening, lambda shift: tell(_ready(shift, address, listening, shown)))
        finally:
            room.close()


def _open_desk(path: Path) -> Any:
    return import_module("peerwise.serve.opening").open_desk(path)


def _served(
    room: Room, settings: Settings, address: Address, listening: socket, ready: Callable[[Shift], None]
) -> None:
    """What opens the bundle and what speaks HTTP take a second each to import: both at once."""
    from peerwise.serve.counting import Counts
    from peerwise.serve.guard import Log
    from peerwise.serve.watching import Watch

    counts, log = Counts(), Log(settings.quiet)
    watch = Watch(room, counts, log)
    with ThreadPoolExecutor(1, "peerwise-opening") as opener:
        opening = opener.submit(watch.open)
        try:
            from peerwise.serve.app import make_app

            server = _server(make_app(room, settings, counts, log), address)
            with _only_to(log):
                asyncio.run(_run(server, listening, opening, ready, lambda: _renew(server, address, watch, log)))
        finally:
            watch.end()


def _server(app: Any, address: Address) -> Server:
    import uvicorn

    class Ours(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # ours are caught below: they end the service, and that is all they do

    config = uvicorn.Config(
        app,
        ssl_certfile=address.certificate,
        ssl_keyfile=address.key,
        http="h11",  # 64 kB of headers at most; httptools, where it is installed, takes them without end
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        proxy_headers=False,  # who asks is who connects: anyone can write a header
        server_header=False,
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=GRACE,
        backlog=2048,
    )
    return Ours(config)


async def _run(
    server: Server,
    listening: socket,
    opening: Future[Shift],
    ready: Callable[[Shift], None],
    renew: Callable[[], None],
) -> None:
    _catch_signals(server, renew)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    opened = asyncio.wrap_future(opening)
    either: set[asyncio.Future[Any]] = {serving, opened}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if opened.done():
        if opened.exception() is None:
            ready(opened.result())
        else:
            server.should_exit = True
    await serving
    if opened.done():
        opened.result()


def _catch_signals(server: Server, renew: Callable[[], None]) -> None:
    def end() -> None:
        if server.should_exit:  # the second time at once: a model that hangs would be waited for; workers end with us
            os._exit(STOPPED)
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    if not sys.stderr.isatty():  # of a terminal, it means that the terminal has gone
        loop.add_signal_handler(signal.SIGHUP, renew)


def _renew(server: Server, address: Address, watch: Watch, log: Log) -> None:
    """The certificate, if it can be used (half of a pair that does not fit would end all TLS), and the bundle."""
    config = server.config
    if config.ssl is not None and address.certificate is not None:
        try:
            address.check_certificate()
            config.ssl.load_cert_chain(address.certificate, address.key)
        except (ConfigError, OSError) as error:
            log.say(f"the certificate stays as it was: {error}")
    watch.reload()


def _ready(shift: Shift, address: Address, listening: socket, shown: str | None) -> str:
    about = shift.about
    models = "1 model" if len(about.models) == 1 else f"{len(about.models)} models"
    return f"{about.site or about.task}: {models} answer at {address.url(listening.getsockname()[1], shown)}"


@contextmanager
def _only_to(log: Log) -> Iterator[None]:
    """What the web server has to say: a line each, without the values in a traceback."""

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kind = f" ({record.exc_info[0].__name__})" if record.exc_info and record.exc_info[0] else ""
            log.say(f"{str(record.msg).strip().splitlines()[0]}{kind}")

    lines = Lines(logging.WARNING)
    loggers = [logging.getLogger(name) for name in ("uvicorn", "asyncio")]
    before = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.addHandler(lines)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, propagated in zip(loggers, before, strict=True):
            logger.removeHandler(lines)
            logger.propagate = propagated
