"""A container's system calls are judged as its seccomp profile says: by an interpreter of the filter here, and by the kernel."""

from __future__ import annotations

import errno
import json
import os
import socket
import struct
import subprocess
import sys

import pytest

from pilothouse.supervise.seccomp import ALLOW, ProfileError, SeccompProfile, compiled, instructions, parsed
from pilothouse.supervise.seccomp_default import RUNTIME_DEFAULT, SHARED_USER_DEFAULT
from pilothouse.supervise.syscalls import AUDIT_ARCHITECTURES, TABLES

MACHINES = ("x86_64", "aarch64")
MACHINE = os.uname().machine
KILLED = 0x80000000
REFUSED = 0x50000 | errno.EPERM
UNKNOWN = 0x50000 | errno.ENOSYS
DANGEROUS = [
    "mount",
    "umount2",
    "pivot_root",
    "fsopen",
    "fsmount",
    "move_mount",
    "open_tree",
    "mount_setattr",
    "keyctl",
    "add_key",
    "request_key",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "open_by_handle_at",
    "kexec_load",
    "kexec_file_load",
    "init_module",
    "finit_module",
    "delete_module",
    "setns",
    "unshare",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "swapon",
    "reboot",
    "settimeofday",
    "syslog",
    "sethostname",
]


def verdict(program: bytes, machine: str, number: int, *args: int, arch: int | None = None) -> int:
    """What the kernel would do, and in how few steps."""
    found = AUDIT_ARCHITECTURES[machine] if arch is None else arch
    data = struct.pack("<IIQ6Q", number, found, 0, *args, *([0] * (6 - len(args))))
    code, at, value = list(instructions(program)), 0, 0
    for _ in range(60):
        op, yes, no, k = code[at]
        at += 1
        match op:
            case 0x20:
                (value,) = struct.unpack_from("<I", data, k)
            case 0x54:
                value &= k
            case 0x05:
                at += k
            case 0x06:
                return k
            case 0x15 | 0x25 | 0x35:
                holds = {0x15: value == k, 0x25: value > k, 0x35: value >= k}[op]
                at += yes if holds else no
            case _:
                raise AssertionError(f"instruction {op:#x}")
    raise AssertionError("a system call is judged in 60 steps")


def called(program: bytes, machine: str, name: str, *args: int) -> int:
    return verdict(program, machine, TABLES[machine][name], *args)


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_what_reaches_the_kernel_itself_is_refused(machine: str) -> None:
    program = compiled(RUNTIME_DEFAULT, machine, ("CHOWN", "NET_RAW", "SYS_CHROOT"))
    for name in DANGEROUS:
        assert called(program, machine, name) == REFUSED, name


def test_what_programs_live_by_is_allowed(machine: str) -> None:
    program = compiled(RUNTIME_DEFAULT, machine, ())
    for name in [
        "read",
        "write",
        "openat2",
        "mmap",
        "futex",
        "execve",
        "epoll_pwait",
        "accept4",
        "getrandom",
        "statx",
        "rseq",
        "prctl",
    ]:
        assert called(program, machine, name) == ALLOW, name


def test_rules_are_those_of_the_profile_for_every_call_there_is(machine: str) -> None:
    program = compiled(RUNTIME_DEFAULT, machine, ())
    conditional = {"socket", "personality", "clone", "clone3"}
    allowed = {
        name
        for rule in RUNTIME_DEFAULT.syscalls
        if not rule.args and (rule.includes is None or not rule.includes.caps)
        for name in rule.names
    }
    for name, number in TABLES[machine].items():
        if name not in conditional:
            expected = ALLOW if name in allowed else REFUSED
            assert verdict(program, machine, number) == expected, name


@pytest.mark.parametrize(
    ("capability", "name"),
    [("SYS_ADMIN", "mount"), ("SYS_CHROOT", "chroot"), ("SYS_TIME", "clock_settime"), ("BPF", "bpf")],
)
def test_a_capability_brings_its_system_calls(machine: str, capability: str, name: str) -> None:
    assert called(compiled(RUNTIME_DEFAULT, machine, ()), machine, name) == REFUSED
    assert called(compiled(RUNTIME_DEFAULT, machine, (capability,)), machine, name) == ALLOW


@pytest.mark.parametrize("high", [0, 1 << 32], ids=["", "with-high-bits-that-the-kernel-ignores"])
def test_arguments_count_as_the_kernel_reads_them(machine: str, high: int) -> None:
    program = compiled(RUNTIME_DEFAULT, machine, ())
    assert called(program, machine, "socket", high | socket.AF_INET6) == ALLOW
    assert called(program, machine, "socket", high | socket.AF_VSOCK) == REFUSED
    assert called(program, machine, "socket", high | socket.AF_ALG) == REFUSED
    assert called(program, machine, "personality", high | 0xFFFFFFFF) == ALLOW
    assert called(program, machine, "personality", high | 0x0040000) == REFUSED
    assert called(program, machine, "clone", high | 0x00010F00) == ALLOW
    for flag in (0x10000000, 0x00020000, 0x40000000, 0x20000000, 0x08000000, 0x04000000, 0x02000000):
        assert called(program, machine, "clone", high | flag | 17) == REFUSED, hex(flag)


