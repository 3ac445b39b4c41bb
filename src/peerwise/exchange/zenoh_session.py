"""An open Zenoh session, and questions to it that end in time whatever the other side does."""

from __future__ import annotations

import contextlib
import json
import queue
import time
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from peerwise.errors import ConfigError, ExchangeError

Session: TypeAlias = Any  # zenoh.Session, where Zenoh is installed

MOST_REPLIES = 4  # to one question of one site; more are not listened to
MOST_MEMBERS = 4096
LATER = 1.0  # seconds after our own deadline when the library drops a question, should we have failed to
NOT_HERE = b"peerwise: not here"


def zenoh_module() -> Any:
    try:
        import zenoh
    except ImportError as error:
        raise ConfigError('live peers need Eclipse Zenoh: run `pip install "peerwise[p2p]"`.') from error
    return zenoh


def open_session(config: Mapping[str, Any]) -> Session:
    """Peers that cannot be reached now are tried again in the background. Close it, or use ``with``."""
    library = zenoh_module()
    try:
        return library.open(library.Config.from_json5(json.dumps(config)))
    except library.ZError as error:
        places = ", ".join(config["listen"]["endpoints"]) or "no address"
        raise ExchangeError(
            f"live peers cannot be started at {places} ({_said(error)}): expected a free port and certificates "
            f"that fit their key. Is the site running already? `peerwise doctor` says more."
        ) from error


def replies(session: Session, key: str, seconds: float) -> Iterator[bytes | None]:
    """What comes back for one key, as it comes, for so many seconds at most; None where the other side says that it has
    no such thing. No reply at all means that nobody answers for this key. ``TimeoutError`` if time ran out."""
    library = zenoh_module()
    asking = _Asking(library, MOST_REPLIES)
    target, at_once = library.QueryTarget.ALL, library.ConsolidationMode.NONE
    options = {
        "timeout": seconds + LATER,
        "cancellation_token": asking.token,
        "target": target,
        "consolidation": at_once,
    }
    with _told(library):
        session.get(key, asking.handler, **options)
    for reply in asking.replies(seconds):
        if reply.ok is not None:
            yield reply.ok.payload.to_bytes()
        elif reply.err.payload.to_bytes() == NOT_HERE:
            yield None


def alive(session: Session, keys: str, seconds: float) -> list[str]:
    """The keys of those whose sign of life is there."""
    library = zenoh_module()
    asking = _Asking(library, MOST_MEMBERS)
    with _told(library):
        session.liveliness().get(keys, asking.handler, timeout=seconds + LATER, cancellation_token=asking.token)
    try:
        return sorted({str(reply.ok.key_expr) for reply in asking.replies(seconds) if reply.ok is not None})
    except TimeoutError as error:
        raise ExchangeError(f"nobody said within {seconds:g} seconds who is there. Try again.") from error


class _Asking:
    """Replies of one question. Those beyond ``most`` are dropped where they come in: a peer that never ends must not
    hold up the line."""

    def __init__(self, library: Any, most: int) -> None:
        self._found: queue.Queue[Any] = queue.Queue(most + 1)
        self.token = library.CancellationToken()
        self.handler = library.handlers.Callback(self._take, lambda: self._take(None), indirect=False)

    def _take(self, reply: Any) -> None:
        with contextlib.suppress(queue.Full):
            self._found.put_nowait(reply)

    def replies(self, seconds: float) -> Iterator[Any]:
        until = time.monotonic() + seconds
        try:
            for _ in range(self._found.maxsize - 1):
                reply = self._found.get(timeout=max(0.0, until - time.monotonic()))
                if reply is None:
                    return
                yield reply
        except queue.Empty:
            raise TimeoutError from None
        finally:
            self.token.cancel()


@contextlib.contextmanager
def _told(library: Any) -> Iterator[None]:
    try:
        yield
    except library.ZError as error:
        raise ExchangeError(
            f"no peer can be asked ({_said(error)}): expected an open session. Open it again."
        ) from error


def _said(error: BaseException) -> str:
    """Without the places in the library's own source."""
    return str(error).partition(" at /")[0].splitlines()[0][:200]
