"""Copies a directory tree that is being written to, in passes: each copies what has changed since the last.

    copy = TreeCopy(source, target)
    copy.run(stop)                      # while a pod writes; again and again
    copy.run(stop, final=True)          # once nothing writes
    copy.difference(stop)               # the first entry that differs; empty if none does

A file counts as unchanged if inode, size, times of change and of modification are as before its last copy.
Memory maps change a file without changing its times until it is written back, so it is written back between
reading the times and reading the content. A change within the last seconds may have the same time as one that
follows, so such a file is copied again by the next pass.

The pod can replace what it writes by links and devices: the source is read by handles, links are never
followed, and nothing but regular files is opened. What a pass remembers of a file does not depend on the
length of its path, and is bounded, as are the names that it lists. The target is the node's alone. Owners,
modes, extended attributes, times, holes and hard links are kept. Methods block, and raise OSError;
``CopyStopped`` once the event is set.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import heapq
import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from threading import Event
from typing import Final, NamedTuple

from pilothouse.node.files.directory_handles import (
    ANY,
    DIRECTORY,
    change_owner,
    closing_handle,
    open_beneath,
    open_directory,
    remove_tree,
)

_CHUNK: Final = 1 << 20
_RECENT: Final = 2_000_000_000
"""Nanoseconds in which two changes may have the same time."""
_DEEPEST: Final = 200
_REMEMBERED: Final = 1_000_000
"""Files that a pass remembers; others are read again by the next one."""
_LONGEST_LINK: Final = 4095
"""Bytes of the path of a file with several names, as the kernel has it."""
_LINKS: Final = 1 << 28
"""Bytes of the paths of all files with several names."""
_NAMES: Final = 1 << 28
"""Bytes that the names in a folder and in those above it take."""
_PER_NAME: Final = 104
"""Bytes of an entry of a dict."""
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_VANISHED: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO})
"""Errors of an entry that was removed or replaced since it was listed."""
_COPIED: Final = ("user.", "trusted.", "security.", "system.posix_acl_")
_libc = ctypes.CDLL(None, use_errno=True)


class CopyStopped(Exception):
    """The pass was stopped; what it has copied stays."""


class CopyFailed(OSError):
    """An entry can't be copied; it has its path in the tree."""


class CopyPass(NamedTuple):
    """What a pass did."""

    copied: int
    """Bytes of the files that it copied."""
    seconds: float


class _Stamp(NamedTuple):
    inode: int
    size: int
    modified: int
    changed: int


