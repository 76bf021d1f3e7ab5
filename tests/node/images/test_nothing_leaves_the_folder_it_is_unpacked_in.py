from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from pilothouse.node.images.unpacking import UnpackError, UnpackLimits, unpack

FEW = UnpackLimits(entries=5, size=1000)


def tar(path: Path, *members: tuple[str, dict[str, object], bytes]) -> Path:
    """An archive of members: name, fields of its TarInfo, content."""
    with tarfile.open(path, "w:gz") as archive:
        for name, fields, content in members:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o644
            for field, value in fields.items():
                setattr(info, field, value)
            archive.addfile(info, io.BytesIO(content))
    return path


def link(target: str) -> dict[str, object]:
    return {"type": tarfile.SYMTYPE, "linkname": target}


def hard(target: str) -> dict[str, object]:
    return {"type": tarfile.LNKTYPE, "linkname": target}


FOLDER: dict[str, object] = {"type": tarfile.DIRTYPE, "mode": 0o755}
WRONG = {
    "an absolute path": [("/etc/passwd", {}, b"x")],
    "a path with dots": [("a/../../b", {}, b"x")],
    "a link to an absolute path": [("a", link("/etc"), b"")],
    "a link that leads out": [("a/b", link("../../etc"), b"")],
    "a link that leads out through another": [
        ("a/b/up", link("../.."), b""),
        ("a/b/out", link("up/.."), b""),
    ],
    "a file through a link": [("a", link("b"), b""), ("b", FOLDER, b""), ("a/c", {}, b"x")],
    "a hard link out": [("a", hard("/etc/passwd"), b"")],
    "a hard link to a link": [("a", link("b"), b""), ("b", {}, b"x"), ("c", hard("a"), b"")],
    "a hard link to nothing": [("a", hard("b"), b"")],
    "a device": [("a", {"type": tarfile.CHRTYPE}, b"")],
    "a pipe": [("a", {"type": tarfile.FIFOTYPE}, b"")],
    "a path with a backslash": [("a\\..\\b", {}, b"x")],
    "too many entries": [(f"f{index}", {}, b"") for index in range(6)],
    "too many bytes": [("a", {}, b"x" * 600), ("b", {}, b"x" * 600)],
    "nothing at all": [],
}


IMPOSSIBLE = {
    "a folder in place of a file": (
        [("a", {}, b"x"), ("a", FOLDER, b"")],
        "a: another entry of the same name comes before it",
    ),
    "a file in place of a folder": (
        [("a", FOLDER, b""), ("a", {}, b"x")],
        "a: a folder of the same name comes before it",
    ),
    "a hard link in place of a file": (
        [("a", {}, b"x"), ("b", {}, b"x"), ("b", hard("a"), b"")],
        "b: another entry of the same name comes before it",
    ),
    "a file below a file": (
        [("a", {}, b"x"), ("a/b", {}, b"x")],
        "a/b: lies below a, which is not a folder",
    ),
    "a name that is too long": (
        [("n" * 300, {}, b"x")],
        f"{'n' * 80}…: its name, or what it is a link to, is too long",
    ),
    "a link that is too long": (
        [("a", link("n/" * 3000), b"")],
        "a: its name, or what it is a link to, is too long",
    ),
}


