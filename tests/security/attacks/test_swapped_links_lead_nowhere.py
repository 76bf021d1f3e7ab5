"""A pod exchanges folders of its volume for links, again and again, while the agent, as root, works in that
volume.

Each test has files outside that the pod may not touch, and looks whether the agent has touched them for it.
The pod is a process of another user that exchanges names without a pause; a round is one act of the agent.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pilothouse.node.files.directory_handles import open_beneath, open_by_steps, open_directory
from pilothouse.node.files.directory_usage import measure_disk_usage
from pilothouse.node.images.unpacking import UnpackError, UnpackLimits, unpack
from pilothouse.node.interfaces import VolumeNotReady
from pilothouse.node.volumes import host_paths, ownership
from pilothouse.node.volumes.atomic_directory import FileOwner, replace
from pilothouse.node.volumes.memory_directories import memory_directories
from pilothouse.node.volumes.private_directories import PrivateDirectories
from pilothouse.node.volumes.projected_files import ProjectedFile
from pilothouse.node.volumes.removal import remove
from pilothouse.node.volumes.subpaths import SubpathError, opened

MANY = 1000 if os.environ.get("PILOTHOUSE_SOAK") == "1" else 50
ROUNDS = pytest.mark.parametrize("rounds", [5, pytest.param(MANY, marks=pytest.mark.long)])
POD, GROUP = 65534, 4321
NOTHING_PRIVATE = PrivateDirectories(())
PAIRS = 40
"""Folders that are exchanged for links, so that one of them is at the wrong moment."""
SWAP = """
import ctypes, os, sys
os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
libc, count, (real, link) = ctypes.CDLL(None), int(sys.argv[2]), sys.argv[3:]
pairs = [(os.fsencode(real.format(each)), os.fsencode(link.format(each))) for each in range(count)]
print("ready", flush=True)
while os.getppid() != 1:
    for real, link in pairs:
        libc.renameat2(-100, real, -100, link, 2)
"""

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="the agent's rights are root's here, and the pod's another user's"
)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Files of the machine. A pod's process has to reach its volume, so the folders above are open."""
    for each in (tmp_path, *tmp_path.parents[:2]):
        each.chmod(each.stat().st_mode | 0o755)
    folder = tmp_path / "outside"
    folder.mkdir(mode=0o755)
    (folder / "secret").write_text("of the machine")
    (folder / "secret").chmod(0o600)
    return folder


def state(folder: Path) -> list[tuple[str, int, int, int, int]]:
    """All that must stay as it is."""
    found = [("", folder.stat()), *((each.name, each.lstat()) for each in sorted(folder.iterdir()))]
    return [(name, each.st_mode, each.st_uid, each.st_gid, each.st_size) for name, each in found]


def fill(volume: Path, outside: Path) -> None:
    """Pairs of a folder and a link, which the pod may exchange."""
    volume.mkdir(exist_ok=True)
    os.chown(volume, POD, POD)
    for number in range(PAIRS):
        real, link = volume / f"real{number}", volume / f"link{number}"
        real.mkdir()
        (real / "secret").write_text("of the pod")
        link.symlink_to(outside)
        for each in (real, real / "secret", link):
            os.chown(each, POD, POD, follow_symlinks=False)


@contextmanager
def exchanging(
    volume: Path, real: str = "real{}", link: str = "link{}", count: int = PAIRS
) -> Iterator[None]:
    """Meanwhile the pod exchanges each of its folders for its link."""
    names = (f"{volume}/{real}", f"{volume}/{link}")
    command = [sys.executable, "-c", SWAP, str(POD), str(count), *names]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as pod:
        try:
            assert pod.stdout is not None
            assert pod.stdout.readline() == b"ready\n"
            yield
        finally:
            pod.kill()


@ROUNDS
def test_a_group_gets_nothing_outside_of_its_volume(tmp_path: Path, outside: Path, rounds: int) -> None:
    before, volume = state(outside), tmp_path / "volume"
    fill(volume, outside)
    with exchanging(volume):
        for _ in range(rounds):
            ownership.give(volume, GROUP)
            assert state(outside) == before
    ownership.give(volume, GROUP)
    assert {each.lstat().st_gid for each in volume.rglob("*")} == {GROUP}


