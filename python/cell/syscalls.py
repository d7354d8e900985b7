"""The system calls of a sealed cell as a filter program of the kernel (classic BPF), for x86_64 and aarch64.

A call is allowed, refused with an error number, or ends the process. Refusing is a courtesy: libraries fall back when a
new call does not exist (ENOSYS), and an author sees PermissionError (EPERM) instead of a dead process. Only calls that
nobody makes by accident kill.
"""

import struct

EPERM, ENOSYS = 1, 38

KILL_PROCESS = 0x80000000
ALLOW = 0x7FFF0000


def _errno(number):
    return 0x00050000 | number


# name: (x86_64, aarch64); None where the architecture has no such call.
ALLOWED = {
    "read": (0, 63),
    "write": (1, 64),
    "clock_gettime": (228, 113),
    "brk": (12, 214),
    "munmap": (11, 215),
    "mremap": (25, 216),
    "close": (3, 57),
    "sched_yield": (24, 124),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101),
    "gettimeofday": (96, 169),
    "getrandom": (318, 278),
    "exit": (60, 93),
    "exit_group": (231, 94),
    "restart_syscall": (219, 128),
    "getpid": (39, 172),
    "gettid": (186, 178),
    "getuid": (102, 174),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getegid": (108, 177),
    "getrusage": (98, 165),
    "times": (100, 153),
    "ppoll": (271, 73),
    "pselect6": (270, 72),
    "time": (201, None),
    "poll": (7, None),
    "select": (23, None),
}

# Libraries fall back to an older call on ENOSYS; EPERM they treat as final.
ABSENT = {
    "clone3": (435, 435),
    "rseq": (334, 293),
    "statx": (332, 291),
    "faccessat2": (439, 439),
    "openat2": (437, 437),
    "close_range": (436, 436),
}

# No library makes these by accident: it is an attack, and it is reported to the owner of the source.
KILLED = {
    "execve": (59, 221),
    "execveat": (322, 281),
    "fork": (57, None),
    "vfork": (58, None),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kill": (62, 129),
    "tkill": (200, 130),
    "pidfd_send_signal": (424, 424),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "bpf": (321, 280),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "userfaultfd": (323, 282),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "mount": (165, 40),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "setns": (308, 268),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_by_handle_at": (304, 265),
    "perf_event_open": (298, 241),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "personality": (135, 92),
}

MMAP, MPROTECT, FUTEX, MADVISE = (9, 222), (10, 226), (202, 98), (28, 233)
PROT_EXEC, MAP_ANONYMOUS = 4, 0x20
FUTEX_COMMAND_MASK = 0x7F  # leaves out FUTEX_PRIVATE_FLAG (128) and FUTEX_CLOCK_REALTIME (256)
FUTEX_COMMANDS = (0, 1, 9, 10)  # WAIT, WAKE, WAIT_BITSET, WAKE_BITSET
MADVISE_ADVICE = (4, 8, 14, 15)  # DONTNEED, FREE, HUGEPAGE, NOHUGEPAGE

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
COLUMN = {"x86_64": 0, "aarch64": 1}

# struct seccomp_data: nr at 0, arch at 4, instruction pointer at 8, args from 16, 8 bytes each, low half first.
OFFSET_NR, OFFSET_ARCH = 0, 4
LOAD, AND, JUMP_EQUAL, JUMP_GREATER_EQUAL, JUMP_SET, RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06


def _argument(index):
    return 16 + 8 * index


def build_filter(machine):
    """The program for `machine` as the bytes of an array of struct sock_filter."""
    if machine not in COLUMN:
        raise ValueError(f"no system call filter is known for the architecture {machine}")
    column = COLUMN[machine]
    program = []

    def add(code, k, if_true=0, if_false=0):
        program.append(struct.pack("<HBBI", code, if_true, if_false, k))

    def verdict(calls, action):
        for numbers in calls.values():
            if numbers[column] is not None:
                add(JUMP_EQUAL, numbers[column], 0, 1)
                add(RETURN, action)

    add(LOAD, OFFSET_ARCH)
    add(JUMP_EQUAL, AUDIT_ARCH[machine], 1, 0)
    add(RETURN, KILL_PROCESS)
    add(LOAD, OFFSET_NR)
    # From this bit on are the x32 calls, a second table that would bypass every number below.
    add(JUMP_GREATER_EQUAL, 0x40000000, 0, 1)
    add(RETURN, KILL_PROCESS)
    verdict(ALLOWED, ALLOW)

    add(JUMP_EQUAL, MMAP[column], 0, 6)
    add(LOAD, _argument(2))
    add(JUMP_SET, PROT_EXEC, 3, 0)
    add(LOAD, _argument(3))
    add(JUMP_SET, MAP_ANONYMOUS, 0, 1)
    add(RETURN, ALLOW)
    add(RETURN, _errno(EPERM))

    add(JUMP_EQUAL, MPROTECT[column], 0, 4)
    add(LOAD, _argument(2))
    add(JUMP_SET, PROT_EXEC, 1, 0)
    add(RETURN, ALLOW)
    add(RETURN, _errno(EPERM))

    for call, mask, values in ((FUTEX, FUTEX_COMMAND_MASK, FUTEX_COMMANDS), (MADVISE, 0xFFFFFFFF, MADVISE_ADVICE)):
        argument = _argument(1 if call is FUTEX else 2)
        add(JUMP_EQUAL, call[column], 0, 4 + len(values))
        add(LOAD, argument)
        add(AND, mask)
        for index, value in enumerate(values):
            add(JUMP_EQUAL, value, len(values) - index, 0)
        add(RETURN, _errno(EPERM))
        add(RETURN, ALLOW)

    verdict(ABSENT, _errno(ENOSYS))
    verdict(KILLED, KILL_PROCESS)
    add(RETURN, _errno(EPERM))
    return b"".join(program)
