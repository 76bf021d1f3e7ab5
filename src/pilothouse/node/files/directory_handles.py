"""Opens, walks and removes files in directories that others can write to, by handles and never by paths.

    with open_directory(volume) as top:
        handle = open_beneath(top, "data/pg", os.O_RDONLY)      # in the volume, through no link; else OSError
        for entry in walk(top):                                 # what is in a directory comes before it
            os.stat(entry.name, dir_fd=entry.folder, follow_symlinks=False)
        remove_tree(top, "scratch")

A path means something else as soon as somebody exchanges one of its directories for a link; a handle stays
what it was. A process that acts with more rights than those who write a directory therefore opens it once,
and goes on from that handle a name at a time. No link is followed unless it is asked for, and then only to
what lies beneath the handle. The kernel checks it (``openat2``, Linux 5.6); on kernels that lack the call
each name is opened by itself.

Trees may be deep: a walk holds at most ``HELD`` directories open, and does not recurse.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from pilothouse.node.files.walk_limits import Meter, WalkLimit

HELD: Final = 64
"""Directories that a walk keeps open; deeper ones are found again by ``..``, and compared with what they
were.
"""
DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
ANY: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
"""A handle on whatever is there, a link itself included: it can be looked at and changed, but not read."""

LISTED: Final = stat.S_IRUSR | stat.S_IXUSR
CHANGED: Final = stat.S_IRWXU
"""Rights of an owner: to list a directory and what is in it; and to remove that."""

_OPENAT2: Final = 437
_NO_XDEV: Final = 0x01
_NO_MAGICLINKS: Final = 0x02
_NO_SYMLINKS: Final = 0x04
_BENEATH: Final = 0x08
_EMPTY_PATH: Final = 0x1000
_NOT_A_DIRECTORY: Final = (errno.ENOTDIR, errno.ELOOP)
_NOT_EMPTY: Final = (errno.ENOTEMPTY, errno.EEXIST)
_MOST_LINKS: Final = 40
_MOST_LEVELS: Final = 256
_RETRIES: Final = 64
_PASSES: Final = 16
_ENDLESS: Final = WalkLimit(depth=sys.maxsize, entries=sys.maxsize)
_SHOWN: Final = 8
"""Folders of a path that an error names."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class DirectoryEntry(NamedTuple):
    """Something in a directory, as a walk comes by it."""

    folder: int
    """A handle on its directory, which is good until the walk goes on."""
    name: str
    is_directory: bool


@contextmanager
def open_walked(path: Path, rights: int = 0) -> Iterator[int]:
    """A handle on a directory that others may have closed, in one that nobody else can change; it gets the rights
    that a ``walk`` gives. Raises OSError.
    """
    with open_directory(path.parent, follow=True) as above:
        handle = _entered(above, path.name, same_mount=False, rights=rights)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def open_directory(path: Path, *, follow: bool = False) -> Iterator[int]:
    """A handle on a directory whose parents nobody else can change.

    ``follow``: it may be a link itself. Raises OSError.
    """
    handle = os.open(path, DIRECTORY & ~os.O_NOFOLLOW if follow else DIRECTORY)
    try:
        yield handle
    finally:
        os.close(handle)


def open_beneath(
    folder: int, path: str, flags: int, mode: int = 0, *, follow: bool = False, same_mount: bool = False
) -> int:
    """Open a relative path that leads nowhere but beneath a directory; returns the handle.

    ``follow``: links that stay beneath it are followed, except the last name if ``flags`` has ``O_NOFOLLOW``.
    ``same_mount``: nothing that is mounted there is entered. Raises OSError: ELOOP for a link, EXDEV for what
    leads out or is mounted.
    """
    if _has_openat2():
        resolve = (
            _BENEATH | _NO_MAGICLINKS | (0 if follow else _NO_SYMLINKS) | (_NO_XDEV if same_mount else 0)
        )
        return _openat2(folder, path, flags, mode, resolve)
    return open_by_steps(folder, path, flags, mode, follow=follow, same_mount=same_mount)


def open_by_steps(
    folder: int, path: str, flags: int, mode: int = 0, *, follow: bool = False, same_mount: bool = False
) -> int:
    """``open_beneath`` without ``openat2``."""
    if path.startswith("/"):
        raise _error(errno.EXDEV, path)
    names, links = deque(_names(path)), 0
    above = [os.dup(folder)]
    try:
        while names:
            name = names.popleft()
            if name == "..":
                if not follow or len(above) == 1:
                    raise _error(errno.EXDEV, path)
                os.close(above.pop())
                continue
            if len(above) == _MOST_LEVELS:
                raise _error(errno.ENAMETOOLONG, path)
            target = _link(above[-1], name) if names or not flags & os.O_NOFOLLOW else None
            if target is not None:
                links += 1
                if not follow or links > _MOST_LINKS:
                    raise _error(errno.ELOOP, path)
                if target.startswith("/"):
                    raise _error(errno.EXDEV, path)
                names.extendleft(reversed(_names(target)))
                continue
            wanted = DIRECTORY if names else flags | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(name, wanted, mode, dir_fd=above[-1])
            above.append(handle)
            if same_mount and _mount_id(handle) != _mount_id(folder):
                raise _error(errno.EXDEV, path)
            if not names:
                return above.pop()
        return os.open(".", flags | os.O_CLOEXEC, dir_fd=above[-1])
    finally:
        for handle in above:
            os.close(handle)


