from __future__ import annotations

import os
import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.kit.program_trees import Entry, archive, entry, installed, link, manifest, payload, stage

from pilothouse.node.images.unpacking import UnpackError
from pilothouse.node.updating.installed_tree import InstalledTree

INTERPRETER = os.path.realpath(sys.executable)
SCRIPT = "#!/bin/sh\necho {version}\n"


def script(version: str) -> str:
    return SCRIPT.format(version=version)


def output(program: Path, *arguments: str) -> str:
    return subprocess.run([program, *arguments], stdout=subprocess.PIPE, check=True, text=True).stdout.strip()


def runs(root: Path) -> str:
    return output(root / "bin" / "pilothouse", "--version")


def started(root: Path) -> str:
    return output(root / "bin" / "pilothouse", "node")


def names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def below(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def trees(root: Path) -> set[str]:
    return {each.name.partition("-")[0] for each in (root / "versions").iterdir()}


async def update(files: InstalledTree, version: str) -> None:
    await stage(files, version, payload(version, script(version)))
    await files.keep()
    await files.swap()
    await files.confirm()


async def test_a_version_is_installed_beside_the_others_and_becomes_current_in_one_step(
    tmp_path: Path,
) -> None:
    files = await installed(tmp_path, "v1.0.0", payload("v1.0.0", script("v1.0.0")))
    before = await files.digest()
    digest = await stage(files, "v2.0.0", payload("v2.0.0", script("v2.0.0")))
    assert runs(tmp_path) == "v1.0.0"
    assert (await files.digest(), await files.next_digest()) == (before, digest)
    assert await files.keep() == before
    await files.swap()
    assert started(tmp_path) == "v2.0.0"
    assert (await files.digest(), await files.kept_digest()) == (digest, before)
    assert os.readlink(tmp_path / "current") == f"versions/v2.0.0-{digest[:12]}"


async def test_a_tree_runs_with_the_interpreter_of_the_machine(tmp_path: Path) -> None:
    files = await installed(tmp_path, "v1.0.0", payload("v1.0.0", script("v1.0.0")))
    tree = files.current()
    assert tree is not None
    assert output(
        tree / "bin" / "python3", "-c", "import sys; print(sys.prefix, sys.base_prefix)"
    ).split() == [str(tree), sys.base_prefix]


async def test_the_version_before_is_kept_and_older_ones_are_removed(tmp_path: Path) -> None:
    files = await installed(tmp_path, "v1.0.0", payload("v1.0.0", script("v1.0.0")))
    await update(files, "v2.0.0")
    assert trees(tmp_path) == {"v1.0.0", "v2.0.0"}
    await update(files, "v3.0.0")
    assert trees(tmp_path) == {"v2.0.0", "v3.0.0"}
    await files.restore()
    assert runs(tmp_path) == "v2.0.0"


async def test_a_version_that_was_taken_back_is_removed(tmp_path: Path) -> None:
    files = await installed(tmp_path, "v1.0.0", payload("v1.0.0", script("v1.0.0")))
    await stage(files, "v2.0.0", payload("v2.0.0", script("v2.0.0")))
    await files.keep()
    await files.swap()
    await files.restore()
    await files.discard_next()
    assert trees(tmp_path) == {"v1.0.0"}
    assert {each for each in names(tmp_path) if not each.startswith(".")} == {
        "bin",
        "current",
        "kept",
        "versions",
    }


async def test_two_archives_of_one_version_are_two_trees(tmp_path: Path) -> None:
    files = await installed(tmp_path, "v1.0.0", payload("v1.0.0", script("first")))
    await stage(files, "v1.0.0", payload("v1.0.0", script("second")))
    await files.keep()
    await files.swap()
    assert started(tmp_path) == "second"
    await files.restore()
    assert started(tmp_path) == "first"


@contextmanager
def running(tree: Path, *flags: str) -> Iterator[None]:
    process = subprocess.Popen([tree / "bin" / "python3", *flags, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        yield
    finally:
        process.kill()
        process.communicate()


async def test_a_tree_that_a_process_runs_from_stays(tmp_path: Path) -> None:
    files = await installed(tmp_path, "v1.0.0", payload("v1.0.0", script("v1.0.0")))
    first = files.current()
    assert first is not None
    with running(first):
        await update(files, "v2.0.0")
        await update(files, "v3.0.0")
        assert trees(tmp_path) == {"v1.0.0", "v2.0.0", "v3.0.0"}
    # A shim has all of its code in memory.
    with running(first, "-I", "-S"):
        await files.discard_next()
        assert trees(tmp_path) == {"v2.0.0", "v3.0.0"}


PROGRAM = entry("bin/pilothouse", b"#!/bin/sh\n")
GOOD = [PROGRAM, manifest("v2.0.0")]
ATTACKS: dict[str, tuple[list[Entry], str]] = {
    "absolute": ([*GOOD, entry("/tmp/escaped", b"x")], "not a relative path"),
    "upward": ([*GOOD, entry("lib/../../escaped", b"x")], "leads out"),
    "link out": ([*GOOD, link("lib", "../../..")], "leads out"),
    "absolute link": ([*GOOD, link("lib", "/etc")], "leads out"),
    "through a link": ([*GOOD, link("lib", "bin"), entry("lib/x", b"x")], "goes through the link"),
    "hard link": ([*GOOD, entry("shadow", kind=tarfile.LNKTYPE, link="/etc/shadow")], "is not a relative path"),
    "device": ([*GOOD, entry("null", kind=tarfile.CHRTYPE)], "device"),
    "pipe": ([*GOOD, entry("pipe", kind=tarfile.FIFOTYPE)], "device or pipe"),
    "no program": ([manifest("v2.0.0")], "it is no payload as `make payload` makes it"),
    "a link as program": ([entry("bin/sh", b""), link("bin/pilothouse", "sh"), manifest("v2.0.0")], "it is no payload"),
    "no manifest": ([PROGRAM], "it is no payload"),
    "a manifest that is none": ([PROGRAM, entry("payload.json", b"[")], "it is no payload"),
    "another Python": ([PROGRAM, manifest("v2.0.0", "2.7")], "it needs Python 2.7; this machine has Python 3."),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
async def test_an_archive_that_is_not_safe_changes_nothing(tmp_path: Path, attack: str) -> None:
    root = tmp_path / "root"
    files = await installed(root, "v1.0.0", payload("v1.0.0", script("v1.0.0")))
    entries, reason = ATTACKS[attack]
    with pytest.raises(UnpackError, match=reason):
        await stage(files, "v2.0.0", archive(entries))
    await files.discard_next()
    assert runs(root) == "v1.0.0"
    assert trees(root) == {"v1.0.0"}
    assert names(tmp_path) == {"root"}


async def test_other_users_can_neither_write_to_a_tree_nor_lock_its_launcher(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = entry("lib", kind=tarfile.DIRTYPE)
        library = entry("lib/code.py", b"pass\n")
        for info, _ in (folder, library):
            info.mode = 0o777
        packed = payload("v1.0.0", script("v1.0.0"), entries=[folder, library])
        files = await installed(tmp_path, "v1.0.0", packed)
        await stage(files, "v2.0.0", payload("v2.0.0", script("v2.0.0")))
        await files.keep()
        await files.swap()
        assert started(tmp_path) == "v2.0.0"
    finally:
        os.umask(before)
    modes = {str(each.relative_to(tmp_path)): each.lstat().st_mode for each in below(tmp_path)}
    del modes[files.download.name]
    assert [name for name, mode in modes.items() if not stat.S_ISLNK(mode) and mode & 0o022] == []
    assert stat.S_IMODE(modes[".launcher.lock"]) == 0o600


async def test_no_archive_is_no_payload(tmp_path: Path) -> None:
    files = InstalledTree(tmp_path)
    with pytest.raises(UnpackError, match="is not a readable tar or zip archive"):
        await stage(files, "v2.0.0", b"<html>not found</html>")


@pytest.mark.parametrize("version", ["../x", "a/b", ".", "", "v" * 200])
async def test_a_version_that_is_no_name_is_refused(tmp_path: Path, version: str) -> None:
    files = InstalledTree(tmp_path)
    with pytest.raises(UnpackError, match="can't be the name of a folder"):
        await stage(files, version, payload(version, script("x")))
    assert list((tmp_path / "versions").iterdir()) == []


async def test_what_an_archive_says_of_its_digest_and_interpreter_does_not_count(tmp_path: Path) -> None:
    files = await installed(tmp_path, "v1.0.0", payload("v1.0.0", script("v1.0.0")))
    lies = [
        entry(".installed.json", b'{"sha256": "0"}'),
        entry("pyvenv.cfg", b"home = /nonexistent\n"),
        entry("bin/python3", b"#!/bin/sh\necho lies\n"),
    ]
    content = payload("v2.0.0", script("v2.0.0"), entries=lies)
    digest = await stage(files, "v2.0.0", content)
    assert await files.next_digest() == digest
    await files.swap()
    tree = files.current()
    assert tree is not None
    assert os.readlink(tree / "bin" / "python3") == INTERPRETER
