"""A container's view of the machine: the machine's own tree, with the container's mounts in it.

    /            a tmpfs; every folder of the machine's root is bound into it
    /usr, /var   the machine's
    /proc        of the container's own PID namespace
    /dev         its own, with the devices that programs expect; /dev/shm too
    /data        a mount that was asked for; the machine has no such folder, and gets none
    /etc         likewise a mirror, if a file is to be placed in it that the machine does not have

A *mirror* is what makes a mount point where there is no folder: a tmpfs over the nearest folder that exists, with all that is in it
bound into it. A folder with very many entries gets an overlay instead, where the kernel lets us. Mount points inside a mount that was
asked for are made in what is mounted there, as container runtimes do: a mirror would swallow what the program writes beside them.

Mounts follow the machine's as slaves: a volume that is unmounted outside is let go here too, not kept busy.
"""

from __future__ import annotations

import _socket
import errno
import os
import stat

from pilothouse.supervise.shim import kernel
from pilothouse.supervise.shim.mounting import (
    ancestors,
    kept_flags,
    look_like,
    make_devices,
    mount_proc,
    mounts_below,
    overlay,
)
from pilothouse.supervise.shim.refusing import HELP, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pilothouse.supervise.shim.shapes import MountShape, ViewShape

MANY = 256
"""Entries from which on a folder gets an overlay rather than a mirror."""

_MACHINE = "/.machine"
"""Where the machine's own tree is while the view is built."""

OURS, MACHINES, VOLUME = "ours", "the machine's", "volume"


def build(view: ViewShape, scratch: str) -> None:
    """In the calling process, the first of its PID namespace, whose mount and UTS namespaces are still as the machine's."""
    try:
        _socket.sethostname(view["hostname"])
    except OSError as error:
        raise Refusal(
            "ViewRefused", f"can't be named {view['hostname']}: {error.strerror}{_help(error)}"
        ) from None
    mounts, hidden = view["mounts"], view["hidden"]
    sources = [_open_source(each) for each in mounts]
    tree = _Tree(read_only=view["read_only_root"])
    try:
        tree.begin(scratch)
        for path in hidden:
            tree.hide(path)
    except OSError as error:
        raise Refusal(
            "ViewRefused", f"can't make its view, at {error.filename}: {error.strerror}{_help(error)}"
        ) from None
    if not any(os.path.normpath(each["target"]) == "/dev/shm" for each in mounts):
        mounts = [_SHM, *mounts]
        sources = [-1, *sources]
    tree.prepare(mounts, sources)
    for each, source in zip(mounts, sources, strict=True):
        tree.place(each, source)
    tree.finish()


_SHM: MountShape = {
    "source": "shm",
    "target": "/dev/shm",
    "kind": "tmpfs",
    "read_only": False,
    "size": None,
    "is_file": False,
}


def _help(error: OSError) -> str:
    return f"; {HELP}" if error.errno in (errno.EPERM, errno.EACCES) else ""


