"""System calls that the standard library lacks, or has only in newer Pythons."""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
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
MNT_DETACH = 0x2

PR_SET_PDEATHSIG = 1
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

_MOUNT_ATTR_RDONLY = 0x1
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_SETATTR = 442
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
    _checked(
        _libc.mount(
            os.fsencode(source), os.fsencode(target), kind.encode(), flags, os.fsencode(options) or None
        ),
        target,
    )


def unmount(target: str) -> None:
    """At once for everyone who looks; for good when the last user is done."""
    _checked(_libc.umount2(os.fsencode(target), MNT_DETACH), target)


def make_read_only(target: str) -> None:
    """A mount and all below it; on kernels before 5.12 the mount alone."""
    wanted = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_RDONLY, 0, 0, 0)
    done = _libc.syscall(
        ctypes.c_long(_MOUNT_SETATTR),
        ctypes.c_int(_AT_FDCWD),
        ctypes.c_char_p(os.fsencode(target)),
        ctypes.c_uint(_AT_RECURSIVE),
        ctypes.byref(wanted),
        ctypes.c_size_t(32),
    )
    if done < 0:
        # Flags that are locked in a user namespace must be given again, or the change is refused.
        kept = os.statvfs(target).f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC)
        mount("none", target, flags=MS_REMOUNT | MS_BIND | MS_RDONLY | kept)


def pivot_root(new: str, old: str) -> None:
    machine = os.uname().machine
    if machine not in _PIVOT_ROOT:
        raise OSError(38, f"pivot_root is not known for {machine} machines")
    _checked(
        _libc.syscall(
            ctypes.c_long(_PIVOT_ROOT[machine]), ctypes.c_char_p(new.encode()), ctypes.c_char_p(old.encode())
        ),
        new,
    )


def set_capabilities(kept: int) -> None:
    """Effective, permitted and inheritable alike."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0)
    low, high = kept & 0xFFFFFFFF, kept >> 32
    data = (ctypes.c_uint32 * 6)(low, low, low, high, high, high)
    _checked(_libc.capset(ctypes.byref(header), ctypes.byref(data)))