@ROUNDS
def test_nothing_outside_of_a_folder_is_removed_with_it(tmp_path: Path, outside: Path, rounds: int) -> None:
    before, volume = state(outside), tmp_path / "volume"
    with exchanging(volume):
        for _ in range(rounds):
            # Filled elsewhere: the test itself goes by paths, and would be led astray.
            fill(tmp_path / "filling", outside)
            (tmp_path / "filling").rename(volume)
            remove(volume)
            assert not volume.exists()
            assert state(outside) == before


@ROUNDS
def test_a_part_of_a_volume_is_never_one_of_the_machine(tmp_path: Path, outside: Path, rounds: int) -> None:
    before, volume = state(outside), tmp_path / "volume"
    fill(volume, outside)
    forbidden = (outside / "secret").stat().st_ino
    with exchanging(volume):
        for turn in range(rounds):
            for number in range(PAIRS):
                for part in (f"real{number}/secret", f"link{number}/made{turn}/deeper"):
                    with contextlib.suppress(SubpathError), opened(volume, part) as handle:
                        assert os.fstat(handle).st_ino != forbidden
            assert state(outside) == before


@pytest.mark.parametrize("opening", [open_beneath, open_by_steps])
@ROUNDS
def test_a_name_beneath_a_folder_is_never_one_of_the_machine(
    tmp_path: Path, outside: Path, opening: Callable[..., int], rounds: int
) -> None:
    volume = tmp_path / "volume"
    fill(volume, outside)
    forbidden = (outside / "secret").stat().st_ino
    with exchanging(volume), open_directory(volume) as top:
        for _ in range(rounds):
            for number in range(PAIRS):
                for follow in (False, True):
                    with contextlib.suppress(OSError):
                        handle = opening(top, f"real{number}/secret", os.O_RDONLY, follow=follow)
                        found = os.fstat(handle).st_ino
                        os.close(handle)
                        assert found != forbidden


@ROUNDS
def test_a_node_makes_no_folder_where_a_link_leads(tmp_path: Path, outside: Path, rounds: int) -> None:
    before, shared = state(outside), tmp_path / "shared"
    fill(shared, outside)
    with exchanging(shared):
        for turn in range(rounds):
            for number in range(PAIRS):
                for kind in ("DirectoryOrCreate", "FileOrCreate"):
                    path = shared / f"real{number}" / f"{kind}{turn}"
                    with contextlib.suppress(VolumeNotReady):
                        host_paths.checked({"path": str(path), "type": kind}, "v", NOTHING_PRIVATE)
            assert state(outside) == before


@ROUNDS
def test_an_image_of_a_folder_has_nothing_from_elsewhere(tmp_path: Path, outside: Path, rounds: int) -> None:
    """Root imports what a user has made."""
    source = tmp_path / "source"
    source.mkdir()
    os.chown(source, POD, POD)
    for number in range(PAIRS):
        (source / f"real{number}").write_text("of the user")
        (source / f"link{number}").symlink_to(outside / "secret")
    with exchanging(source):
        for turn in range(rounds):
            target = tmp_path / f"target{turn}"
            target.mkdir()
            with contextlib.suppress(
                UnpackError, OSError
            ):  # A link that leads out, or one in place of a file.
                unpack(source, target, UnpackLimits())
            taken = [each.read_text() for each in target.iterdir() if not each.is_symlink()]
            assert "of the machine" not in taken
            shutil.rmtree(target)


