"""A filter that leaves a process the few system calls that running a model takes (seccomp, in the kernel's own small
language). Any other call fails with "operation not permitted": no files, no sockets, no processes, no programs."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

# Number on x86_64, number on aarch64 (None: it has no such call).
_ALLOWED: dict[str, tuple[int, int | None]] = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "fstat": (5, 80),
    "poll": (7, None),
    "ppoll": (271, 73),
    "lseek": (8, 62),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "readv": (19, 65),
    "writev": (20, 66),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "nanosleep": (35, 101),
    "setitimer": (38, 103),
    "getpid": (39, 172),
    "exit": (60, 93),
    "gettimeofday": (96, 169),
    "getrusage": (98, 165),
    "sigaltstack": (131, 132),
    "gettid": (186, 178),
    "futex": (202, 98),
    "sched_getaffinity": (204, 123),
    "restart_syscall": (219, 128),
    "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115),
    "exit_group": (231, 94),
    "getcpu": (309, 168),
    "getrandom": (318, 278),
    "rseq": (334, 293),
}
_NO_NEW_CODE: dict[str, tuple[int, int | None]] = {"mmap": (9, 222), "mprotect": (10, 226)}  # not executable
_ARCHITECTURES = {"x86_64": (0, 0xC000003E, 317), "aarch64": (1, 0xC00000B7, 277)}  # column, audit number, seccomp

_LOAD, _EQUALS, _HAS_BITS, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000
_NUMBER_AT, _ARCHITECTURE_AT, _THIRD_ARGUMENT_AT = 0, 4, 32  # within the kernel's record of a call
_EXECUTABLE = 4
_SET_FILTER, _EVERY_THREAD = 1, 1


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def leave_few_system_calls() -> None:
    """For all threads of this process, for good; OSError where that cannot be had."""
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"no list of system calls for {machine}")
    code = _code(machine)
    program = _Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_ARCHITECTURES[machine][2], _SET_FILTER, _EVERY_THREAD, ctypes.byref(program)):
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")


def _code(machine: str) -> bytes:
    column, audit, _ = _ARCHITECTURES[machine]
    steps = [
        _step(_LOAD, _ARCHITECTURE_AT),
        _step(_EQUALS, audit, 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER_AT),
    ]
    for numbers in _ALLOWED.values():
        if (number := numbers[column]) is not None:
            steps += [_step(_EQUALS, number, 0, 1), _step(_RETURN, _ALLOW)]
    for numbers in _NO_NEW_CODE.values():
        steps += [
            _step(_EQUALS, numbers[column] or 0, 0, 4),
            _step(_LOAD, _THIRD_ARGUMENT_AT),
            _step(_HAS_BITS, _EXECUTABLE, 1, 0),
            _step(_RETURN, _ALLOW),
            _step(_RETURN, _REFUSE),
        ]
    return b"".join([*steps, _step(_RETURN, _REFUSE)])


def _step(what: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    return struct.pack("=HBBI", what, if_so, if_not, value)
