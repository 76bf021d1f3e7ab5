"""A container's own folders, filled by somebody who wants them to stay, or to take the agent with them."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pilothouse.node.containers.termination_message import termination_message
from pilothouse.node.files.directory_handles import HELD
from pilothouse.node.files.directory_usage import MEASURED, DirectoryUsage, measure_disk_usage
from pilothouse.node.pods.pod_directories import ContainerDirectory
from pilothouse.node.volumes import ownership
from pilothouse.node.volumes.removal import remove

DEEP = 10_000


def deep(folder: Path, levels: int = DEEP) -> None:
    """Folders in folders, deeper than any path can name."""
    above = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=above)
        following = os.open("d", os.O_RDONLY, dir_fd=above)
        os.close(above)
        above = following
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=above))
    os.close(above)


@pytest.fixture
def few_files() -> Iterator[None]:
    """No more files may be open than a walk may hold, and some for everything else."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (opened + HELD + 16, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """Ten thousand folders are made there in no time, whatever else the disk has to do."""
    folder = tempfile.mkdtemp(dir="/dev/shm", prefix="test-deep-")
    yield Path(folder)
    subprocess.run(["rm", "-rf", folder], check=True)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "kept").write_bytes(os.urandom(4 << 20))
    return folder


def test_a_tree_of_four_thousand_levels_is_measured_and_given(in_memory: Path, few_files: None) -> None:
    volume = in_memory / "volume"
    volume.mkdir()
    deep(volume, MEASURED.depth - 1)
    try:
        assert measure_disk_usage(volume) == DirectoryUsage(measure_disk_usage(volume).size, MEASURED.depth)
        ownership.set_group(volume, os.getgid())
    finally:
        remove(volume)
    assert not volume.exists()


def test_a_tree_of_ten_thousand_levels_counts_as_unmeasured_and_is_removed(
    in_memory: Path, few_files: None
) -> None:
    volume = in_memory / "volume"
    volume.mkdir()
    deep(volume)
    try:
        assert measure_disk_usage(volume).unmeasured == "folders more than 4096 levels deep"
        with pytest.raises(OSError, match="levels deep"):
            ownership.set_group(volume, os.getgid())
    finally:
        remove(volume)
    assert not volume.exists()


def test_instances_go_whatever_is_in_them(in_memory: Path, outside: Path, few_files: None) -> None:
    container = ContainerDirectory(in_memory / "container")
    own = container.begin(0) / "own"
    for name in ("tmp", "var", "home", "root"):
        (own / name).mkdir(parents=True)
    deep(own / "tmp")
    (own / "var" / "link").symlink_to(outside)
    (own / "var" / "loop").symlink_to("loop")
    os.mkfifo(own / "var" / "pipe")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(own / "var" / "socket"))
    (own / "home" / "closed" / "inner").mkdir(parents=True)
    (own / "home" / "closed" / "inner" / "file").write_text("x")
    (own / "home" / "closed" / "inner").chmod(0o500)
    (own / "home" / "closed").chmod(0)
    (own / "root" / os.fsdecode(b"\xff\n ..")).write_text("x")
    (own.parent / "linked").symlink_to(outside)
    assert measure_disk_usage(own).size < 2 * DEEP * 4096 + (1 << 20)
    for number in (1, 2):
        container.begin(number)
    for folder in container.outdated():
        remove(folder)
    assert container.attempts() == [1, 2]
    assert [each.name for each in outside.iterdir()] == ["kept"]


@pytest.mark.parametrize("instead", ["a link", "a pipe", "a folder"])
def test_the_last_words_are_those_of_a_file_or_none(tmp_path: Path, outside: Path, instead: str) -> None:
    container = ContainerDirectory(tmp_path / "container")
    path = container.begin(0) / "termination-log"
    path.unlink()
    match instead:
        case "a link":
            path.symlink_to(outside / "kept")
        case "a pipe":
            os.mkfifo(path)
        case _:
            path.mkdir()
    assert termination_message(container, 0, {}, succeeded=False) == ""


def test_an_instance_begins_with_a_file_of_its_own(tmp_path: Path, outside: Path) -> None:
    before = (outside / "kept").stat().st_mode
    container = ContainerDirectory(tmp_path / "container")
    container.attempt(0).mkdir(parents=True)
    (container.attempt(0) / "termination-log").symlink_to(outside / "kept")
    with pytest.raises(OSError, match="symbolic links"):
        container.begin(0)
    assert (outside / "kept").stat().st_mode == before