def open_regular(path: Path) -> BinaryIO:
    """A file to be read.

    What is not a regular file is refused, and not waited for: a pipe, a device, a link. Raises OSError.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    return _regular(handle, str(path))


def open_regular_beneath(folder: int, path: str) -> BinaryIO:
    """``open_regular`` beneath a directory."""
    return _regular(open_beneath(folder, path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), path)


def make_directories(folder: int, names: Iterable[str], mode: int = 0o777) -> int:
    """A handle on a directory beneath another; those that are missing are made. Raises OSError."""
    handle = os.dup(folder)
    try:
        for name in names:
            with suppress(FileExistsError):
                os.mkdir(name, mode, dir_fd=handle)
            following = open_beneath(handle, name, DIRECTORY)
            os.close(handle)
            handle = following
    except BaseException:
        os.close(handle)
        raise
    return handle


def make_directory(path: Path, mode: int, *, own: bool = False) -> None:
    """Have a directory with exactly these rights, in one that nobody else can change; its parents are made
    too. ``own``: it must be our user's. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    set_mode(path, mode, own=own)


def set_mode(path: Path, mode: int, *, own: bool = False) -> None:
    """Change the rights of a directory, and not of what a link in its place leads to. ``own``: it must be our user's,
    since another owner could change them back. Raises OSError.
    """
    with open_directory(path) as handle:
        owner = os.fstat(handle).st_uid
        if own and owner != os.geteuid():
            detail = f"it belongs to user {owner}, not to user {os.geteuid()} who runs the node"
            raise PermissionError(errno.EPERM, detail, str(path))
        if stat.S_IMODE(os.fstat(handle).st_mode) != mode:
            os.fchmod(handle, mode)


def change_owner(handle: int, uid: int, gid: int) -> None:
    """Of what a handle is on, whatever it is; -1 leaves one as it is. Raises OSError."""
    if (
        _libc.fchownat(
            handle, b"", ctypes.c_uint(uid & 0xFFFFFFFF), ctypes.c_uint(gid & 0xFFFFFFFF), _EMPTY_PATH
        )
        < 0
    ):
        raise _error(ctypes.get_errno())


def change_mode(handle: int, mode: int) -> None:
    """Of what a handle is on, which is no link.

    Handles that can't be read have no ``fchmod``. Raises OSError.
    """
    os.chmod(f"/proc/self/fd/{handle}", mode)


def walk(
    top: int,
    *,
    same_mount: bool = False,
    rights: int = 0,
    meter: Meter | None = None,
    onerror: Callable[[OSError], None] | None = None,
) -> Generator[DirectoryEntry, None, None]:
    """Everything beneath a directory, each directory after what is in it, the directory itself not at all.

    What goes or comes meanwhile may be missing. ``rights``: directories whose owner lacks one of these get it
    (``LISTED``, ``CHANGED``). ``onerror`` is told of a directory that can't be entered, which is passed
    over then; without it the walk raises OSError. Raises WalkTooLong beyond the limit of the ``meter``.
    """
    meter = meter or Meter(_ENDLESS)
    levels = [_Level("", os.dup(top), meter)]
    try:
        yield from levels[0].files()
        while True:
            level = levels[-1]
            if level.folders:
                name = level.folders.pop()
                try:
                    handle = _entered(level.handle, name, same_mount=same_mount, rights=rights)
                except FileNotFoundError:
                    continue
                except OSError as problem:
                    if problem.errno in _NOT_A_DIRECTORY:
                        yield DirectoryEntry(level.handle, name, False)
                        continue
                    path = "/".join([*(one.name for one in levels[1:][-_SHOWN:]), name])
                    told = _error(problem.errno or errno.EIO, path)
                    if onerror is None:
                        raise told from None
                    onerror(told)
                    continue
                if len(levels) > HELD:
                    level.close()
                levels.append(_Level(name, handle, meter))
                meter.level(len(levels) - 1)
                yield from levels[-1].files()
                continue
            levels.pop()
            if not levels:
                level.close()
                return
            if levels[-1].found_above(level):
                level.close()
                yield DirectoryEntry(levels[-1].handle, level.name, True)
                continue
            level.close()
            # Somebody moves directories about. What is left of this branch is passed over.
            while levels[-1].handle < 0:
                levels.pop()
    finally:
        for level in levels:
            level.close()