@ROUNDS
def test_a_projected_volume_is_written_nowhere_else(tmp_path: Path, outside: Path, rounds: int) -> None:
    """Pods see it read-only; should one ever write there, that gains it nothing."""
    before, volume = state(outside), tmp_path / "volume"
    files = {f"new{number}": ProjectedFile(b"of the pod", 0o666) for number in range(100)}
    with exchanging(volume, "..{}", "..link{}", min(rounds, 8)):
        for turn in range(rounds):
            volume.mkdir()
            os.chown(volume, POD, POD)
            for number in range(8):
                (volume / f"..link{number}").symlink_to(outside)
            with contextlib.suppress(OSError):
                replace(volume, files, FileOwner(POD, GROUP), f"{turn % 8}")
            assert state(outside) == before
            remove(volume)


@ROUNDS
def test_what_is_outside_is_not_counted(tmp_path: Path, outside: Path, rounds: int) -> None:
    volume = tmp_path / "volume"
    fill(volume, outside)
    (outside / "large").write_bytes(os.urandom(8 << 20))
    with exchanging(volume):
        for _ in range(rounds):
            assert measure_disk_usage(volume).size < 4 << 20


def test_a_link_and_a_folder_of_its_name_change_nothing_outside(tmp_path: Path, outside: Path) -> None:
    before = state(outside)
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        link, folder = tarfile.TarInfo("x"), tarfile.TarInfo("x")
        link.type, link.linkname = tarfile.SYMTYPE, str(outside)
        folder.type, folder.mode = tarfile.DIRTYPE, 0o777
        file = tarfile.TarInfo("x/secret")
        for each in (link, folder, file):
            archive.addfile(each, io.BytesIO())
    (tmp_path / "target").mkdir()
    with pytest.raises(UnpackError, match="x: is a folder, and a link of the same name comes before it"):
        unpack(tmp_path / "a.tar", tmp_path / "target", UnpackLimits())
    assert state(outside) == before


def test_a_node_makes_no_folder_through_a_link_that_a_pod_has_put_there(
    tmp_path: Path, outside: Path
) -> None:
    before, shared = state(outside), tmp_path / "shared"
    fill(shared, outside)
    with pytest.raises(
        VolumeNotReady, match="link0: is a link that users other than root could have created"
    ):
        host_paths.checked(
            {"path": str(shared / "link0" / "new"), "type": "DirectoryOrCreate"}, "v", NOTHING_PRIVATE
        )
    assert state(outside) == before


def test_a_node_makes_folders_through_links_of_the_administrator(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to("disk")
    (tmp_path / "absolute").symlink_to(tmp_path / "data")
    checked = host_paths.checked(
        {"path": f"{tmp_path}/absolute/a/b", "type": "DirectoryOrCreate"}, "v", NOTHING_PRIVATE
    )
    assert checked.is_dir()
    assert stat.S_IMODE((tmp_path / "disk" / "a" / "b").stat().st_mode) & 0o022 == 0


@pytest.mark.parametrize("squatter", ["another user's", "open to all", "a link", "a file"])
def test_memory_is_never_where_another_user_has_made_a_folder(
    tmp_path: Path, outside: Path, squatter: str
) -> None:
    data = tmp_path / "data"
    mark = hashlib.sha256(os.fsencode(data)).hexdigest()[:16]
    taken = Path("/dev/shm") / f"pilothouse-{os.getuid()}-{mark}"
    match squatter:
        case "a link":
            taken.symlink_to(outside)
        case "a file":
            taken.write_text("")
        case "open to all":
            taken.mkdir()
            taken.chmod(0o777)
        case _:
            taken.mkdir(mode=0o700)
            os.chown(taken, POD, POD)
    try:
        memory = memory_directories(data, root=False)
        folder = memory.sized("uid-1", "secrets", None)
        try:
            assert taken not in folder.parents
            assert os.path.realpath(folder) == str(folder)
            assert stat.S_IMODE(folder.parent.parent.stat().st_mode) == 0o700
            # The next agent finds the same one.
            assert memory_directories(data, root=False).sized("uid-1", "secrets", None) == folder
        finally:
            memory_directories(data, root=False).release("uid-1")
        assert not folder.parent.parent.exists()
        assert os.path.lexists(taken)
        assert [each.name for each in outside.iterdir()] == ["secret"]
    finally:
        remove(taken)
