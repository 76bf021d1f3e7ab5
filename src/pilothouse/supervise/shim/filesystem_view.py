"""A container's view: a root of its own, in which little of the machine is shown, and the container's mounts
in it.

    /            a tmpfs, filled as `rootfs` says; nothing else of the machine can be reached
    /proc        of the container's own PID namespace, /sys read-only, both masked as in the OCI runtime spec
    /dev         its own, with the devices that programs expect; /dev/shm too
    /data        a requested mount; the machine has no such directory, and gets none

A *mirror* makes a mount point inside a directory of the machine: a tmpfs over it, with all that is in it
bound into it. A directory with very many entries gets an overlay instead, where the kernel allows it. Mount
points inside a requested mount are made in what is mounted there, as container runtimes do; an image, which
no container changes, gets a mirror.

**The machine's tree is unmounted before anything is done by a path that the container can change.** All that
will be mounted is first cloned, as detached trees (`open_tree`); then the root is pivoted; then they are
attached. So a link that another container of the pod puts into a shared volume leads to something of this
container, or nowhere.

Under root everything is built with the machine's ids, and only then does the program enter its user
namespace, without rights over its mounts, its hostname and its PID namespace.
"""

from __future__ import annotations

import _socket
import errno
import os
import stat

from pilothouse.supervise.shim import kernel
from pilothouse.supervise.shim.launch_order import Fields
from pilothouse.supervise.shim.mounts import (
    ancestors,
    kept_flags,
    look_like,
    make_devices,
    mask,
    mount_proc,
    mount_sys,
    mounts_below,
    overlay,
)
from pilothouse.supervise.shim.rootfs import DISK, OWN, READ_ONLY, links_and_ends, make_root
from pilothouse.supervise.shim.start_errors import HELP, ProgramStartError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pilothouse.supervise.launch_spec import FilesystemView, Mount

MANY = 256
"""Entries from which on a directory gets an overlay rather than a mirror."""

_MACHINE = "/.machine"
"""The machine's tree while the root is pivoted."""

OURS, MACHINES, IMAGE, VOLUME = "ours", "the machine's", "image", "volume"
_NOTHING = -1
_TMPFS = kernel.MS_NOSUID | kernel.MS_NODEV


def build(
    view: FilesystemView,
    folder: str,
    cgroups: tuple[str, ...],
    user_namespace: int = -1,
    home: tuple[str, int, int] | None = None,
) -> None:
    """Build the view in the calling process, the first of its PID namespace, with its own mount and UTS
    namespaces.

    `folder` is the container's own. Mounts with `mapped` are id-mapped by `user_namespace`. `home` is created
    if missing.
    """
    try:
        _socket.sethostname(view.hostname)
    except OSError as error:
        why = f"can't be named {view.hostname}: {error.strerror}{_help(error)}"
        raise ProgramStartError("ViewRefused", why) from None
    mounts = view.mounts
    if not any(os.path.normpath(each.target) == "/dev/shm" for each in mounts):
        mounts = (_SHM, *mounts)
    tree = _Tree(read_only=view.read_only_root)
    try:
        kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_SLAVE)
        hiding = _HiddenFolders(view.hidden)
        sources = [_copy_source(each, user_namespace, hiding) for each in mounts]
        tree.begin(folder, view.hostname, view.machine, cgroups)
        if view.masked:
            mask()
        if home is not None:
            tree.make_home(home)
    except OSError as error:
        why = f"can't make its view, at {error.filename}: {error.strerror}{_help(error)}"
        raise ProgramStartError("ViewRefused", why) from None
    tree.prepare(mounts, sources)
    for each, source in zip(mounts, sources, strict=True):
        tree.place(each, source)
    hiding.cover(tree.shown)
    tree.finish()


_SHM: Mount = Fields(
    source="shm",
    target="/dev/shm",
    part="",
    foreign=False,
    kind="tmpfs",
    read_only=False,
    size=None,
    is_file=False,
    mapped=False,
)


def _help(error: OSError) -> str:
    if error.errno == errno.ENOSYS:
        return "; Linux 5.12 or newer is needed"
    return f"; {HELP}" if error.errno in (errno.EPERM, errno.EACCES) else ""