@pytest.mark.parametrize("bits", [0o4755, 0o2755, 0o6000])
def test_who_shares_a_user_makes_no_set_user_id_files(machine: str, bits: int) -> None:
    program = compiled(SHARED_USER_DEFAULT, machine, ())
    calls = {
        "chmod": (0, bits),
        "fchmod": (0, bits),
        "creat": (0, bits),
        "mknod": (0, 0o100000 | bits),
        "fchmodat": (0, 0, bits),
        "fchmodat2": (0, 0, bits),
        "mknodat": (0, 0, bits),
        "open": (0, os.O_CREAT | os.O_WRONLY, bits),
        "openat": (0, 0, os.O_TMPFILE | os.O_RDWR, bits),
    }
    known = {name: args for name, args in calls.items() if name in TABLES[machine]}
    assert "fchmod" in known
    for name, args in known.items():
        *others, last = args
        assert called(program, machine, name, *others, last | 1 << 32) == REFUSED, name
        assert called(program, machine, name, *others, last & 0o1777) == ALLOW, name
        assert called(compiled(RUNTIME_DEFAULT, machine, ()), machine, name, *args) == ALLOW, name
    assert called(program, machine, "openat", 0, 0, os.O_RDONLY | os.O_DIRECTORY, 0o6755) == ALLOW
    assert called(program, machine, "openat2") == UNKNOWN


def test_who_shares_a_user_shares_no_ports(machine: str) -> None:
    program = compiled(SHARED_USER_DEFAULT, machine, ())
    reuse = (3, socket.SOL_SOCKET, socket.SO_REUSEPORT)
    assert called(program, machine, "setsockopt", *reuse) == 0x50000 | errno.ENOPROTOOPT
    assert called(program, machine, "setsockopt", 3, socket.SOL_SOCKET, socket.SO_REUSEADDR) == ALLOW
    assert called(program, machine, "setsockopt", 3, socket.IPPROTO_TCP, socket.SO_REUSEPORT) == ALLOW
    assert called(compiled(RUNTIME_DEFAULT, machine, ()), machine, "setsockopt", *reuse) == ALLOW


def test_who_shares_a_user_may_make_all_other_calls_as_ever(machine: str) -> None:
    ours, usual = (compiled(each, machine, ("CHOWN",)) for each in (SHARED_USER_DEFAULT, RUNTIME_DEFAULT))
    for name, number in TABLES[machine].items():
        if name != "openat2":
            assert verdict(ours, machine, number) == verdict(usual, machine, number), name


def test_what_a_filter_can_not_see_is_as_if_it_were_not_there(machine: str) -> None:
    program = compiled(RUNTIME_DEFAULT, machine, ())
    assert called(program, machine, "clone3") == UNKNOWN
    assert verdict(program, machine, 5000) == UNKNOWN


def test_other_architectures_are_no_way_around() -> None:
    program = compiled(RUNTIME_DEFAULT, "x86_64", ())
    i386 = 0x40000003
    assert verdict(program, "x86_64", 0, arch=i386) == KILLED
    assert verdict(program, "x86_64", 0x40000000 | TABLES["x86_64"]["read"]) == UNKNOWN
    assert verdict(compiled(RUNTIME_DEFAULT, "aarch64", ()), "aarch64", 0, arch=0x40000028) == KILLED


def test_an_architecture_that_is_not_known_has_no_filter() -> None:
    assert compiled(RUNTIME_DEFAULT, "riscv64", ()) == b""


@pytest.mark.parametrize(
    ("op", "allowed", "refused"),
    [
        ("EQ", [7 << 33 | 5], [5, 7 << 33, 7 << 33 | 6]),
        ("NE", [5, 7 << 33, 7 << 33 | 6], [7 << 33 | 5]),
        ("GT", [7 << 33 | 6, 8 << 33], [7 << 33 | 5, 7 << 33, 1 << 33 | 9]),
        ("GE", [7 << 33 | 5, 8 << 33], [7 << 33 | 4, 1 << 33 | 9]),
        ("LT", [7 << 33 | 4, 1 << 33 | 9], [7 << 33 | 5, 8 << 33]),
        ("LE", [7 << 33 | 5, 1 << 33 | 9], [7 << 33 | 6, 8 << 33]),
    ],
)
def test_profiles_compare_all_64_bits(op: str, allowed: list[int], refused: list[int]) -> None:
    argument = {"index": 3, "value": 7 << 33 | 5, "op": f"SCMP_CMP_{op}"}
    program = compiled(
        profile([{"names": ["close"], "action": "SCMP_ACT_ALLOW", "args": [argument]}]), "x86_64", ()
    )
    for value in allowed:
        assert called(program, "x86_64", "close", 0, 0, 0, value) == ALLOW, value
    for value in refused:
        assert called(program, "x86_64", "close", 0, 0, 0, value) == REFUSED, value


