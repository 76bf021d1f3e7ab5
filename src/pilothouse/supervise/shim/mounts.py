"""The parts of a filesystem view: devices, /proc, /sys, overlays, and the mount table."""

from __future__ import annotations

import errno
import os
import stat

from pilothouse.supervise.shim import kernel

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

# fmt: off
_MASKED = (
    "/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
    "/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats",
    "/sys/devices/virtual/powercap", "/sys/firmware", "/sys/kernel/debug", "/sys/kernel/security",
    "/sys/kernel/tracing",
)
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
# fmt: on

TERMINALS = 64
"""The limit for a container: the machine has some 3,000 for all."""

_COVERS = "/.covers"
_QUIET = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
_RDONLY_QUIET = (
    kernel.MOUNT_ATTR_RDONLY | kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NODEV | kernel.MOUNT_ATTR_NOEXEC
)


def make_devices(folder: str) -> None:
    """Make the devices that programs expect, and no others, with terminals and message queues of its own.

    A device is bound read-only: it can be written to, but not changed or removed.
    """
    os.mkdir(folder)
    kernel.mount("tmpfs", folder, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755,size=64m")
    for name in DEVICES:
        if os.path.exists(f"/dev/{name}"):
            os.close(os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC))
            device = kernel.clone_mount(f"/dev/{name}", kernel.MOUNT_ATTR_RDONLY, recursive=False)
            kernel.attach_mount(device, f"{folder}/{name}")
    for name in ("pts", "mqueue", "shm"):
        os.mkdir(f"{folder}/{name}")
    _mount_if_known("devpts", f"{folder}/pts", f"newinstance,ptmxmode=0666,mode=0620,max={TERMINALS}")
    _mount_if_known("mqueue", f"{folder}/mqueue", "")
    os.symlink("pts/ptmx", f"{folder}/ptmx")
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"{folder}/{name}")


def _mount_if_known(kind: str, target: str, options: str) -> None:
    """Kernels can be built without these; then the directory stays empty."""
    try:
        kernel.mount(kind, target, kind, kernel.MS_NOSUID | kernel.MS_NOEXEC, options)
    except OSError as error:
        if error.errno != errno.ENODEV:
            raise


def mount_proc(target: str) -> None:
    """Mount /proc of our PID namespace. Raises OSError where an outer container forbids it."""
    kernel.mount("proc", target, "proc", _QUIET)


def mount_sys(target: str, cgroups: tuple[str, ...]) -> None:
    """Mount the machine's /sys read-only, with only the container's own cgroups."""
    trees = cgroup_trees()
    groups = [
        (tree, kernel.clone_mount(folder, _RDONLY_QUIET, recursive=False))
        for folder in cgroups
        if (tree := _tree_of(folder, trees))
    ]
    try:
        kernel.attach_mount(kernel.clone_mount("/sys", _RDONLY_QUIET, recursive=False), target)
    except OSError:  # In a user namespace, a mount can't be copied without those on it.
        kernel.mount("tmpfs", target, "tmpfs", _QUIET, "mode=755")
        _copy_unmounted("/sys", target, os.stat("/sys").st_dev)
        os.makedirs(f"{target}/fs/cgroup", exist_ok=True)
        kernel.make_read_only(target)
    place = f"{target}/fs/cgroup"
    if not os.path.isdir(place):
        for _, group in groups:
            os.close(group)
        return
    kernel.mount("tmpfs", place, "tmpfs", _QUIET, "mode=755")
    for tree, group in groups:
        below = tree.removeprefix("/sys/fs/cgroup")
        if below:
            os.makedirs(place + below, exist_ok=True)
        kernel.attach_mount(group, place + below)
    if all(tree != "/sys/fs/cgroup" for tree, _ in groups):
        kernel.make_read_only(place)


def _copy_unmounted(source: str, target: str, device: int) -> None:
    """Show the directories of a filesystem, without what is mounted on them and without single files.

    Were the mounts of the machine's cgroups covered instead, they would stay listed, with roots such as
    ``/..`` in a cgroup namespace, at which a JVM does not start.
    """
    for entry in os.scandir(source):
        if not entry.is_dir(follow_symlinks=False) or entry.stat(follow_symlinks=False).st_dev != device:
            continue
        place = f"{target}/{entry.name}"
        os.mkdir(place)
        try:
            part = kernel.clone_mount(entry.path, _RDONLY_QUIET, recursive=False)
        except OSError:  # Something is mounted below.
            _copy_unmounted(entry.path, place, device)
        else:
            kernel.attach_mount(part, place)


def cgroup_trees() -> list[str]:
    """The cgroup mounts of the machine, below /sys/fs/cgroup."""
    found = []
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            fields, _, kind = line.partition(b" - ")
            if kind.startswith((b"cgroup ", b"cgroup2 ")):
                found.append(_plain(fields.split(b" ")[4]))
    return [tree for tree in found if tree == "/sys/fs/cgroup" or tree.startswith("/sys/fs/cgroup/")]


def _tree_of(folder: str, trees: list[str]) -> str:
    """The tree of a cgroup; empty if it is not mounted at its usual place."""
    above = [tree for tree in trees if folder.startswith(tree + "/")]
    return max(above, key=len, default="")


def mask() -> None:
    """Mask what is about the whole machine, in the current root."""
    for path in _MASKED:
        try:
            if os.path.isdir(path):
                kernel.mount("tmpfs", path, "tmpfs", _QUIET | kernel.MS_RDONLY, "size=0,mode=555")
            elif os.path.exists(path):
                null = kernel.clone_mount("/dev/null", kernel.MOUNT_ATTR_RDONLY, recursive=False)
                kernel.attach_mount(null, path)
        except FileNotFoundError:
            continue
    for path in _READ_ONLY:
        if os.path.exists(path):
            kernel.attach_mount(kernel.clone_mount(path, _RDONLY_QUIET), path)


def overlay(path: str) -> bool:
    """Mount an overlay with an empty writable layer over a directory; False if the kernel refuses."""
    if "," in path or ":" in path or "\\" in path:  # Special in mount options.
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
                flags = kernel.MS_NOSUID | kernel.MS_NODEV
                kernel.mount("overlay", path, "overlay", flags, options=options + more)
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
    """Mount points at `path` and below."""
    with open("/proc/self/mountinfo", "rb") as file:
        points = [_plain(line.split(b" ")[4]) for line in file]
    return [point for point in points if point == path or point.startswith(path + "/")]


def _plain(point: bytes) -> str:
    """A mount point without the kernel's octal escapes."""
    for escape, plain in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
        point = point.replace(escape, plain)
    return os.fsdecode(point)


def ancestors(path: str) -> list[str]:
    found = []
    while path != "/":
        path = os.path.dirname(path)
        found.append(path)
    return found
