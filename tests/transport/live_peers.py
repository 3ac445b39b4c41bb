"""Live peers for the tests: certificates, configurations, and sites as processes of their own that take orders."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import numpy as np
from parties import FEDERATION, Party

from peerwise.parcels import Parcel
from peerwise.parcels.signed import Identity, Roster
from peerwise.transport import (
    CertificateFiles,
    TransferLimits,
    ZenohTransport,
    make_authority,
    make_request,
    open_session,
    sign_request,
    zenoh_config,
)

PATIENCE = 60.0
PATIENT = TransferLimits(answer=10, chunk=10, blob=30)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def until(true: Callable[[], bool], what: str) -> None:
    """Wait for something that must come true."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"not within {PATIENCE:g} seconds: {what}"
        time.sleep(0.05)


class LiveParty(Party):
    """A federation whose members have certificates; ``others`` have one of the same authority and are no members."""

    def __init__(self, folder: Path, names: Sequence[str], others: Sequence[str] = ()) -> None:
        super().__init__(folder, names)
        key, self.authority = make_authority(folder / "certificates", FEDERATION)
        for name in (*names, *others):
            _, request = make_request(folder / "certificates", name, ["127.0.0.1"])
            request.with_suffix(".crt").write_bytes(sign_request(request.read_bytes(), name, key, self.authority))
        self.seed = f"127.0.0.1:{free_port()}"

    def files(self, name: str) -> CertificateFiles:
        base = self.folder / "certificates" / name
        return CertificateFiles(self.authority, base.with_suffix(".crt"), base.with_suffix(".key"))

    def config(self, name: str, listen: str | None = None, roster: Roster | None = None) -> dict[str, Any]:
        connect = [] if listen == self.seed else [self.seed]
        used = roster or self.roster
        return zenoh_config(used, name, listen=listen, connect=connect, certificates=self.files(name))

    def transport(
        self, session: Any, name: str, limits: TransferLimits = PATIENT, *, serve: bool = False
    ) -> ZenohTransport:
        folders = {"outbox": self.folder / name / "outbox", "cache": self.folder / name / "cache"}
        return ZenohTransport(session, name=name, federation=FEDERATION, limits=limits, serve=serve, **folders)

    def started(self, name: str, listen: str | None = None) -> Process:
        """The site as a process of its own, serving."""
        identity = self.folder / f"{name}.key"
        if not identity.exists():
            self.identities[name].save(identity)
        founder = next(iter(self.identities.values()))
        (self.folder / "roster").write_bytes(self.roster.signed(founder))
        address = listen or f"127.0.0.1:{free_port()}"
        given = {"name": name, "folder": str(self.folder), "config": self.config(name, address)}
        return Process({**given, "founder": founder.public, "now": self.now})


class Process:
    """A live peer that takes orders, one line of JSON each."""

    def __init__(self, given: dict[str, Any]) -> None:
        command = [sys.executable, __file__, json.dumps(given)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, text=True, **pipes)  # type: ignore[call-overload]
        self._lines: Queue[str] = Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        assert self._line() == "ready"

    def _listen(self) -> None:
        for line in self.process.stdout:
            self._lines.put(line.strip())

    def _line(self) -> str:
        try:
            return self._lines.get(timeout=PATIENCE)
        except Empty:
            self.kill()
            raise AssertionError(f"a peer printed nothing: {self.process.stderr.read()}") from None

    def ask(self, do: str, **given: Any) -> Any:
        self.process.stdin.write(json.dumps({"do": do, **given}) + "\n")
        self.process.stdin.flush()
        return json.loads(self._line())

    def kill(self) -> None:
        """As a power cut would."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def end(self) -> str:
        """Let it close; what it wrote to stderr."""
        try:
            return self.process.communicate("", timeout=PATIENCE)[1]
        finally:
            self.kill()


def model(seed: int, size: int = 5_000_000) -> bytes:
    return np.random.default_rng(seed).bytes(size)


def _orders(given: dict[str, Any]) -> None:
    """The life of a peer's process: it ends when its orders do."""
    folder, name = Path(given["folder"]), given["name"]
    party = LiveParty.__new__(LiveParty)
    party.folder, party.now, party.refused = folder, given["now"], []
    party.identities = {name: Identity.load(folder / f"{name}.key")}
    party.roster = Roster.read((folder / "roster").read_bytes(), given["founder"], FEDERATION, given["now"])
    with open_session(given["config"]) as session, closing(party.transport(session, name, serve=True)) as transport:
        signed = party.at(name, transport, cache=folder / name / "blobs")
        print("ready", flush=True)  # noqa: T201
        for line in sys.stdin:
            order = json.loads(line)
            found: Any = None
            if order["do"] == "post":
                signed.publish(f"round-{order['round']}", Parcel(who=name, model=model(order["seed"])))
            elif order["do"] == "withdraw":
                found = signed.withdraw(f"round-{order['round']}", "no longer right").version
            elif order["do"] == "members":
                found = transport.members()
            elif order["do"] == "links":
                found = sorted({link.auth_identifier for link in session.info.links()})
            elif order["do"] == "collect":
                parcels = signed.gather(f"round-{order['round']}", order.get("quorum", 0), order.get("deadline", 0))
                found = {site: [parcel["who"], parcel.nbytes] for site, parcel in parcels.items()}
            print(json.dumps(found), flush=True)  # noqa: T201


if __name__ == "__main__":
    _orders(json.loads(sys.argv[1]))