@pytest.mark.parametrize(("members", "said"), IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_an_entry_that_can_not_be_is_named_as_the_archive_names_it(
    tmp_path: Path, members: list[tuple[str, dict[str, object], bytes]], said: str
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(UnpackError) as refused:
        unpack(tar(tmp_path / "bad.tar.gz", *members), target, FEW)
    assert str(refused.value) == said


@pytest.mark.parametrize("members", WRONG.values(), ids=WRONG.keys())
def test_an_archive_with_something_dangerous_is_refused(
    tmp_path: Path, members: list[tuple[str, dict[str, object], bytes]]
) -> None:
    target = tmp_path / "inside" / "target"
    target.mkdir(parents=True)
    with pytest.raises(UnpackError):
        unpack(tar(tmp_path / "bad.tar.gz", *members), target, FEW)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.tar.gz", "inside"]
    assert [path.name for path in (tmp_path / "inside").iterdir()] == ["target"]


def test_a_zip_is_held_to_the_same(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr("../outside", "x")
    (tmp_path / "target").mkdir()
    with pytest.raises(UnpackError, match=r"leads out of the image by '\.\.'"):
        unpack(tmp_path / "bad.zip", tmp_path / "target", FEW)
    assert not (tmp_path / "outside").exists()


def test_a_bomb_is_stopped_while_it_unpacks_whatever_it_says_of_its_size(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", b"\0" * (8 << 20))
    (tmp_path / "target").mkdir()
    with pytest.raises(UnpackError, match="more than 1000 bytes"):
        unpack(tmp_path / "bomb.zip", tmp_path / "target", FEW)


def test_what_is_no_archive_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    (tmp_path / "target").mkdir()
    with pytest.raises(UnpackError, match="not a readable tar or zip archive"):
        unpack(tmp_path / "text", tmp_path / "target", FEW)


def test_a_truncated_archive_is_told_so(tmp_path: Path) -> None:
    whole = tar(tmp_path / "whole.tar.gz", ("a", {}, os.urandom(800))).read_bytes()
    (tmp_path / "half.tar.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "target").mkdir()
    with pytest.raises(UnpackError, match="ended before the end"):
        unpack(tmp_path / "half.tar.gz", tmp_path / "target", FEW)


def test_what_the_owner_may_read_everybody_may(tmp_path: Path) -> None:
    """Elasticsearch's own archives keep their configuration from others, and pods run as anybody."""
    closed = tar(
        tmp_path / "a.tar.gz",
        ("config", {**FOLDER, "mode": 0o2750}, b""),
        ("config/jvm.options", {"mode": 0o660}, b"x"),
        ("bin", {"mode": 0o700}, b"x"),
    )
    (tmp_path / "target").mkdir()
    unpack(closed, tmp_path / "target", FEW)
    found = {name: stat.S_IMODE((tmp_path / "target" / name).stat().st_mode) for name in ("config", "bin")}
    assert found == {"config": 0o755, "bin": 0o755}
    assert stat.S_IMODE((tmp_path / "target/config/jvm.options").stat().st_mode) == 0o664


def test_a_file_that_is_root_for_everyone_is_so_no_more(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    unpack(tar(tmp_path / "a.tar.gz", ("su", {"mode": 0o4755}, b"x")), tmp_path / "target", FEW)
    assert stat.S_IMODE((tmp_path / "target" / "su").stat().st_mode) == 0o755


def test_links_within_are_kept_and_leading_folders_left_out_on_request(tmp_path: Path) -> None:
    made = tar(
        tmp_path / "a.tar.gz",
        ("redis-7/bin/server", {"mode": 0o755}, b"#!"),
        ("redis-7/lib", link("bin"), b""),
        ("redis-7/bin/same", hard("redis-7/bin/server"), b""),
    )
    target = tmp_path / "target"
    target.mkdir()
    unpacked = unpack(made, target, FEW, strip=1)
    assert (target / "lib" / "server").read_bytes() == b"#!"
    assert os.access(target / "bin" / "server", os.X_OK)
    assert (target / "bin" / "same").samefile(target / "bin" / "server")
    assert (unpacked.entries, unpacked.size) == (3, 2)


def _folder(path: Path) -> Path:
    (path / "bin").mkdir(parents=True)
    (path / "bin" / "run").write_text("#!/bin/sh\n")
    (path / "latest").symlink_to("bin/run")
    return path


def test_a_folder_gives_the_same_digest_each_time_and_another_once_it_changes(tmp_path: Path) -> None:
    source, digests = _folder(tmp_path / "source"), []
    for name in ("one", "two", "three"):
        if name == "three":
            (source / "bin" / "run").write_text("#!/bin/bash\n")
        (tmp_path / name).mkdir()
        digests.append(unpack(source, tmp_path / name, FEW).digest)
    assert digests[0] == digests[1] != digests[2]


def test_a_folder_is_held_to_the_same(tmp_path: Path) -> None:
    os.mkfifo(_folder(tmp_path / "source") / "pipe")
    (tmp_path / "target").mkdir()
    with pytest.raises(UnpackError, match="pipe"):
        unpack(tmp_path / "source", tmp_path / "target", FEW)


def test_an_archive_that_is_damaged_inside_is_told_so(tmp_path: Path) -> None:
    archive = tar(tmp_path / "a.tar.gz", ("noise", {}, os.urandom(500_000)))
    half = gzip.decompress(archive.read_bytes())[:250_000]
    archive.write_bytes(gzip.compress(half) + gzip.compress(b"")[:10] + b"\xff" * 100)
    (tmp_path / "out").mkdir()
    with pytest.raises(UnpackError, match=r"a.tar.gz is not a readable tar or zip archive"):
        unpack(archive, tmp_path / "out", UnpackLimits())


def test_a_link_with_a_zero_byte_is_told_so(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        info = zipfile.ZipInfo("link")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, b"a\0b")
    (tmp_path / "out").mkdir()
    with pytest.raises(UnpackError, match=r"a.zip is not a readable tar or zip archive"):
        unpack(tmp_path / "a.zip", tmp_path / "out", UnpackLimits())


def test_a_folder_that_may_not_be_read_is_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "source" / "closed").mkdir(parents=True)
    (tmp_path / "source" / "open").write_text("x")
    (tmp_path / "out").mkdir()
    for each in (tmp_path, tmp_path / "source", tmp_path / "source" / "open", tmp_path / "out"):
        each.chmod(0o777)
    (tmp_path / "source" / "closed").chmod(0)
    monkeypatch.chdir(tmp_path)  # The folders above it are closed to others.
    me = os.geteuid()
    if me == 0:
        os.seteuid(65534)  # Root may read anything.
    try:
        with pytest.raises(PermissionError, match="source/closed"):
            unpack(Path("source"), Path("out"), UnpackLimits())
    finally:
        os.seteuid(me)
        (tmp_path / "source" / "closed").chmod(0o700)
