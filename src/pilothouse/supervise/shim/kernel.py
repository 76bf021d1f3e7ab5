"""System calls that the standard library lacks, or has only in newer Pythons."""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_SLAVE = 0x80000
_MS_PRIVATE = 0x40000
MNT_DETACH = 0x2

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_KEEPCAPS = 8
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

MOUNT_ATTR_RDONLY = 0x1
MOUNT_ATTR_NOSUID = 0x2
MOUNT_ATTR_NODEV = 0x4
MOUNT_ATTR_NOEXEC = 0x8
_MOUNT_ATTR_IDMAP = 0x00100000
_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_AT_RECURSIVE = 0x8000
_OPEN_TREE_CLONE = 0x1
_OPEN_TREE_CLOEXEC = os.O_CLOEXEC
_MOVE_MOUNT_F_EMPTY_PATH = 0x4
_SECCOMP_MODE_FILTER = 2
_LANDLOCK_CREATE_RULESET_VERSION = 0x1
_LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET = 0x1
_LANDLOCK_WITH_SCOPES = 6
"""The first Landlock ABI with scopes: Linux 6.12."""
_KEYCTL_JOIN_SESSION_KEYRING = 1

_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_LANDLOCK_CREATE_RULESET, _LANDLOCK_RESTRICT_SELF = 444, 446
_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}
_CAPABILITIES_V3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
_libc.umount2.argtypes = (ctypes.c_char_p, ctypes.c_int)
_libc.prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)
_libc.syscall.restype = ctypes.c_long


def _checked(result: int, subject: str = "") -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), subject or None)


def unshare(flags: int) -> None:
    _checked(_libc.unshare(ctypes.c_int(flags)))


def setns(descriptor: int, kinds: int) -> None:
    _checked(_libc.setns(ctypes.c_int(descriptor), ctypes.c_int(kinds)))


def prctl(option: int, value: int = 0, third: int = 0) -> None:
    _checked(_libc.prctl(option, value, third, 0, 0))


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    names = os.fsencode(source), os.fsencode(target), kind.encode()
    _checked(_libc.mount(*names, flags, os.fsencode(options) or None), target)


def unmount(target: str) -> None:
    """Detach: at once for lookups, finally when the last user is done."""
    _checked(_libc.umount2(os.fsencode(target), MNT_DETACH), target)


def clone_mount(source: str, flags: int, *, user_namespace: int = -1, recursive: bool = True) -> int:
    """Clone a part of the tree, detached; returns its descriptor. With a user namespace it is id-mapped.

    Raises OSError; EINVAL or EPERM with a user namespace mean that a filesystem in it can't be mapped.
    """
    below = _AT_RECURSIVE if recursive else 0
    tree = _called(
        _OPEN_TREE,
        ctypes.c_int(_AT_FDCWD),
        ctypes.c_char_p(os.fsencode(source)),
        ctypes.c_uint(_OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | below),
        subject=source,
    )
    try:
        mapping = _MOUNT_ATTR_IDMAP if user_namespace >= 0 else 0
        _set_attributes(tree, "", _AT_EMPTY_PATH | below, flags | mapping, max(user_namespace, 0))
    except OSError as error:
        os.close(tree)
        raise OSError(error.errno, error.strerror, source) from None
    return tree


def attach_mount(tree: int, target: str) -> None:
    """Mount what `clone_mount` has returned, and close it."""
    try:
        _called(
            _MOVE_MOUNT,
            ctypes.c_int(tree),
            ctypes.c_char_p(b""),
            ctypes.c_int(_AT_FDCWD),
            ctypes.c_char_p(os.fsencode(target)),
            ctypes.c_uint(_MOVE_MOUNT_F_EMPTY_PATH),
            subject=target,
        )
    finally:
        os.close(tree)


def make_read_only(target: str) -> None:
    """Make a mount and all below it read-only."""
    _set_attributes(_AT_FDCWD, target, _AT_RECURSIVE, MOUNT_ATTR_RDONLY)


def create_files_as(uid: int, gid: int) -> None:
    """Files that this process creates belong to these from here on; its rights stay."""
    _libc.setfsgid(ctypes.c_uint(gid))
    _libc.setfsuid(ctypes.c_uint(uid))
    # Leaving root clears the rights over files from the effective set, not from the permitted one.
    raise_capabilities()


def _set_attributes(folder: int, path: str, lookup: int, flags: int, user_namespace: int = 0) -> None:
    # Private: later mounts of the machine don't appear in it.
    attributes = (ctypes.c_uint64 * 4)(flags, 0, _MS_PRIVATE, user_namespace)
    _called(
        _MOUNT_SETATTR,
        ctypes.c_int(folder),
        ctypes.c_char_p(os.fsencode(path)),
        ctypes.c_uint(lookup),
        ctypes.byref(attributes),
        ctypes.c_size_t(ctypes.sizeof(attributes)),
        subject=path,
    )


def pivot_root(new: str, old: str) -> None:
    machine = os.uname().machine
    if machine not in _PIVOT_ROOT:
        raise OSError(38, f"pivot_root is not known for {machine} machines")
    _called(_PIVOT_ROOT[machine], ctypes.c_char_p(new.encode()), ctypes.c_char_p(old.encode()), subject=new)


def scope_abstract_sockets() -> bool:
    """Allow only abstract sockets of this process and its descendants; False if the kernel can't."""
    version = _libc.syscall(
        ctypes.c_long(_LANDLOCK_CREATE_RULESET),
        None,
        ctypes.c_size_t(0),
        ctypes.c_uint(_LANDLOCK_CREATE_RULESET_VERSION),
    )
    if version < _LANDLOCK_WITH_SCOPES:
        return False
    attributes = (ctypes.c_uint64 * 3)(0, 0, _LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET)
    ruleset = _called(
        _LANDLOCK_CREATE_RULESET,
        ctypes.byref(attributes),
        ctypes.c_size_t(ctypes.sizeof(attributes)),
        ctypes.c_uint(0),
    )
    try:
        _called(_LANDLOCK_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint(0))
    finally:
        os.close(ruleset)
    return True


def join_session_keyring() -> None:
    """Join a new, empty session keyring, without the machine's keys, if the kernel has keys."""
    number = _KEYCTL.get(os.uname().machine)
    if number is not None:
        _libc.syscall(ctypes.c_long(number), ctypes.c_int(_KEYCTL_JOIN_SESSION_KEYRING), None)


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def filter_system_calls(program: bytes) -> None:
    """Install a seccomp filter: a BPF program."""
    filters = _FilterProgram(len(program) // 8, program)
    pointer = ctypes.cast(ctypes.byref(filters), ctypes.c_void_p).value or 0
    _checked(_libc.prctl(PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, pointer, 0, 0))


def _called(number: int, *arguments: object, subject: str = "") -> int:
    result = int(_libc.syscall(ctypes.c_long(number), *arguments))
    _checked(result, subject)
    return result


def raise_capabilities() -> None:
    """Make all permitted capabilities effective."""
    with open("/proc/self/status") as status:
        permitted = next(int(line.split()[1], 16) for line in status if line.startswith("CapPrm"))
    set_capabilities(permitted)


def set_capabilities(kept: int) -> None:
    """Set the effective and permitted capabilities. Inheritable ones only matter to files."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0)
    low, high = kept & 0xFFFFFFFF, kept >> 32
    data = (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)
    _checked(_libc.capset(ctypes.byref(header), ctypes.byref(data)))