def profile(rules: list[dict[str, object]], **more: object) -> SeccompProfile:
    return parsed(json.dumps({"defaultAction": "SCMP_ACT_ERRNO", "syscalls": rules, **more}).encode())


def test_a_profile_of_docker_is_understood() -> None:
    rules: list[dict[str, object]] = [
        {"names": ["read", "no_such_call"], "action": "SCMP_ACT_ALLOW"},
        {"name": "write", "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_CHOWN"]}},
        {"names": ["ptrace"], "action": "SCMP_ACT_ALLOW", "includes": {"minKernel": "4.8"}},
        {"names": ["mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28, "excludes": {"arches": ["arm64"]}},
        {"names": ["kill"], "action": "SCMP_ACT_KILL_PROCESS"},
    ]
    found = profile(rules, archMap=[{"architecture": "SCMP_ARCH_X86_64"}], defaultErrnoRet=13)
    program = compiled(found, "x86_64", ("CHOWN",), kernel=(4, 7))
    assert called(program, "x86_64", "read") == ALLOW
    assert called(program, "x86_64", "write") == ALLOW
    assert called(program, "x86_64", "ptrace") == 0x50000 | 13
    assert called(program, "x86_64", "mkdirat") == 0x50000 | 28
    assert called(program, "x86_64", "kill") == KILLED
    program = compiled(found, "aarch64", (), kernel=(4, 8))
    assert called(program, "aarch64", "write") == 0x50000 | 13
    assert called(program, "aarch64", "ptrace") == ALLOW
    assert called(program, "aarch64", "mkdirat") == 0x50000 | 13


def test_a_profile_may_be_as_long_as_bpf_jumps_are_not() -> None:
    rules: list[dict[str, object]] = [
        {"names": [name], "action": "SCMP_ACT_ERRNO", "errnoRet": number % 100 + 2}
        for name, number in TABLES["x86_64"].items()
    ]
    program = compiled(profile(rules), "x86_64", ())
    assert len(program) // 8 > 512
    for name, number in TABLES["x86_64"].items():
        assert verdict(program, "x86_64", number) == 0x50000 | (number % 100 + 2), name


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b'{"defaultAction": "SCMP_ACT_NOTIFY"}',
        b'{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_ALLOW",'
        b' "args": [{"index": 6, "value": 1, "op": "SCMP_CMP_EQ"}]}]}',
    ],
)
def test_what_is_no_profile_is_refused(content: bytes) -> None:
    with pytest.raises(ProfileError):
        parsed(content)


CHILD = """
import ctypes, os, subprocess, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
program = bytes.fromhex(sys.argv[1])
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Filter(len(program) // 8, program))) == 0, ctypes.get_errno()
def fails(number, *args):
    ctypes.set_errno(0)
    return ctypes.get_errno() if libc.syscall(number, *args) < 0 else 0
for call in sys.argv[2:]:
    print(call, fails(*map(int, call.split(","))))
thread = threading.Thread(target=print, args=("a thread runs",)); thread.start(); thread.join()
print(subprocess.run(["/bin/echo", "a program runs"], stdout=subprocess.PIPE, text=True).stdout.strip())
"""


@pytest.mark.skipif(MACHINE not in TABLES, reason="there are no filters for this architecture")
def test_the_kernel_takes_the_filter_and_keeps_to_it() -> None:
    program = compiled(RUNTIME_DEFAULT, MACHINE, ("CHOWN",))
    numbers = TABLES[MACHINE]
    refused = [
        f"{numbers['keyctl']},0,-3,0",
        f"{numbers['unshare']},{0x10000000}",
        f"{numbers['bpf']},0,0,0",
        f"{numbers['perf_event_open']},0,0,0,0,0",
        f"{numbers['userfaultfd']},0",
        f"{numbers['io_uring_setup']},1,0",
        f"{numbers['socket']},{socket.AF_VSOCK},1,0",
        f"{numbers['clone']},{0x10000000 | 17},0,0,0,0",
    ]
    unknown = [f"{numbers['clone3']},0,0"]
    allowed = [f"{numbers['getppid']}", f"{numbers['socket']},{socket.AF_INET},1,0"]
    said = subprocess.run(
        [sys.executable, "-c", CHILD, program.hex(), *refused, *unknown, *allowed],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert said == [
        *(f"{each} {errno.EPERM}" for each in refused),
        *(f"{each} {errno.ENOSYS}" for each in unknown),
        *(f"{each} 0" for each in allowed),
        "a thread runs",
        "a program runs",
    ]