def _stamp(found: os.stat_result) -> _Stamp:
    return _Stamp(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


class TreeCopy:
    def __init__(self, source: Path, target: Path) -> None:
        self._source = source
        self._target = target
        self._copied: dict[bytes, _Stamp] = {}
        """The files that were copied, as they were then, by the digest of their path."""
        self._changed: set[bytes] = set()
        """The files that the last pass copied: all, if there are ``_REMEMBERED``."""
        self._links: dict[int, str] = {}
        """The first name of each file that has several, by inode."""
        self._link_bytes = 0
        self._name_bytes = 0
        self._inodes: dict[int, int] = {}
        """The inode of the original, by that of the copy, of copies with several names."""
        self._stop = Event()
        self._final = False
        self._bytes = 0
        self._read = 0
        self._device = 0
        self._top = -1

    @property
    def bytes(self) -> int:
        """Bytes that the pass under way has gone through, copied or unchanged."""
        return self._bytes

    def run(self, stop: Event, *, final: bool = False) -> CopyPass:
        """One pass. ``final``: nothing writes to the source any more."""
        began = time.monotonic()
        self._stop, self._final, self._bytes, self._read = stop, final, 0, 0
        self._changed, self._links, self._inodes, self._link_bytes = set(), {}, {}, 0
        self._name_bytes = 0
        with open_directory(self._source) as source, open_directory(self._target) as target:
            self._device, self._top = os.fstat(source).st_dev, target
            self._folder(source, target, "", 0)
            if _libc.syncfs(target) != 0:
                raise _error(str(self._target))
        return CopyPass(self._read, time.monotonic() - began)

    def _folder(self, source: int, target: int, path: str, depth: int) -> None:
        if depth > _DEEPEST:
            raise CopyFailed(
                errno.ENAMETOOLONG, f"folders more than {_DEEPEST} levels deep can't be copied", path
            )
        found = os.fstat(source)
        if found.st_dev != self._device:
            raise CopyFailed(errno.EXDEV, "another filesystem is mounted there", path)
        names = self._names(source, path)
        held = self._name_bytes
        for name in [each for each in _listed(target) if each not in names]:
            remove_tree(target, name)
        for name in names:
            if self._stop.is_set():
                raise CopyStopped
            # Those of the folder before are let go.
            self._name_bytes = held
            try:
                self._entry(source, target, name, f"{path}/{name}" if path else name, depth)
            except CopyFailed:
                raise
            except OSError as problem:
                if self._final or problem.errno not in _VANISHED:
                    raise CopyFailed(problem.errno, problem.strerror, f"{path}/{name}") from None
        _copy_attributes(source, target, found)

    def _names(self, folder: int, path: str) -> dict[str, None]:
        """The names in a folder, each once: one that is removed and made again meanwhile may be listed
        twice. Raises CopyFailed if they need more memory of the agent than a pod may take."""
        names: dict[str, None] = {}
        for name in _listed(folder):
            self._name_bytes += sys.getsizeof(name) + _PER_NAME
            if self._name_bytes > _NAMES:
                raise CopyFailed(errno.E2BIG, "there are too many entries in a folder", path)
            names[name] = None
        return names

    def _entry(self, source: int, target: int, name: str, path: str, depth: int) -> None:
        found = os.stat(name, dir_fd=source, follow_symlinks=False)
        present = _present(target, name)
        if present is not None and stat.S_IFMT(present.st_mode) != stat.S_IFMT(found.st_mode):
            remove_tree(target, name)
            present = None
        if stat.S_ISDIR(found.st_mode):
            if present is None:
                os.mkdir(name, 0o700, dir_fd=target)
            with (
                closing_handle(os.open(name, DIRECTORY, dir_fd=source)) as inner,
                closing_handle(os.open(name, DIRECTORY, dir_fd=target)) as copy,
            ):
                self._folder(inner, copy, path, depth + 1)
        elif stat.S_ISREG(found.st_mode):
            self._regular(source, target, name, path, found, present)
        elif stat.S_ISLNK(found.st_mode):
            _copy_link(source, target, name, found, present)
        else:
            _copy_node(target, name, found, present)

    def _regular(
        self,
        source: int,
        target: int,
        name: str,
        path: str,
        found: os.stat_result,
        present: os.stat_result | None,
    ) -> None:
        if found.st_nlink > 1:
            first = self._first_name(found.st_ino, path)
            if first != path:
                _copy_hard_link(self._top, first, target, name, present)
                return
        if (
            present is not None
            and present.st_nlink > 1
            and self._inodes.setdefault(present.st_ino, found.st_ino) != found.st_ino
        ):
            # It was a hard link, whose other names must keep their content.
            os.unlink(name, dir_fd=target)
            present = None
        key = _key(path)
        if present is not None and self._copied.get(key) == _stamp(found):
            self._bytes += found.st_size
            return
        self._copied.pop(key, None)
        if len(self._changed) < _REMEMBERED:
            self._changed.add(key)
        with closing_handle(_open_regular(source, name)) as read:
            before = os.fstat(read)
            began = time.time_ns()
            if not self._final:
                os.fdatasync(read)
            self._read += before.st_size
            with closing_handle(os.open(name, _WRITE, 0o600, dir_fd=target)) as write:
                self._content(read, write, before.st_size, fresh=present is None)
                _copy_attributes(read, write, before)
            is_settled = began - max(before.st_ctime_ns, before.st_mtime_ns) > _RECENT
            is_same = self._final or (is_settled and _stamp(os.fstat(read)) == _stamp(before))
            if is_same and len(self._copied) < _REMEMBERED:
                self._copied[key] = _stamp(before)

    def _first_name(self, inode: int, path: str) -> str:
        """The first name of a file that has several; this one, if it is the first."""
        if (first := self._links.get(inode)) is not None:
            return first
        size = len(os.fsencode(path))
        if size > _LONGEST_LINK:
            why = f"files with several names can't be copied at paths of more than {_LONGEST_LINK} bytes"
            raise CopyFailed(errno.ENAMETOOLONG, why, f"{path[:_LONGEST_LINK]}…")
        self._link_bytes += size
        if self._link_bytes > _LINKS:
            raise CopyFailed(errno.EMLINK, "there are too many files with several names", path)
        self._links[inode] = path
        return path

    def _content(self, read: int, write: int, size: int, *, fresh: bool) -> None:
        """Copy what differs, and no holes."""
        if not fresh and os.fstat(write).st_size > size:
            os.ftruncate(write, size)
        end = 0
        # One at a time: a file may have more of them than there is memory for.
        for start, stop in heapq.merge(_ranges(read, size), () if fresh else _ranges(write, size)):
            start = max(start, end)
            while start < stop:
                if self._stop.is_set():
                    raise CopyStopped
                content = os.pread(read, min(_CHUNK, stop - start), start)
                if not content:
                    break
                if fresh or os.pread(write, len(content), start) != content:
                    _write_all(write, content, start)
                start += len(content)
                self._bytes += len(content)
            end = max(end, start)
        os.ftruncate(write, size)

    def difference(self, stop: Event) -> str:
        """The first entry that differs: in type, owner, mode, size, time or target of a link, or, of the
        files that the last pass copied, in content. Empty if none does."""
        self._stop = stop
        with open_directory(self._source) as source, open_directory(self._target) as target:
            return self._compare(source, target, "")

    def _compare(self, source: int, target: int, path: str) -> str:
        if self._stop.is_set():
            raise CopyStopped
        names = os.listdir(source)
        if others := set(names).symmetric_difference(os.listdir(target)):
            return f"{path}/{min(others)}"
        for name in names:
            inner = f"{path}/{name}" if path else name
            one = os.stat(name, dir_fd=source, follow_symlinks=False)
            other = os.stat(name, dir_fd=target, follow_symlinks=False)
            if _traits(one) != _traits(other):
                return inner
            if stat.S_ISLNK(one.st_mode):
                if os.readlink(name, dir_fd=source) != os.readlink(name, dir_fd=target):
                    return inner
            elif stat.S_ISDIR(one.st_mode):
                with (
                    closing_handle(os.open(name, DIRECTORY, dir_fd=source)) as first,
                    closing_handle(os.open(name, DIRECTORY, dir_fd=target)) as second,
                ):
                    if found := self._compare(first, second, inner):
                        return found
            elif self._is_changed(inner, one) and not self._same_content(source, target, name):
                return inner
        return ""

    def _is_changed(self, path: str, found: os.stat_result) -> bool:
        """Whether it is a file that the last pass copied."""
        is_in = len(self._changed) >= _REMEMBERED or _key(path) in self._changed
        return stat.S_ISREG(found.st_mode) and is_in

    def _same_content(self, source: int, target: int, name: str) -> bool:
        with (
            closing_handle(_open_regular(source, name)) as one,
            closing_handle(_open_regular(target, name)) as other,
        ):
            # As it is on the disk, not as it is remembered.
            os.posix_fadvise(other, 0, 0, os.POSIX_FADV_DONTNEED)
            size = os.fstat(one).st_size
            for start, stop in chain(_ranges(one, size), _ranges(other, size)):
                for at in range(start, stop, _CHUNK):
                    if self._stop.is_set():
                        raise CopyStopped
                    length = min(_CHUNK, stop - at)
                    if os.pread(one, length, at) != os.pread(other, length, at):
                        return False
        return True


def _listed(folder: int) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry.name


def _key(path: str) -> bytes:
    return hashlib.blake2b(os.fsencode(path), digest_size=16).digest()


def _open_regular(folder: int, name: str) -> int:
    """Open a regular file for reading. It is looked at before it is opened: to open a device may do
    something, and a pod can put one in place of a file at any moment."""
    with closing_handle(os.open(name, ANY, dir_fd=folder)) as handle:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.ENOENT, "it was replaced", name)
        return os.open(f"/proc/self/fd/{handle}", _READ)


