"""Archives that were cut off or changed on the way: each is told so, and nothing of it stays."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from pilothouse.base.clock import SystemClock
from pilothouse.node.images.image_manifest import ImageManifest
from pilothouse.node.images.image_store import ImageStore
from pilothouse.node.images.unpacking import UnpackError, UnpackLimits, unpack

PACKED: dict[str, Callable[[bytes], bytes]] = {
    "tar": bytes,
    "tar.gz": gzip.compress,
    "tar.xz": lzma.compress,
    "tar.bz2": bz2.compress,
}


@pytest.fixture(scope="module")
def tar() -> bytes:
    """Files whose contents can't be packed any further, the last one ending with a block of the archive."""
    made, rng = io.BytesIO(), Random(1)
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, size in (("bin/server", 3000), ("etc/server.conf", 700), ("share/notes", 1024)):
            info = tarfile.TarInfo(name)
            info.size = size
            archive.addfile(info, io.BytesIO(rng.randbytes(size)))
    return made.getvalue()


def end_mark(tar: bytes) -> int:
    """Where the mark of an archive's end is."""
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        last = archive.getmembers()[-1]
    return last.offset_data + last.size


def refused(content: bytes, folder: Path) -> str:
    """Why an archive of this content is not imported. Of what was unpacked until then nothing is left."""
    source = folder / "image.archive"
    source.write_bytes(content)
    library = ImageStore(folder / "images", SystemClock())
    with pytest.raises(UnpackError) as problem:
        library.import_("redis:7", source, ImageManifest())
    assert library.list() == []
    left = [
        path for path in (folder / "images").rglob("*") if path.name in ("server", "server.conf", "notes")
    ]
    assert left == []
    return str(problem.value)


@pytest.mark.parametrize("form", PACKED)
def test_one_that_is_whole_is_taken(tar: bytes, form: str, tmp_path: Path) -> None:
    source = tmp_path / f"image.{form}"
    source.write_bytes(PACKED[form](tar))
    record = ImageStore(tmp_path / "images", SystemClock()).import_("redis:7", source, ImageManifest())
    assert (record.entries, record.size) == (3, 4724)


@pytest.mark.parametrize("form", PACKED)
def test_one_that_was_cut_off_is_not(tar: bytes, form: str, tmp_path: Path) -> None:
    whole = PACKED[form](tar)
    # What follows the mark of its end is nothing that a plain archive would lack.
    lengths = range(512, end_mark(tar) + 1, 512) if form == "tar" else range(100, len(whole), 101)
    for length in lengths:
        assert "image.archive is not a readable tar or zip archive" in refused(whole[:length], tmp_path)


def test_one_whose_checksum_is_another_is_not(tar: bytes, tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(tar))
    whole[-8] ^= 1
    assert "CRC check failed" in refused(bytes(whole), tmp_path)


def test_one_whose_length_is_another_is_not(tar: bytes, tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(tar))
    whole[-4] ^= 1
    assert "Incorrect length" in refused(bytes(whole), tmp_path)


@pytest.mark.parametrize("form", PACKED)
def test_one_with_a_damaged_head_in_the_middle_is_not(tar: bytes, form: str, tmp_path: Path) -> None:
    damaged = bytearray(tar)
    damaged[tar.index(b"etc/server.conf")] ^= 1
    assert "an entry's head is damaged" in refused(PACKED[form](bytes(damaged)), tmp_path)


def test_what_follows_the_end_is_limited_like_the_rest(tar: bytes, tmp_path: Path) -> None:
    (tmp_path / "padded.tar.gz").write_bytes(gzip.compress(tar + bytes(100_000)))
    (tmp_path / "target").mkdir()
    with pytest.raises(UnpackError, match="more than 50000 bytes follow its end mark"):
        unpack(tmp_path / "padded.tar.gz", tmp_path / "target", UnpackLimits(size=50_000))
