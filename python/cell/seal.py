"""Seals the calling process: rlimits, another user, Landlock and seccomp, all by ctypes.

The order matters, and `Seal.enter` has it: what needs privileges comes first, the parent-death signal is set again
because a change of user clears it, and the system call filter comes last because it forbids everything before it. After
it the process can compute, allocate memory, tell the time, and read and write the descriptors it already has. Assume
that an attacker's native code runs behind it: nothing in Python is part of the wall.
"""

import ctypes
import fcntl
import os
import platform
import resource
import struct
import sys
from typing import Any

from cell.syscalls import build_filter

# Not "nobody": databases and web servers on the same machine often run as that user.
CELL_UID = 65533
CHANNEL_FD = 3
# Where memory runs out the kernel takes a cell before its executor (500), and both before a database.
OOM_SCORE = 800
OOM_FILE = "/proc/self/oom_score_adj"
# A cell is a session, and where the kernel shares the processor between sessions first, nice counts only within one.
SESSION_FILE, SESSION_NICE = "/proc/self/autogroup", b"5"

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
SECCOMP_MODE_FILTER = 2
SIGKILL = 9


class SealError(Exception):
    """A required layer of the sandbox could not be set up."""


class _FilterProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


def _libc():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
    libc.syscall.restype = ctypes.c_long
    return libc


# Rights over files by the Landlock version that added them, then those over TCP and over other processes' sockets.
_LANDLOCK_FILES = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
_LANDLOCK_NETWORK, _LANDLOCK_SCOPES = 3, 3
_LANDLOCK_CREATE, _LANDLOCK_RESTRICT = 444, 446


def _restrict_with_landlock(libc):
    """Denies every right that Landlock knows. On a kernel without it the system call filter is the only wall."""
    version = libc.syscall(_LANDLOCK_CREATE, None, 0, 1)
    if version < 1:
        return 0
    files = 0
    for since, rights in _LANDLOCK_FILES.items():
        if version >= since:
            files |= rights
    # A kernel refuses a structure with non-zero fields that it does not know, so older ones get a shorter one.
    rules = struct.pack("<Q", files)
    if version >= 4:
        rules += struct.pack("<Q", _LANDLOCK_NETWORK)
    if version >= 6:
        rules += struct.pack("<Q", _LANDLOCK_SCOPES)
    buffer = ctypes.create_string_buffer(rules, len(rules))
    descriptor = libc.syscall(_LANDLOCK_CREATE, buffer, ctypes.c_size_t(len(rules)), 0)
    if descriptor < 0:
        raise SealError(f"landlock_create_ruleset failed: {os.strerror(ctypes.get_errno())}")
    if libc.syscall(_LANDLOCK_RESTRICT, descriptor, 0) != 0:
        raise SealError(f"landlock_restrict_self failed: {os.strerror(ctypes.get_errno())}")
    os.close(descriptor)
    return version


class Seal:
    """What the zygote prepares once, so that a child has little to do: the filter, libc, the size of the process."""

    def __init__(self, memory_mb, cpu_seconds, sandbox):
        self.sealed = sandbox != "none"
        self.linux = sys.platform.startswith("linux")
        self.libc: Any = _libc() if self.linux else None
        self.memory_bytes = memory_mb << 20
        self.cpu_seconds = cpu_seconds
        self.baseline_bytes = 0
        self.channel = -1
        self.zygote = os.getpid()
        self.oom_score = self._choose_oom_score()
        if self.sealed:
            if not self.linux:
                raise SealError(f"the sandbox needs the Linux kernel, and this is {sys.platform}")
            self.filter = ctypes.create_string_buffer(build_filter(platform.machine()))
            self.program = _FilterProgram((len(self.filter) - 1) // 8, ctypes.addressof(self.filter))

    def _choose_oom_score(self):
        """Raising it needs no privilege, lowering it does: one that is higher already stays."""
        try:
            with open(OOM_FILE, "rb") as file:
                return str(max(OOM_SCORE, int(file.read()))).encode()
        except OSError:
            return b""

    def _give_way(self):
        for path, value in ((OOM_FILE, self.oom_score), (SESSION_FILE, SESSION_NICE)):
            try:
                with open(path, "wb", buffering=0) as file:
                    file.write(value)
            except OSError:
                pass  # not this kernel, or a container forbids it; then what the executor has counts

    def measure(self):
        """The memory limit counts what an author adds, not what the interpreter and its libraries already map."""
        if self.linux:
            with open("/proc/self/statm", "rb") as file:
                self.baseline_bytes = int(file.read().split()[0]) * resource.getpagesize()

    def die_with_parent(self, parent):
        """A parent that died before the signal was requested sends none, so its pid is compared afterwards."""
        if self.linux:
            self._prctl(PR_SET_PDEATHSIG, SIGKILL)
        if os.getppid() != parent:
            raise SealError("the parent has died")

    def _prctl(self, option, value, extra=0):
        if self.libc.prctl(option, value, extra, 0, 0) != 0:
            raise SealError(f"prctl {option} failed: {os.strerror(ctypes.get_errno())}")

    def _limit(self):
        def put(which, soft, hard=None):
            resource.setrlimit(which, (soft, soft if hard is None else hard))

        if self.linux:
            put(resource.RLIMIT_AS, self.baseline_bytes + self.memory_bytes)
        # The soft limit sends SIGXCPU, which can be ignored; the hard one kills.
        put(resource.RLIMIT_CPU, self.cpu_seconds, self.cpu_seconds + 1)
        put(resource.RLIMIT_CORE, 0)
        if self.sealed:
            put(resource.RLIMIT_NOFILE, 16)
            for which in (
                resource.RLIMIT_FSIZE,
                resource.RLIMIT_NPROC,
                resource.RLIMIT_MEMLOCK,
                resource.RLIMIT_MSGQUEUE,
            ):
                put(which, 0)

    def _change_user(self):
        """A container may not let root change its user; the filter holds all the same."""
        try:
            os.setgroups([])
            os.setresgid(CELL_UID, CELL_UID, CELL_UID)
            os.setresuid(CELL_UID, CELL_UID, CELL_UID)
        except OSError:
            pass

    def _keep_only(self, connection):
        """Leaves descriptors 0 to 2 (/dev/null) and 3 (the channel) open, and no other."""
        null = os.open(os.devnull, os.O_RDWR)
        # Both are moved up first, because dup2 onto 3 would close whichever of them is there.
        null_high = _move_up(null)
        connection_high = _move_up(connection)
        for descriptor in (0, 1, 2):
            os.dup2(null_high, descriptor)
        os.dup2(connection_high, CHANNEL_FD)
        self.channel = CHANNEL_FD
        os.closerange(CHANNEL_FD + 1, 4096)

    def enter(self, connection):
        """Called in the forked child with the descriptor of its channel. On return the process is sealed."""
        self.channel = connection
        self.die_with_parent(self.zygote)
        os.setsid()
        self._give_way()
        self._keep_only(connection)
        self._limit()
        if not self.sealed:
            return
        if os.geteuid() == 0:
            self._change_user()
            # Changing the user cancels the signal.
            self.die_with_parent(self.zygote)
        self._prctl(PR_SET_DUMPABLE, 0)
        self._prctl(PR_SET_NO_NEW_PRIVS, 1)
        _restrict_with_landlock(self.libc)
        self._prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(self.program))


def _move_up(descriptor):
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD, 64)