def _traits(found: os.stat_result) -> tuple[int, ...]:
    """What a copy shares with its original."""
    size = found.st_size if stat.S_ISREG(found.st_mode) else 0
    return found.st_mode, found.st_uid, found.st_gid, found.st_mtime_ns, size


def _ranges(handle: int, size: int) -> Iterator[tuple[int, int]]:
    """The parts of a file that are no holes."""
    start = 0
    while start < size:
        try:
            start = os.lseek(handle, start, os.SEEK_DATA)
            stop = os.lseek(handle, start, os.SEEK_HOLE)
        except OSError as problem:
            if problem.errno == errno.ENXIO:
                return
            raise
        yield start, min(stop, size)
        start = stop


def _write_all(handle: int, content: bytes, at: int) -> None:
    while content:
        written = os.pwrite(handle, content, at)
        content, at = content[written:], at + written


def _present(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _copy_attributes(source: int, target: int, found: os.stat_result) -> None:
    present = os.fstat(target)
    if (present.st_uid, present.st_gid) != (found.st_uid, found.st_gid):
        os.fchown(target, found.st_uid, found.st_gid)
    names = set(_attributes(source))
    for name in set(_attributes(target)) - names:
        os.removexattr(target, name)
    for name in names:
        with suppress(FileNotFoundError):
            value = os.getxattr(source, name)
            if _attribute(target, name) != value:
                os.setxattr(target, name, value)
    # After the owner, whose change clears the set-user-id bit.
    os.fchmod(target, stat.S_IMODE(found.st_mode))
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))


