"""Around the app: who may ask, and how often; what is logged and counted; the headers of every answer."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import sys
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from peerwise.serve.counting import Counts
from peerwise.serve.refusal import Refusal, later
from peerwise.serve.settings import Settings

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = ("/", "/v1/health", "/v1/openapi.json")  # to everyone, and so is what lies below PAGE
PAGE = "/page/"
PATHS = (*OPEN, "/metrics", "/v1/bundle", "/v1/predict", "/v1/explain", "/v1/peers", "/v1/cases")
METHODS = ("GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE", "PATCH")
MOST_CLIENTS = 10_000
HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
}


class Log:
    """Lines on standard error: time, then what happened. Never a body, a header, a query, nor any value in them."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with self._lock:
            try:
                sys.stderr.write(f"{moment} {text}\n")
                sys.stderr.flush()
            except (OSError, ValueError):  # nobody reads along any more, which is no reason to stop
                pass

    def request(self, method: str, path: str, status: int, seconds: float, rows: int) -> None:
        if not self._quiet:
            self.say(f"{method} {path} {status} {1000 * seconds:.1f} ms {rows} rows")


class Rates:
    """So many requests a second from one address, and two seconds' worth at once; of many addresses, the last ones
    are known."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._most, self._clock = rate, max(1.0, 2 * rate), clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # by address: what is left, and since when

    def wait(self, address: str) -> float:
        """Take one; the seconds to wait until there is one, if there is none."""
        now, key = self._clock(), _network(address)
        left, since = self._left.pop(key, (self._most, now))
        left = min(self._most, left + (now - since) * self._rate)
        self._left[key] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > MOST_CLIENTS:
            self._left.popitem(last=False)
        return 0.0 if left >= 1 else (1 - left) / self._rate


def _network(address: str) -> str:
    """Of IPv6, one client has a whole network of addresses."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return ""
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)  # of a socket for both, where all of IPv4 is one such network
    return str(found) if found.version == 4 else str(ipaddress.ip_network((int(found), 64), strict=False))


class Guard:
    """The app, guarded."""

    def __init__(self, app: App, settings: Settings, counts: Counts, log: Log) -> None:
        self._app, self._settings, self._counts, self._log = app, settings, counts, log
        self._rates = Rates(settings.rate)
        self._token = None if settings.token is None else _digest(settings.token.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        started, status = time.perf_counter(), 0
        path = _known(scope["path"])

        async def told(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])
                message["headers"] = _with_headers(message["headers"])
            await send(message)

        try:
            await self._let_in(scope, receive, told)
        except Exception as error:  # the client has been told, or is gone; of values in it nothing is kept
            self._log.say(f"a fault in answering {path}: {kinds(error)}")
        finally:
            seconds = time.perf_counter() - started
            rows = scope.get("state", {}).get("rows", 0)
            method = scope["method"] if scope["method"] in METHODS else "OTHER"
            self._log.request(method, path, status, seconds, rows)
            self._counts.requests.labels(path, str(status)).inc()
            self._counts.seconds.labels(path).observe(seconds)

    async def _let_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refused(scope)
        if refusal is None:
            await self._app(scope, receive, send)
            return
        from peerwise.serve.responses import refused

        await refused(refusal)(scope, receive, send)

    def _refused(self, scope: Scope) -> Refusal | None:
        headers = {name: value for name, value in scope["headers"] if name in (b"authorization", b"host")}
        wait = self._rates.wait((scope.get("client") or ("",))[0])
        if wait:
            return later(
                429,
                f"too many requests from this address: expected at most {self._settings.rate:g} a second.",
                max(1, round(wait)),
            )
        if self._settings.hosts is not None and _host(headers.get(b"host", b"")) not in self._settings.hosts:
            return Refusal(421, "the service was called by another name than its own: expected its address.")
        path = scope["path"]
        if self._token is None or path in OPEN or path.startswith(PAGE):
            return None
        kind, _, token = headers.get(b"authorization", b"").partition(b" ")
        if kind.lower() == b"bearer" and hmac.compare_digest(_digest(token.strip()), self._token):
            return None
        found = "another token" if token else "no token"
        message = f"the request has {found}: expected 'Authorization: Bearer TOKEN' with the one the service was given."
        return Refusal(401, message, headers={"WWW-Authenticate": "Bearer"})


def _digest(token: bytes) -> bytes:
    """Compared in place of the token, so that not even its length shows in the time it takes."""
    return hashlib.sha256(token).digest()


def _host(header: bytes) -> str:
    """Without the port.

    >>> _host(b"[::1]:8080"), _host(b"localhost:8080"), _host(b"LOCALHOST")
    ('::1', 'localhost', 'localhost')
    """
    text = header.decode("latin-1").lower()
    return text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]


def _known(path: str) -> str:
    """What a client made up is neither logged nor counted by name."""
    return path if path in PATHS else "/page" if path.startswith(PAGE) else "(other)"


def kinds(error: BaseException) -> str:
    """The kinds of an error and of those behind it, and the line of code it came from: no value is in them."""
    found: list[str] = []
    at: BaseException | None = error
    while at is not None and len(found) < 5:
        found.append(type(at).__name__)
        at = at.__cause__ or at.__context__
    last = traceback.extract_tb(error.__traceback__)[-1:]
    return " after ".join(found) + "".join(f" at {Path(line.filename).name}:{line.lineno}" for line in last)


def _with_headers(headers: Any) -> list[tuple[bytes, bytes]]:
    found = list(headers)
    there = {name.lower() for name, _ in found}
    added = dict(HEADERS)
    if b"cache-control" not in there:
        added["cache-control"] = "no-store"
    return [*found, *((name.encode(), value.encode()) for name, value in added.items())]
