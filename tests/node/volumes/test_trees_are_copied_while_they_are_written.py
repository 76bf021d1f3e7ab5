"""Copying a directory tree in passes, while it is written to."""

from __future__ import annotations

import errno
import mmap
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from pilothouse.node.files.directory_handles import closing_handle
from pilothouse.node.volumes import tree_copy
from pilothouse.node.volumes.tree_copy import CopyFailed, CopyStopped, TreeCopy, _copy_hard_link

MI = 1 << 20


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "source").mkdir()
    return tmp_path / "source"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "target").mkdir()
    return tmp_path / "target"


def old(path: Path) -> None:
    """Let a file be older than the times in which two changes look the same."""
    deadline = time.monotonic() + 10
    while time.time_ns() - path.stat().st_ctime_ns <= 2_100_000_000:
        assert time.monotonic() < deadline
        Event().wait(0.05)


def test_everything_in_it_is_copied(root: None, source: Path, target: Path) -> None:
    (source / "folder" / "inner").mkdir(parents=True, mode=0o750)
    (source / "folder" / "file").write_bytes(content := os.urandom(3 * MI + 17))
    os.chown(source / "folder" / "file", 999, 998)
    os.chmod(source / "folder" / "file", 0o4640)
    os.setxattr(source / "folder" / "file", "trusted.note", b"kept")
    os.utime(source / "folder" / "file", ns=(1_600_000_000_000_000_001, 1_600_000_000_000_000_002))
    os.link(source / "folder" / "file", source / "again")
    (source / "link").symlink_to("/etc/shadow")
    os.mkfifo(source / "pipe")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(source / "socket"))
    os.mknod(source / "device", 0o20600, os.makedev(1, 3))
    with (source / "sparse").open("wb") as out:
        out.truncate(64 * MI)
        os.pwrite(out.fileno(), b"end", 60 * MI)
    copy = TreeCopy(source, target)
    copy.run(Event(), final=True)
    assert copy.difference(Event()) == ""
    found = (target / "folder" / "file").stat()
    assert (target / "folder" / "file").read_bytes() == content
    assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (999, 998, 0o4640)
    assert found.st_mtime_ns == 1_600_000_000_000_000_002
    assert os.getxattr(target / "folder" / "file", "trusted.note") == b"kept"
    assert (target / "again").stat().st_ino == found.st_ino
    assert os.readlink(target / "link") == "/etc/shadow"
    assert (target / "device").stat().st_rdev == os.makedev(1, 3)
    assert (target / "sparse").stat().st_blocks * 512 < 2 * MI
    assert (target / "sparse").read_bytes() == (source / "sparse").read_bytes()


def test_a_pass_copies_what_has_changed_alone(source: Path, target: Path) -> None:
    for number in range(8):
        (source / f"row-{number}").write_bytes(os.urandom(MI))
    old(source / "row-7")
    copy = TreeCopy(source, target)
    assert copy.run(Event()).copied == 8 * MI
    (source / "row-3").write_bytes(changed := os.urandom(MI))
    (source / "row-5").unlink()
    (source / "row-6").rename(source / "row-9")
    assert copy.run(Event()).copied <= 3 * MI
    assert (target / "row-3").read_bytes() == changed
    assert sorted(os.listdir(target)) == sorted(os.listdir(source))


def test_what_replaces_something_else_is_copied(source: Path, target: Path) -> None:
    (source / "one").mkdir()
    (source / "one" / "row").write_text("1")
    (source / "two").write_text("2")
    (source / "three").symlink_to("two")
    copy = TreeCopy(source, target)
    copy.run(Event())
    (source / "one" / "row").unlink()
    (source / "one").rmdir()
    (source / "one").symlink_to("/etc")
    (source / "two").unlink()
    (source / "two").mkdir()
    (source / "three").unlink()
    (source / "three").write_text("3")
    copy.run(Event(), final=True)
    assert copy.difference(Event()) == ""
    assert (target / "one").is_symlink()
    assert (target / "two").is_dir()
    assert (target / "three").read_text() == "3"


