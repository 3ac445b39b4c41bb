"""Where the service listens, and who could hear it there."""

from __future__ import annotations

import errno
import ipaddress
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from peerwise.errors import ConfigError

BACKLOG = 1024  # connections that wait until the service is ready for them


@dataclass(frozen=True)
class Address:
    """``port`` 0 is any that is free; a certificate comes with its key; ``plain``: others may hear what is said."""

    host: str = "127.0.0.1"
    port: int = 8080
    certificate: Path | None = None
    key: Path | None = None
    plain: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"--port is {self.port}: expected 0 to 65535.")
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("--tls-cert and --tls-key belong together: expected both, or neither.")
        if self.certificate is None and not self.plain and not self.is_loopback:
            raise ConfigError(
                f"--host is {self.host}: expected --tls-cert and --tls-key for an address that others can reach, or "
                f"--plain-http behind a proxy that speaks TLS."
            )

    @property
    def is_loopback(self) -> bool:
        return all(ipaddress.ip_address(_without_zone(found)).is_loopback for _, found in self._addresses())

    def _addresses(self) -> list[tuple[socket.AddressFamily, str]]:
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise ConfigError(f"--host is {self.host!r}: expected an address of this machine ({error}).") from error
        return [(family, str(where[0])) for family, _, _, _, where in found]

    def check_certificate(self) -> None:
        if self.certificate is None or self.key is None:
            return

        def no_password() -> str:
            raise ConfigError(f"{self.key} has a password: expected a key without, as nobody is there to type it.")

        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key, no_password)
        except OSError as error:  # an SSLError is one
            raise ConfigError(
                f"{self.certificate} with {self.key} cannot be used ({error.strerror or error}): expected a "
                f"certificate and its key, both PEM files."
            ) from error

    def bound(self) -> socket.socket:
        """A socket that listens: who connects before the service is ready waits, and is not turned away."""
        family, where = self._addresses()[0]
        # asyncio sends small answers at once on sockets that say they are TCP; others wait 40 ms for an acknowledgement
        found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind((where, self.port))
            found.listen(BACKLOG)
        except OSError as error:
            found.close()
            raise ConfigError(f"{self._taken(error)} Choose another with --port, or 0 for any.") from error
        return found

    def _taken(self, error: OSError) -> str:
        if error.errno == errno.EADDRINUSE:
            return f"port {self.port} of {self.host} is in use: expected a free one."
        return f"port {self.port} of {self.host} cannot be had ({error.strerror}): expected one that is free and ours."

    def url(self, port: int, token: str | None) -> str:
        """What to open in a browser. What follows the # stays in the browser."""
        name = {"0.0.0.0": "localhost", "::": "localhost"}.get(self.host, self.host)
        name = f"[{name}]" if ":" in name else name
        scheme = "http" if self.certificate is None else "https"
        return f"{scheme}://{name}:{port}/" + ("" if token is None else f"#token={token}")

    @property
    def names(self) -> frozenset[str]:
        """By which this machine alone is meant."""
        return frozenset({"localhost", "127.0.0.1", "::1", self.host.lower()})


def _without_zone(address: str) -> str:
    return address.partition("%")[0]