def _copy_source(mount: Mount, user_namespace: int, hiding: _HiddenFolders) -> int:
    """A clone of what will be mounted, as a detached tree."""
    if mount.kind == "tmpfs":
        return _NOTHING
    source = mount.source
    mapped = mount.mapped and user_namespace >= 0
    held = -1
    try:
        # Held, so that what is checked is what is mounted, even if the path changes.
        part = mount.part
        held = _open_part(source, part) if part else os.open(source, os.O_PATH | os.O_CLOEXEC)
        source = f"/proc/self/fd/{held}"
        hiding.shown(os.readlink(source), mount)
        kind = os.stat(source).st_mode
        flags = kernel.MOUNT_ATTR_NOSUID | (kernel.MOUNT_ATTR_RDONLY if mount.read_only else 0)
        if not (stat.S_ISCHR(kind) or stat.S_ISBLK(kind)):
            flags |= kernel.MOUNT_ATTR_NODEV
        return kernel.clone_mount(source, flags, user_namespace=user_namespace if mapped else -1)
    except OSError as error:
        if mapped and error.errno in (errno.EINVAL, errno.EPERM):
            raise ProgramStartError(
                "IdMapRefused",
                f"{mount.target}: the filesystem of {mount.source}, or one that is mounted below it, "
                "can't be shown with other owners (an id-mapped mount), which a container with ids of its "
                "own needs",
            ) from None
        where = f"{mount.source}{'/' if mount.part else ''}{mount.part}"
        why = f"{mount.target}: its source {where}: {error.strerror}"
        raise ProgramStartError("MountFailed", why) from None
    finally:
        if held >= 0:
            os.close(held)


def _open_part(source: str, part: str) -> int:
    """Open a path in a directory name by name, none of them a link. Raises OSError."""
    held = os.open(source, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in part.split("/"):
        try:
            following = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=held)
        finally:
            os.close(held)
        held = following
        if name in ("", ".", "..") or stat.S_ISLNK(os.fstat(held).st_mode):
            os.close(held)
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
    return held