def test_hard_links_that_are_parted_get_contents_of_their_own(source: Path, target: Path) -> None:
    (source / "b").write_text("first")
    os.link(source / "b", source / "a")
    os.link(source / "b", source / "c")
    copy = TreeCopy(source, target)
    copy.run(Event())
    (source / "a").unlink()
    (source / "d").write_text("second")
    os.link(source / "d", source / "a")
    copy.run(Event(), final=True)
    assert copy.difference(Event()) == ""
    assert [(target / name).read_text() for name in "abcd"] == ["second", "first", "first", "second"]
    assert (target / "a").stat().st_ino == (target / "d").stat().st_ino != (target / "b").stat().st_ino


def test_a_file_that_shrinks_or_gets_holes_is_the_same_afterwards(source: Path, target: Path) -> None:
    (source / "short").write_bytes(os.urandom(2 * MI))
    (source / "holes").write_bytes(os.urandom(2 * MI))
    copy = TreeCopy(source, target)
    copy.run(Event())
    os.truncate(source / "short", 100)
    os.truncate(source / "holes", 0)
    os.truncate(source / "holes", 2 * MI)
    copy.run(Event(), final=True)
    assert (target / "short").read_bytes() == (source / "short").read_bytes()
    assert (target / "holes").read_bytes() == bytes(2 * MI)


def test_writes_by_a_memory_map_are_seen(source: Path, target: Path) -> None:
    (source / "mapped").write_bytes(bytes(MI))
    with (source / "mapped").open("r+b") as file, mmap.mmap(file.fileno(), MI) as pages:
        pages[0] = 1
        old(source / "mapped")
        # Written to already, so that the kernel notices no further write until it is written back.
        pages[1] = 2
        copy = TreeCopy(source, target)
        copy.run(Event())
        pages[2] = 3
        old(source / "mapped")
        copy.run(Event(), final=True)
    assert (target / "mapped").read_bytes()[:4] == b"\x01\x02\x03\x00"


def test_no_write_of_a_busy_pod_is_missed(source: Path, target: Path) -> None:
    written: dict[str, int] = {}
    done = Event()

    def write() -> None:
        number = 0
        while not done.is_set():
            number += 1
            name = f"row-{number % 50}"
            (source / name).write_text(str(number))
            written[name] = number
            if number % 7 == 0:
                (source / f"row-{(number + 3) % 50}").unlink(missing_ok=True)
                written.pop(f"row-{(number + 3) % 50}", None)
            done.wait(0.0005)

    writer = threading.Thread(target=write)
    writer.start()
    copy = TreeCopy(source, target)
    for _ in range(5):
        copy.run(Event())
    done.set()
    writer.join()
    copy.run(Event(), final=True)
    assert copy.difference(Event()) == ""
    assert {each.name: int(each.read_text()) for each in target.iterdir()} == written


def test_a_copy_that_was_damaged_is_noticed(source: Path, target: Path) -> None:
    (source / "row").write_text("right")
    copy = TreeCopy(source, target)
    copy.run(Event(), final=True)
    found = (target / "row").stat()
    (target / "row").write_text("wrong")
    os.utime(target / "row", ns=(found.st_atime_ns, found.st_mtime_ns))
    assert copy.difference(Event()) == "row"