def remove_tree(folder: int, name: str) -> None:
    """Remove what has a name in a directory, and all beneath it.

    Links are removed, never followed; mounts are left alone.

    Does nothing if there is nothing. Raises OSError: EBUSY if something is mounted there, ENOTEMPTY if
    somebody goes on writing.
    """
    for _ in range(_PASSES):
        try:
            handle = _entered(folder, name, same_mount=True, rights=CHANGED)
        except FileNotFoundError:
            return
        except OSError as problem:
            if problem.errno not in _NOT_A_DIRECTORY:
                raise _removal_error(problem, name) from None
            os.unlink(name, dir_fd=folder)
            return
        try:
            _empty(handle)
        except OSError as problem:
            raise _removal_error(problem, f"{name}/{problem.filename or ''}") from None
        finally:
            os.close(handle)
        if _removed(DirectoryEntry(folder, name, True)):
            return
    raise _error(errno.ENOTEMPTY, name)


class _Level:
    """A directory on the way down."""

    def __init__(self, name: str, handle: int, meter: Meter) -> None:
        self.name = name
        self._meter = meter
        self.handle = handle
        self.folders: list[str] = []
        found = os.fstat(handle)
        self._identity = found.st_dev, found.st_ino

    def files(self) -> Iterator[DirectoryEntry]:
        """Entries that are no directories; the names of directories are kept for later."""
        with os.scandir(self.handle) as entries:
            for entry in entries:
                self._meter.entry()
                if entry.is_dir(follow_symlinks=False):
                    self.folders.append(entry.name)
                else:
                    yield DirectoryEntry(self.handle, entry.name, False)

    def found_above(self, below: _Level) -> bool:
        """Have this directory open again; False if it is not the one above any more."""
        if self.handle >= 0:
            return True
        try:
            handle = os.open("..", DIRECTORY, dir_fd=below.handle)
        except OSError:
            return False
        found = os.fstat(handle)
        if (found.st_dev, found.st_ino) != self._identity:
            os.close(handle)
            return False
        self.handle = handle
        return True

    def close(self) -> None:
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1


def _entered(folder: int, name: str, *, same_mount: bool, rights: int) -> int:
    try:
        handle = open_beneath(folder, name, DIRECTORY, same_mount=same_mount)
    except PermissionError:
        if not rights:
            raise
        closed = open_beneath(folder, name, ANY | os.O_DIRECTORY, same_mount=same_mount)
        try:
            change_mode(closed, stat.S_IMODE(os.fstat(closed).st_mode) | rights)
        finally:
            os.close(closed)
        return open_beneath(folder, name, DIRECTORY, same_mount=same_mount)
    mode = os.fstat(handle).st_mode
    if mode & rights != rights:
        # Root needs no rights, but may not change them on every filesystem.
        with suppress(OSError):
            os.fchmod(handle, stat.S_IMODE(mode) | rights)
    return handle


def _empty(folder: int) -> None:
    with closing(walk(folder, same_mount=True, rights=CHANGED)) as entries:
        for entry in entries:
            _removed(entry)


def _removed(entry: DirectoryEntry) -> bool:
    """Remove one entry; False if that takes another pass."""
    try:
        if entry.is_directory:
            os.rmdir(entry.name, dir_fd=entry.folder)
        else:
            os.unlink(entry.name, dir_fd=entry.folder)
    except FileNotFoundError:
        return True
    except (NotADirectoryError, IsADirectoryError):
        return False
    except OSError as problem:
        if problem.errno in _NOT_EMPTY:
            return False
        raise
    return True


def _removal_error(problem: OSError, name: str) -> OSError:
    if problem.errno == errno.EXDEV:
        return OSError(errno.EBUSY, "something is mounted here; it is left alone", name)
    return OSError(problem.errno, problem.strerror, name)


def _regular(handle: int, name: str) -> BinaryIO:
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "is not a regular file", name)
    return os.fdopen(handle, "rb")


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _mount_id(handle: int) -> str:
    """Which mount a handle is in: what is mounted from the same filesystem has the same device, but not the
    same id.
    """
    lines = Path(f"/proc/self/fdinfo/{handle}").read_text().splitlines()
    return next(line for line in lines if line.startswith("mnt_id:"))


def _link(folder: int, name: str) -> str | None:
    """Where a link leads; None for what is no link."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as problem:
        if problem.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def _openat2(folder: int, path: str, flags: int, mode: int, resolve: int) -> int:
    how = _How(flags | os.O_CLOEXEC, mode if flags & os.O_CREAT else 0, resolve)
    for _ in range(_RETRIES):
        found: int = _libc.syscall(
            ctypes.c_long(_OPENAT2),
            ctypes.c_int(folder),
            ctypes.c_char_p(os.fsencode(path)),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if found >= 0:
            return found
        number = ctypes.get_errno()
        # EAGAIN: something was renamed meanwhile, so that the kernel can't say where ".." of a link leads.
        if number not in (errno.EAGAIN, errno.EINTR):
            raise _error(number, path)
    raise _error(errno.EAGAIN, path)


@cache
def _has_openat2() -> bool:
    with open_directory(Path("/")) as top:
        try:
            os.close(_openat2(top, ".", DIRECTORY, 0, _BENEATH))
        except OSError:
            return False  # ENOSYS, or EPERM by a filter of system calls that doesn't know it.
    return True


def _error(number: int, name: str | None = None) -> OSError:
    return OSError(number, os.strerror(number), name)
