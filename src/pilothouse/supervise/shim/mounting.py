"""The pieces that a view is made of: devices, /proc, overlays, and what is mounted where."""

from __future__ import annotations

import errno
import os
import stat

from pilothouse.supervise.shim import kernel

DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx")

_COVERS = "/.covers"


def make_devices(folder: str) -> None:
    """The devices that every program may expect, and no others. In the machine's own folder root could remove them for all."""
    os.mkdir(folder)
    kernel.mount("tmpfs", folder, "tmpfs", kernel.MS_NOSUID, "mode=755,size=64m")
    for name in DEVICES:
        if os.path.exists(f"/dev/{name}"):
            os.close(os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC))
            kernel.mount(f"/dev/{name}", f"{folder}/{name}", flags=kernel.MS_BIND)
    for name in ("pts", "mqueue"):
        if os.path.isdir(f"/dev/{name}"):
            os.mkdir(f"{folder}/{name}")
            kernel.mount(f"/dev/{name}", f"{folder}/{name}", flags=kernel.MS_BIND | kernel.MS_REC)
    os.mkdir(f"{folder}/shm")
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"{folder}/{name}")


def mount_proc(machines: str) -> None:
    """Of our own PID namespace. Inside other containers the kernel may refuse that; then the machine's is shown."""
    try:
        kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    except PermissionError:
        kernel.mount(machines, "/proc", flags=kernel.MS_BIND | kernel.MS_REC)


def overlay(path: str) -> bool:
    """Lay an empty writable layer over a folder; False if the kernel won't."""
    if "," in path or ":" in path or "\\" in path:  # They mean something in mount options.
        return False
    os.mkdir(_COVERS, 0o700)
    kernel.mount("tmpfs", _COVERS, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV)
    try:
        os.mkdir(f"{_COVERS}/upper")
        os.mkdir(f"{_COVERS}/work")
        look_like(f"{_COVERS}/upper", os.stat(path))
        options = f"lowerdir={path},upperdir={_COVERS}/upper,workdir={_COVERS}/work"
        for more in ("", ",userxattr"):
            try:
                kernel.mount("overlay", path, "overlay", options=options + more)
            except OSError:
                continue
            return True
        return False
    finally:
        kernel.unmount(_COVERS)
        os.rmdir(_COVERS)


def look_like(path: str, was: os.stat_result) -> None:
    os.chmod(path, stat.S_IMODE(was.st_mode))
    try:
        os.chown(path, was.st_uid, was.st_gid)
    except OSError as error:
        # Its owner does not exist in our user namespace.
        if error.errno not in (errno.EINVAL, errno.EPERM):
            raise


def kept_flags(path: str) -> int:
    return os.statvfs(path).f_flag & (kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)


def mounts_below(path: str) -> list[str]:
    """Mount points at `path` and below; the kernel writes blanks and the like in octal."""
    found = []
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            point = line.split(b" ")[4]
            for escape, plain in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
                point = point.replace(escape, plain)
            name = os.fsdecode(point)
            if name == path or name.startswith(path + "/"):
                found.append(name)
    return found


def ancestors(path: str) -> list[str]:
    found = []
    while path != "/":
        path = os.path.dirname(path)
        found.append(path)
    return found