def test_a_link_in_place_of_a_file_is_never_followed(source: Path, target: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (source / "row").symlink_to(tmp_path / "secret")
    (source / "folder").symlink_to(tmp_path)
    TreeCopy(source, target).run(Event())
    assert (target / "row").is_symlink()
    assert (target / "folder").is_symlink()


def test_a_name_that_is_listed_twice_leads_nowhere(
    source: Path, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filesystem may list a name again that is removed and made anew meanwhile."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "shadow").write_text("secret")
    (source / "a").mkdir()
    (source / "a" / "shadow").write_text("own")
    os.link(source / "a" / "shadow", source / "z")
    listed = tree_copy._listed

    def twice(folder: int) -> list[str]:
        found = list(listed(folder))
        return ["a", "a", "z"] if sorted(found) == ["a", "z"] else found

    monkeypatch.setattr(tree_copy, "_listed", twice)
    TreeCopy(source, target).run(Event())
    assert (target / "z").stat().st_ino == (target / "a" / "shadow").stat().st_ino

    # Even if a folder of the copy were a link by then.
    (target / "a" / "shadow").unlink()
    (target / "a").rmdir()
    (target / "a").symlink_to(tmp_path / "etc")
    with closing_handle(os.open(target, os.O_RDONLY)) as top, pytest.raises(NotADirectoryError):
        _copy_hard_link(top, "a/shadow", top, "y", None)
    assert not (target / "y").exists()


def test_a_device_in_place_of_a_file_is_not_opened(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source / "row").write_text("1")
    stamped = os.stat

    def swapped(name: str, **how: Any) -> os.stat_result:
        found = stamped(name, **how)
        if name == "row" and (source / "row").is_file():
            (source / "row").unlink()
            os.mkfifo(source / "row")
        return found

    opened: list[int] = []
    real = os.open

    def noted(path: Any, flags: int, *rest: Any, **how: Any) -> int:
        if path == "row" and not flags & os.O_PATH:
            opened.append(flags)
        return real(path, flags, *rest, **how)

    monkeypatch.setattr("pilothouse.node.volumes.tree_copy.os.stat", swapped)
    monkeypatch.setattr("pilothouse.node.volumes.tree_copy.os.open", noted)
    TreeCopy(source, target).run(Event())
    assert opened == []
    assert not (target / "row").exists()


def test_what_is_not_remembered_is_compared_by_content(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pilothouse.node.volumes.tree_copy._REMEMBERED", 2)
    for number in range(5):
        (source / f"row-{number}").write_text(str(number))
    copy = TreeCopy(source, target)
    copy.run(Event())
    (source / "row-4").write_text("9")
    copy.run(Event(), final=True)
    assert copy.difference(Event()) == ""
    found = (target / "row-4").stat()
    (target / "row-4").write_text("x")
    os.utime(target / "row-4", ns=(found.st_atime_ns, found.st_mtime_ns))
    assert copy.difference(Event()) == "row-4"


def test_names_without_number_take_little_memory(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (source / f"row-{number}").write_text("1")
        (source / f"folder-{number}").mkdir()
        (source / f"folder-{number}" / "row").write_text("1")
    # Those in one folder and above it count, and no others.
    monkeypatch.setattr(tree_copy, "_NAMES", 45 * 200)
    TreeCopy(source, target).run(Event())
    asked = 0

    def counted(folder: int) -> Iterator[str]:
        nonlocal asked
        for name in os.listdir(folder):
            asked += 1
            yield name

    for number in range(200):
        os.link(source / "row-1", source / "folder-1" / f"{number}")
    monkeypatch.setattr(tree_copy, "_listed", counted)
    with pytest.raises(CopyFailed, match=r"too many entries in a folder.*'folder-1'"):
        TreeCopy(source, target).run(Event())
    assert asked < 200


def test_a_stopped_pass_ends_and_a_deep_tree_is_refused(source: Path, target: Path) -> None:
    (source / "row").write_text("1")
    stop = Event()
    stop.set()
    with pytest.raises(CopyStopped):
        TreeCopy(source, target).run(stop)
    handle = os.open(source, os.O_RDONLY)
    for _ in range(205):
        os.mkdir("d", dir_fd=handle)
        inner = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)
    with pytest.raises(CopyFailed) as failed:
        TreeCopy(source, target).run(Event())
    assert failed.value.errno == errno.ENAMETOOLONG