def _make_folders(path: str) -> None:
    """As `os.makedirs`, without its recursion: a path may have a thousand names."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        os.mkdir(folder, 0o755)


class _HiddenFolders:
    """Directories that must not be seen, wherever something above them is shown."""

    def __init__(self, hidden: tuple[str, ...]) -> None:
        self._hidden = [os.path.realpath(path) for path in hidden]
        self._shown: list[tuple[str, str]] = []

    def shown(self, source: str, mount: Mount) -> None:
        """Note what a target will show. Raises ProgramStartError if a user named a hidden path."""
        if mount.foreign and any(source == path or source.startswith(path + "/") for path in self._hidden):
            why = f"{mount.target}: {source} is a folder of the node itself, which no pod sees"
            raise ProgramStartError("MountFailed", why)
        self._shown.append((source, mount.target))

    def cover(self, machines: list[str]) -> None:
        for source, target in [*((path, path) for path in machines), *self._shown]:
            for path in self._hidden:
                if path == source or path.startswith(source.rstrip("/") + "/"):
                    inside = os.path.normpath(target + path.removeprefix(source.rstrip("/")))
                    if os.path.isdir(inside):
                        kernel.mount("tmpfs", inside, "tmpfs", _TMPFS | kernel.MS_RDONLY, "mode=755")


class _Tree:
    """The view's tree while it is built."""

    def __init__(self, *, read_only: bool) -> None:
        self._read_only = read_only
        self._regions = {"/": OURS}
        """The owner of a path and all below it: what may be changed, and what not."""
        self._closing: list[str] = []
        """Mounts of our own that become read-only in the end."""

    @property
    def shown(self) -> list[str]:
        """The paths that show something of the machine."""
        return [path for path, whose in self._regions.items() if whose == MACHINES]

    def begin(self, folder: str, hostname: str, machine: tuple[str, ...], cgroups: tuple[str, ...]) -> None:
        """Make the root beside the machine's, then pivot to it."""
        root, own = f"{folder}/root", f"{folder}/own"
        kernel.mount("tmpfs", root, "tmpfs", _TMPFS, "mode=755")
        self._regions.update(dict.fromkeys(make_root(root, own, hostname), MACHINES))
        for path in machine:
            self._show(root, path)
        os.mkdir(f"{root}/proc", 0o555)
        mount_proc(f"{root}/proc")
        os.mkdir(f"{root}/sys", 0o555)
        mount_sys(f"{root}/sys", cgroups)
        make_devices(f"{root}/dev")
        os.mkdir(root + _MACHINE, 0o700)
        kernel.pivot_root(root, root + _MACHINE)
        os.chdir("/")
        kernel.unmount(_MACHINE)
        os.rmdir(_MACHINE)
        self._regions.update({"/proc": MACHINES, "/sys": MACHINES})
        if self._read_only:
            self._closing += ["/", *(f"/{name}" for name, _ in DISK if "/" not in name)]

    def _show(self, root: str, path: str) -> None:
        """Show a path of the machine read-only, and the links that lead there."""
        for way in links_and_ends(path):
            if self._whose(way) == MACHINES:
                continue
            os.makedirs(os.path.dirname(root + way), 0o755, exist_ok=True)
            if os.path.islink(way):
                if not os.path.lexists(root + way):
                    os.symlink(os.readlink(way), root + way)
                continue
            if os.path.isdir(way):
                os.makedirs(root + way, 0o755, exist_ok=True)
            else:
                os.close(os.open(root + way, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
            kernel.attach_mount(kernel.clone_mount(way, READ_ONLY), root + way)
            self._regions[way] = MACHINES

    def make_home(self, home: tuple[str, int, int]) -> None:
        """Before there is any volume: what is created and given away is the container's own."""
        path, uid, gid = home
        if self._whose(path) == OURS and not os.path.lexists(path):
            _make_folders(path)
            os.chown(path, uid, gid, follow_symlinks=False)

    def prepare(self, mounts: tuple[Mount, ...], sources: list[int]) -> None:
        """Make mount points before anything is mounted: a mirror made later would cover mounts."""
        targets: list[str] = []
        for mount, source in zip(mounts, sources, strict=True):
            target = os.path.realpath(mount.target)
            if not any(target.startswith(other + "/") for other in targets):
                try:
                    self._make_target(target, is_file=_is_file(source))
                except OSError as error:
                    why = f"{mount.target}: can't make a place for it: {error.strerror}"
                    raise ProgramStartError("MountFailed", why) from None
            targets.append(target)

    def place(self, mount: Mount, source: int) -> None:
        """Attach a requested mount."""
        asked = mount.target
        try:
            target = os.path.realpath(asked)
            if target == "/":
                raise ProgramStartError("MountFailed", f"{asked}: it would hide everything else")
            self._make_target(target, is_file=_is_file(source))
            if source == _NOTHING:
                options = "mode=755" if mount.read_only else "mode=1777"
                if mount.size is not None:
                    options += f",size={mount.size}"
                kernel.mount("tmpfs", target, "tmpfs", _TMPFS, options)
            else:
                kernel.attach_mount(source, target)
            if target in self._closing:  # It is covered by this mount.
                self._closing.remove(target)
            if mount.read_only and source == _NOTHING:
                self._closing.append(target)  # Once everything is mounted in it.
            self._regions[target] = IMAGE if _is_image(mount) else VOLUME
        except OSError as error:
            what = "a tmpfs" if source == _NOTHING else mount.source
            why = f"{asked}: can't mount {what} there: {error.strerror}"
            raise ProgramStartError("MountFailed", why) from None

    def finish(self) -> None:
        for path in self._closing:
            if not self._is_covered(path):
                flags = kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY
                kernel.mount("none", path, flags=flags | kept_flags(path))

    def _is_covered(self, path: str) -> bool:
        """Whether a requested mount covers it, as one on /tmp covers all in /tmp."""
        return any(self._regions.get(above) in (IMAGE, VOLUME) for above in ancestors(path))

    def _make_target(self, target: str, *, is_file: bool) -> None:
        """Make a mount point."""
        if os.path.lexists(target):
            if os.path.isdir(target) == is_file:
                kind, other = ("file", "folder") if is_file else ("folder", "file")
                why = f"{target}: a {kind} can't be mounted over a {other}"
                raise ProgramStartError("MountFailed", why)
            return
        ancestor = os.path.dirname(target)
        while not os.path.isdir(ancestor):
            ancestor = os.path.dirname(ancestor)
        if self._whose(ancestor) in (MACHINES, IMAGE):
            self._cover(ancestor)
        _make_folders(os.path.dirname(target))
        if is_file:
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
        else:
            os.mkdir(target, 0o755)

    def _whose(self, path: str) -> str:
        while path not in self._regions:
            path = os.path.dirname(path)
        return self._regions[path]

    def _cover(self, path: str) -> None:
        """Make a directory of the machine changeable, in this view alone."""
        machine = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            below = mounts_below(path)
            if len(os.listdir(path)) > MANY and overlay(path):
                self._bind_mounts(machine, path, below)
            else:
                was = os.fstat(machine)
                kernel.mount("tmpfs", path, "tmpfs", _TMPFS)
                look_like(path, was)
                self._bind_all(machine, path)
        finally:
            os.close(machine)
        self._regions[path] = OURS
        if self._read_only:
            self._closing.append(path)

    def _bind_mounts(self, machine: int, path: str, points: list[str]) -> None:
        """Bind what is mounted in a directory below an overlay, which does not include it."""
        done = "/"
        for point in sorted(points, key=lambda each: each.split("/")):
            if point == path or point.startswith(done + "/"):
                continue
            source = f"/proc/self/fd/{machine}{point.removeprefix(path)}"
            kernel.attach_mount(kernel.clone_mount(source, OWN), point)
            self._regions.setdefault(point, MACHINES)
            done = point

    def _bind_all(self, machine: int, into: str) -> None:
        """Bind every entry of the machine's directory, read-only, into ours."""
        held = f"/proc/self/fd/{machine}"
        for entry in os.listdir(held):
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
                kernel.attach_mount(kernel.clone_mount(source, READ_ONLY), target)
            except FileNotFoundError:  # Removed meanwhile.
                continue
            self._regions.setdefault(target, MACHINES)


def _is_image(mount: Mount) -> bool:
    """Files of the node itself, which are never written: a pod's own are id-mapped, or named by a user."""
    return mount.kind == "bind" and mount.read_only and not mount.mapped and not mount.foreign


def _is_file(source: int) -> bool:
    return source != _NOTHING and not stat.S_ISDIR(os.fstat(source).st_mode)