def _attributes(handle: int) -> list[str]:
    try:
        # Others are properties of one filesystem.
        return [name for name in os.listxattr(handle) if name.startswith(_COPIED)]
    except OSError as problem:
        if problem.errno == errno.ENOTSUP:
            return []
        raise


def _attribute(handle: int, name: str) -> bytes | None:
    try:
        return os.getxattr(handle, name)
    except OSError as problem:
        if problem.errno == errno.ENODATA:
            return None
        raise


def _copy_hard_link(top: int, first: str, target: int, name: str, present: os.stat_result | None) -> None:
    folder, _, last = first.rpartition("/")
    # Through no link, which would lead out of the tree.
    with closing_handle(open_beneath(top, folder or ".", DIRECTORY)) as inner:
        wanted = os.stat(last, dir_fd=inner, follow_symlinks=False)
        if present is not None:
            if present.st_ino == wanted.st_ino:
                return
            os.unlink(name, dir_fd=target)
        os.link(last, name, src_dir_fd=inner, dst_dir_fd=target, follow_symlinks=False)


def _copy_link(
    source: int, target: int, name: str, found: os.stat_result, present: os.stat_result | None
) -> None:
    leads = os.readlink(name, dir_fd=source)
    if present is not None and os.readlink(name, dir_fd=target) != leads:
        os.unlink(name, dir_fd=target)
        present = None
    if present is None:
        os.symlink(leads, name, dir_fd=target)
    os.chown(name, found.st_uid, found.st_gid, dir_fd=target, follow_symlinks=False)
    times = found.st_atime_ns, found.st_mtime_ns
    os.utime(name, ns=times, dir_fd=target, follow_symlinks=False)


def _copy_node(target: int, name: str, found: os.stat_result, present: os.stat_result | None) -> None:
    """A pipe, a socket or a device."""
    if present is None or present.st_rdev != found.st_rdev:
        if present is not None:
            os.unlink(name, dir_fd=target)
        os.mknod(name, stat.S_IFMT(found.st_mode) | 0o600, found.st_rdev, dir_fd=target)
    with closing_handle(os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=target)) as handle:
        change_owner(handle, found.st_uid, found.st_gid)
        os.chmod(f"/proc/self/fd/{handle}", stat.S_IMODE(found.st_mode))
    times = found.st_atime_ns, found.st_mtime_ns
    os.utime(name, ns=times, dir_fd=target, follow_symlinks=False)


def _error(name: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), name)
