from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pilothouse.node.files.directory_handles import (
    open_beneath,
    open_by_steps,
    open_directory,
    remove_tree,
    walk,
)
from pilothouse.node.volumes.mount_table import BIND, mount, unmount

EITHER = pytest.mark.parametrize("opening", [open_beneath, open_by_steps])


@pytest.fixture
def top(tmp_path: Path) -> Path:
    folder = tmp_path / "top"
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "file").write_text("content")
    (folder / "inner").symlink_to("a/b")
    (folder / "a" / "up").symlink_to("../a/file")
    (folder / "chain").symlink_to("inner/../up")
    (folder / "out").symlink_to("../outside")
    (folder / "a" / "over").symlink_to("../../top/a")
    (folder / "etc").symlink_to("/etc")
    (folder / "loop").symlink_to("loop")
    (folder / "nothing").symlink_to("missing")
    (tmp_path / "outside").mkdir()
    return folder


def outcome(opening: Callable[..., int], top: Path, path: str, flags: int, *, follow: bool) -> str:
    """Where a handle is, or the name of the error."""
    with open_directory(top) as folder:
        try:
            handle = opening(folder, path, flags, follow=follow)
        except OSError as problem:
            return errno.errorcode[problem.errno or 0]
    try:
        return os.readlink(f"/proc/self/fd/{handle}").removeprefix(f"{top}")
    finally:
        os.close(handle)


@EITHER
@pytest.mark.parametrize(
    ("path", "plain", "followed"),
    [
        ("a/file", "/a/file", "/a/file"),
        ("a/./b", "/a/b", "/a/b"),
        (".", "", ""),
        ("inner", "ELOOP", "/a/b"),
        ("a/up", "ELOOP", "/a/file"),
        ("chain", "ELOOP", "/a/file"),
        ("out", "ELOOP", "EXDEV"),
        ("out/x", "ELOOP", "EXDEV"),
        ("a/over/file", "ELOOP", "EXDEV"),
        ("etc/passwd", "ELOOP", "EXDEV"),
        ("..", "EXDEV", "EXDEV"),
        ("/etc", "EXDEV", "EXDEV"),
        ("loop", "ELOOP", "ELOOP"),
        ("nothing", "ELOOP", "ENOENT"),
        ("missing/x", "ENOENT", "ENOENT"),
        ("a/file/x", "ENOTDIR", "ENOTDIR"),
    ],
)
def test_both_ways_find_the_same(
    top: Path, opening: Callable[..., int], path: str, plain: str, followed: str
) -> None:
    assert outcome(opening, top, path, os.O_RDONLY, follow=False) == plain
    assert outcome(opening, top, path, os.O_RDONLY, follow=True) == followed


@EITHER
def test_a_link_itself_can_be_looked_at(top: Path, opening: Callable[..., int]) -> None:
    with open_directory(top) as folder:
        handle = opening(folder, "etc", os.O_PATH | os.O_NOFOLLOW)
        assert os.readlink("", dir_fd=handle) == "/etc"
        os.close(handle)


@EITHER
def test_another_filesystem_is_not_entered_on_request(opening: Callable[..., int]) -> None:
    with open_directory(Path("/")) as folder, pytest.raises(OSError) as refused:
        opening(folder, "proc/self", os.O_PATH, same_mount=True, follow=True)
    assert refused.value.errno == errno.EXDEV


@EITHER
def test_no_handle_is_left_open(top: Path, opening: Callable[..., int]) -> None:
    outcome(opening, top, "a/file", os.O_RDONLY, follow=True)
    before = os.listdir("/proc/self/fd")
    for path in ("a/file", "chain", "out/x", "loop", "missing/x", "a/file/x", "."):
        for follow in (False, True):
            outcome(opening, top, path, os.O_RDONLY, follow=follow)
    assert os.listdir("/proc/self/fd") == before


def test_a_walk_comes_by_everything_once_and_by_folders_last(top: Path) -> None:
    with open_directory(top) as folder:
        found = [entry.name for entry in walk(folder)]
    assert sorted(found) == sorted(
        ["a", "b", "file", "up", "over", "inner", "chain", "out", "etc", "loop", "nothing"]
    )
    assert found[-1] == "a"


@EITHER
def test_what_is_mounted_from_the_same_disk_is_not_entered_either(
    top: Path, tmp_path: Path, opening: Callable[..., int]
) -> None:
    if os.geteuid() != 0:
        pytest.skip("it mounts, which only root may")
    mount(str(tmp_path / "outside"), top / "a" / "b", flags=BIND)
    try:
        with open_directory(top) as folder, pytest.raises(OSError) as refused:
            opening(folder, "a/b", os.O_RDONLY, same_mount=True)
        assert refused.value.errno == errno.EXDEV
    finally:
        unmount(top / "a" / "b")


def test_what_is_mounted_in_a_tree_is_left_alone(top: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("it mounts, which only root may")
    (tmp_path / "outside" / "kept").write_text("x")
    mount(str(tmp_path / "outside"), top / "a" / "b", flags=BIND)
    try:
        with (
            open_directory(tmp_path) as folder,
            pytest.raises(OSError, match="something is mounted here; it is left alone: 'top/a/b'"),
        ):
            remove_tree(folder, "top")
        assert (tmp_path / "outside" / "kept").exists()
    finally:
        unmount(top / "a" / "b")
