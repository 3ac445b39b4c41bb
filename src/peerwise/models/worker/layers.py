"""What a child gives up before it sees a stranger's bytes: layers that do not depend on one another, each said to be on
or why it is not. Linux has them all; elsewhere the limits on resources are all there is."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import signal
import sys
from collections.abc import Callable

from peerwise.models.worker.system_calls import leave_few_system_calls

_NO_NEW_PRIVILEGES, _DEATH_SIGNAL = 38, 1  # of prctl
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000  # of unshare
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION = 0x20080522
_LANDLOCK_CREATE, _LANDLOCK_RESTRICT = 444, 446  # the same on every architecture
_LANDLOCK_FILES = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # rights over files by version of the interface
_LANDLOCK_NET_SINCE, _LANDLOCK_SCOPES_SINCE = 4, 6
OPEN_FILES = 32

Layer = Callable[[], None]


def before_imports(memory_bytes: int) -> dict[str, Layer]:
    """Those that leave libraries to be read. A network of its own wants a process of one thread."""
    return {
        "no new privileges": lambda: _prctl(_NO_NEW_PRIVILEGES, 1),
        "memory limit": lambda: _limit("RLIMIT_AS", memory_bytes),
        "no core dumps": lambda: _limit("RLIMIT_CORE", 0),
        "writes no files": lambda: _limit("RLIMIT_FSIZE", 0),
        "few open files": lambda: _limit("RLIMIT_NOFILE", OPEN_FILES),
        "network of its own": _leave_network,
    }


def after_imports(parent: int) -> dict[str, Layer]:
    """Those after which no library, or any other file, can be read. The filter is last, as it forbids all the others;
    whoever gets other rights is no longer ended with its parent, so that comes after these."""
    return {
        "no new processes": _no_new_processes,
        "no capabilities": _drop_capabilities,
        "opens no files": _leave_files,
        "dies with its parent": lambda: _die_with(parent),
        "few system calls": leave_few_system_calls,
    }


def applied(layers: dict[str, Layer], wanted: frozenset[str]) -> dict[str, str]:
    """Each layer: "on", or why it is not."""
    found: dict[str, str] = {}
    for name, layer in layers.items():
        if name not in wanted:
            found[name] = "not asked for"
            continue
        try:
            layer()
            found[name] = "on"
        except (OSError, ImportError, AttributeError, ValueError) as error:
            found[name] = f"not on this platform ({sys.platform}): {error}"
    return found


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _done(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _prctl(option: int, value: int) -> None:
    _done(_libc().prctl(option, value, 0, 0, 0), "prctl")


def _die_with(parent: int) -> None:
    _prctl(_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # it was gone before the kernel was asked
        os._exit(1)


def _limit(name: str, value: int) -> None:
    import resource  # not there on Windows

    resource.setrlimit(getattr(resource, name), (value, value))


def _no_new_processes() -> None:
    _limit("RLIMIT_NPROC", 0)
    try:
        made = os.fork()
    except OSError:
        return
    if made == 0:
        os._exit(0)
    os.waitpid(made, 0)
    raise PermissionError(errno.EPERM, "the superuser is exempt")  # whatever it is called in a namespace of its own


def _leave_network() -> None:
    libc = _libc()
    if libc.unshare(_NEW_NETWORK) < 0:  # only the superuser may, others in a user namespace of their own
        _done(libc.unshare(_NEW_USER | _NEW_NETWORK), "unshare")


def _drop_capabilities() -> None:
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _CAPSET:
        raise OSError(errno.ENOSYS, f"capset is not known for {machine}")
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    _done(_libc().syscall(_CAPSET[machine], header, (ctypes.c_uint32 * 6)()), "capset")


def _leave_files() -> None:
    """Landlock with no exceptions: nothing can be opened, made or removed, no port bound or connected to."""
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, "Landlock is of Linux")
    libc = _libc()
    version = _done(libc.syscall(_LANDLOCK_CREATE, None, 0, 1), "landlock")
    files = 2 ** _LANDLOCK_FILES.get(version, 16) - 1
    network = 3 if version >= _LANDLOCK_NET_SINCE else 0
    scopes = 3 if version >= _LANDLOCK_SCOPES_SINCE else 0
    handled = (ctypes.c_uint64 * 3)(files, network, scopes)
    size = 24 if scopes else 16 if network else 8
    rules = _done(libc.syscall(_LANDLOCK_CREATE, handled, ctypes.c_size_t(size), 0), "landlock")
    try:
        _done(libc.syscall(_LANDLOCK_RESTRICT, rules, 0), "landlock")
    finally:
        os.close(rules)


LAYERS = (*before_imports(0), *after_imports(0))