def _open_source(mount: MountShape) -> int:
    """Held open, since its path leads elsewhere once the root is another."""
    if mount["kind"] == "tmpfs":
        return -1
    try:
        return os.open(mount["source"], os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise Refusal(
            "MountFailed", f"{mount['target']}: its source {mount['source']}: {error.strerror}"
        ) from None


class _Tree:
    """The view's tree while it is built."""

    def __init__(self, *, read_only: bool) -> None:
        self._read_only = read_only
        self._regions = {"/": OURS}
        """Whose a path, and all below it, is: one may be changed, another must not be touched."""
        self._closing: list[str] = []
        """Mounts of our own that become read-only in the end."""
        self._hidden: dict[str, int] = {}
        """What covers them, by its device."""

    def begin(self, scratch: str) -> None:
        """The mirror of `/`, made beside it and then put in its place."""
        kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_SLAVE)
        machine = os.open("/", os.O_PATH | os.O_CLOEXEC)
        kernel.mount("tmpfs", scratch, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755")
        os.mkdir(scratch + _MACHINE, 0o700)
        os.mkdir(scratch + "/proc", 0o555)
        self._bind_all(machine, scratch, "", skip=("proc", "dev"))
        make_devices(scratch + "/dev")
        os.close(machine)
        kernel.pivot_root(scratch, scratch + _MACHINE)
        os.chdir("/")
        mount_proc(f"{_MACHINE}/proc")
        # Sources are mounted from handles on it. By its name a link in a volume would lead there.
        kernel.mount(
            "tmpfs", _MACHINE, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_RDONLY, "mode=000"
        )
        self._regions["/proc"] = MACHINES
        if self._read_only:
            self._closing.append("/")

    def hide(self, path: str) -> None:
        """An empty folder there; what is mounted below is let go, or it could never be unmounted outside."""
        path = os.path.realpath(path)
        if not os.path.isdir(path):
            return
        for mounted in sorted(mounts_below(path), reverse=True):
            try:
                kernel.unmount(mounted)
            except OSError as error:
                # In a user namespace the machine's mounts can't be taken apart, only covered: those of others' folders
                # (EACCES: what somebody else has mounted, say, where only root may look) as little as the rest.
                if error.errno not in (errno.EINVAL, errno.EACCES):
                    raise
                break
        kernel.mount("tmpfs", path, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755")
        self._regions[path] = OURS
        self._hidden[path] = os.stat(path).st_dev

    def prepare(self, mounts: list[MountShape], sources: list[int]) -> None:
        """Make what will be mounted on, before anything is: folders that are covered later would be so with mounts in them."""
        targets: list[str] = []
        for mount, source in zip(mounts, sources, strict=True):
            target = os.path.realpath(mount["target"])
            if not any(target.startswith(other + "/") for other in targets):
                try:
                    self._make_target(target, is_file=_is_file(source))
                except OSError as error:
                    raise Refusal(
                        "MountFailed", f"{mount['target']}: can't make a place for it: {error.strerror}"
                    ) from None
            targets.append(target)

    def place(self, mount: MountShape, source: int) -> None:
        """One of the mounts that were asked for."""
        asked = mount["target"]
        try:
            target = os.path.realpath(asked)
            if target == "/":
                raise Refusal("MountFailed", f"{asked}: it would hide everything else")
            if source < 0:
                self._make_target(target, is_file=False)
                options = "mode=755" if mount["read_only"] else "mode=1777"
                if mount["size"] is not None:
                    options += f",size={mount['size']}"
                kernel.mount("tmpfs", target, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, options)
            else:
                self._make_target(target, is_file=_is_file(source))
                kernel.mount(f"/proc/self/fd/{source}", target, flags=kernel.MS_BIND | kernel.MS_REC)
                os.close(source)
            if target in self._closing:  # What is there now is another mount.
                self._closing.remove(target)
            if mount["read_only"] and source < 0:
                self._closing.append(target)  # Once all is there that goes into it.
            elif mount["read_only"]:
                kernel.make_read_only(target)
            self._regions[target] = VOLUME
        except OSError as error:
            what = "a tmpfs" if source < 0 else mount["source"]
            raise Refusal("MountFailed", f"{asked}: can't mount {what} there: {error.strerror}") from None

    def finish(self) -> None:
        for _ in ("its cover", "the machine"):
            kernel.unmount(_MACHINE)
        os.rmdir(_MACHINE)
        for path, device in self._hidden.items():
            if VOLUME in (self._regions.get(above) for above in ancestors(path)) or not os.path.isdir(path):
                continue  # A volume lies over it.
            if os.stat(path).st_dev != device:
                # An overlay over a folder above does not have what is mounted in it.
                kernel.mount("tmpfs", path, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755")
            self._closing.append(path)
        for path in self._closing:
            if self._is_covered(path):
                continue
            kernel.mount(
                "none", path, flags=kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | kept_flags(path)
            )

    def _is_covered(self, path: str) -> bool:
        """Whether a mount that was asked for lies over it, as one on /tmp does over all that is in /tmp."""
        while path != "/":
            path = os.path.dirname(path)
            if self._regions.get(path) == VOLUME:
                return True
        return False

    def _make_target(self, target: str, *, is_file: bool) -> None:
        """See to it that there is something to mount on."""
        if target == _MACHINE or target.startswith(_MACHINE + "/"):
            # A link in a volume leads there: what is made would be made in the machine.
            raise Refusal(
                "MountFailed", f"{target}: it leads out of the container's view, by a link in a volume"
            )
        if os.path.lexists(target):
            if os.path.isdir(target) == is_file:
                raise Refusal(
                    "MountFailed",
                    f"{target}: a {'file' if is_file else 'folder'} can't be mounted over a {'folder' if is_file else 'file'}",
                )
            return
        ancestor = os.path.dirname(target)
        while not os.path.isdir(ancestor):
            ancestor = os.path.dirname(ancestor)
        if self._whose(ancestor) == MACHINES:
            self._cover(ancestor)
        os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
        if is_file:
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
        else:
            os.mkdir(target, 0o755)

    def _whose(self, path: str) -> str:
        while path not in self._regions:
            path = os.path.dirname(path)
        return self._regions[path]

    def _cover(self, path: str) -> None:
        """Make a folder of the machine ours to change, in this view alone."""
        machine = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            below = mounts_below(path)
            if len(os.listdir(path)) > MANY and overlay(path):
                self._bind_mounts(machine, path, below)
            else:
                was = os.fstat(machine)
                kernel.mount("tmpfs", path, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV)
                look_like(path, was)
                self._bind_all(machine, path, path, skip=())
        finally:
            os.close(machine)
        self._regions[path] = OURS
        if self._read_only:
            self._closing.append(path)

    def _bind_mounts(self, machine: int, path: str, points: list[str]) -> None:
        """What is mounted in a folder that an overlay was laid over, which does not have it."""
        done = "/"
        for point in sorted(points, key=lambda each: each.split("/")):
            if point == path or point.startswith(done + "/"):
                continue
            source = f"/proc/self/fd/{machine}{point.removeprefix(path)}"
            kernel.mount(source, point, flags=kernel.MS_BIND | kernel.MS_REC)
            self._machines(point)
            done = point

    def _machines(self, path: str) -> None:
        """It is bound from the machine's tree, if it wasn't something of ours before."""
        if self._regions.setdefault(path, MACHINES) == MACHINES and self._read_only:
            kernel.make_read_only(path)

    def _bind_all(self, machine: int, into: str, name: str, *, skip: tuple[str, ...]) -> None:
        """Every entry of the machine's folder bound into ours, which will be known as `name`."""
        held = f"/proc/self/fd/{machine}"
        for entry in os.listdir(held):
            if entry in skip:
                continue
            source, target = f"{held}/{entry}", f"{into}/{entry}"
            try:
                mode = os.lstat(source).st_mode
                if stat.S_ISLNK(mode):
                    os.symlink(os.readlink(source), target)
                    continue
                if stat.S_ISDIR(mode):
                    os.mkdir(target)
                else:
                    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC))
                kernel.mount(source, target, flags=kernel.MS_BIND | kernel.MS_REC)
            except FileNotFoundError:  # It has gone meanwhile.
                continue
            self._regions.setdefault(f"{name}/{entry}", MACHINES)
            if self._read_only:
                kernel.make_read_only(target)


def _is_file(source: int) -> bool:
    return source >= 0 and not stat.S_ISDIR(os.fstat(source).st_mode)
