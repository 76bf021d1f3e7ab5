"""Archives of a megabyte or so that would take all of the machine's memory while they are imported."""

from __future__ import annotations

import gzip
import lzma
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

MOST = 100
"""MiB for all of an import, the interpreter and its modules included."""
SWOLLEN = 320
"""MiB that each archive would have in memory at once."""
IMPORT = """
import re, sys
from pathlib import Path
from pilothouse.node.images.unpacking import UnpackError, UnpackLimits, unpack

try:
    unpack(Path(sys.argv[1]), Path(sys.argv[2]), UnpackLimits(size=1 << 30))
    print("taken")
except UnpackError as refusal:
    print(refusal)
# Not by getrusage: that has the memory of the process from which this one was forked.
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""
MI = 1 << 20


def imported(archive: Path, folder: Path) -> tuple[str, int]:
    """What an import in a process of its own says, and how many MiB it took at most."""
    (folder / "target").mkdir()
    command = [sys.executable, "-c", IMPORT, str(archive), str(folder / "target")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    said, peak = done.stdout.rstrip().rsplit("\n", 1)
    return said, int(peak)


def head(kind: bytes, size: int, name: str = "x") -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.USTAR_FORMAT)


def record(key: str, value: str) -> bytes:
    """A record of an extended header, which begins with its own length."""
    rest = f" {key}={value}\n"
    length = len(rest) + len(str(len(rest)))
    length = len(rest) + len(str(length))
    return f"{length}{rest}".encode()


def extended(kind: bytes, content: bytes) -> bytes:
    return head(kind, len(content)) + content + bytes(-len(content) % 512)


def swollen(path: Path, *pieces: bytes, filler: bytes = bytes(MI), count: int = SWOLLEN) -> Path:
    """Pieces, and then a filler so many times."""
    with gzip.open(path, "wb", 1) as out:
        for piece in pieces:
            out.write(piece)
        for _ in range(count):
            out.write(filler)
        out.write(head(b"0", 0) + bytes(1024))
    return path


def extended_attributes(folder: Path) -> Path:
    return swollen(folder / "a.tar.gz", head(b"x", SWOLLEN * MI))


def long_name(folder: Path) -> Path:
    return swollen(folder / "a.tar.gz", head(b"L", SWOLLEN * MI))


def long_link(folder: Path) -> Path:
    return swollen(folder / "a.tar.gz", head(b"K", SWOLLEN * MI))


def map_of_holes(folder: Path) -> Path:
    """Of a sparse file in GNU's old form: block after block says that another one follows."""
    block = (b"%011o\0" % 512) * 42 + b"\1" + bytes(7)
    first = bytearray(head(b"S", 0))
    first[482] = 1
    first[148:156] = b" " * 8
    first[148:156] = b"%06o\0 " % sum(first)
    return swollen(folder / "a.tar.gz", bytes(first), filler=block * 2048, count=40)


def map_of_holes_in_the_content(folder: Path) -> Path:
    """Of a sparse file in GNU's newer form."""
    attributes = record("GNU.sparse.major", "1") + record("GNU.sparse.minor", "0")
    attributes += record("GNU.sparse.name", "x") + record("GNU.sparse.realsize", "1")
    start = extended(b"x", attributes) + head(b"0", 80 * MI) + b"999999999\n".rjust(512, b"0")
    return swollen(folder / "a.tar.gz", start, filler=b"1\n" * (MI // 2), count=80)


def attributes_for_all(folder: Path) -> Path:
    with gzip.open(folder / "a.tar.gz", "wb", 1) as out:
        for number in range(SWOLLEN * 2):
            out.write(extended(b"g", record(f"comment.{number}", "x" * (MI // 2))))
            out.write(head(b"5", 0, "folder"))
        out.write(bytes(1024))
    return folder / "a.tar.gz"


def greedy_xz(folder: Path) -> Path:
    """It says that unpacking takes 4 GiB, and then unpacks to what fills a part of them."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0}]
    packer = lzma.LZMACompressor(filters=filters)
    packed = bytearray(packer.compress(head(b"0", SWOLLEN * MI)))
    for _ in range(SWOLLEN):
        packed += packer.compress(bytes(MI))
    packed += packer.compress(bytes(1024)) + packer.flush()
    start, length = 12, (packed[12] + 1) * 4
    packed[packed.index(b"\x21\x01", start) + 2] = 40
    packed[start + length - 4 : start + length] = zlib.crc32(packed[start : start + length - 4]).to_bytes(
        4, "little"
    )
    (folder / "a.tar.xz").write_bytes(packed)
    return folder / "a.tar.xz"


def zip_directory(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "small.zip", "w") as archive:
        archive.writestr("a", b"")
    small = (folder / "small.zip").read_bytes()
    start, end = small.index(b"PK\1\2"), small.index(b"PK\5\6")
    directory = small[start:end] * (24 * MI // (end - start))
    tail = bytearray(small[end:])
    tail[12:16] = len(directory).to_bytes(4, "little")
    (folder / "a.zip").write_bytes(small[:start] + directory + tail)
    return folder / "a.zip"


def zip_by_bzip2(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_BZIP2) as archive, archive.open("a", "w") as out:
        for _ in range(SWOLLEN):
            out.write(bytes(MI))
    return folder / "a.zip"


ATTACKS: dict[Callable[[Path], Path], str] = {
    extended_attributes: "the head of an entry has more than 1048576 bytes",
    long_name: "the head of an entry has more than 1048576 bytes",
    long_link: "the head of an entry has more than 1048576 bytes",
    map_of_holes: "the head of an entry has more than 1048576 bytes",
    map_of_holes_in_the_content: "the head of an entry has more than 1048576 bytes",
    attributes_for_all: "more than 64 attributes for all of its entries",
    greedy_xz: "Memory usage limit exceeded",
    zip_directory: "its directory has more than 16777216 bytes",
    zip_by_bzip2: "a is compressed by another method than deflate",
}


@pytest.mark.parametrize(("attack", "said"), ATTACKS.items(), ids=[each.__name__ for each in ATTACKS])
def test_an_archive_that_swells_is_refused_in_little_memory(
    tmp_path: Path, attack: Callable[[Path], Path], said: str
) -> None:
    answer, peak = imported(attack(tmp_path), tmp_path)
    assert said in answer
    assert peak < MOST, answer


def test_what_real_archives_have_is_taken(tmp_path: Path) -> None:
    long = "/".join(["n" * 100] * 20)
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name, content in ((long, b"x"), ("note", b"y")):
            info = tarfile.TarInfo(name)
            info.size, info.pax_headers = len(content), {"comment": "c" * 100_000}
            (tmp_path / "content").write_bytes(content)
            with (tmp_path / "content").open("rb") as file:
                archive.addfile(info, file)
    answer, _ = imported(tmp_path / "a.tar.gz", tmp_path)
    assert answer == "taken"
    assert (tmp_path / "target" / long).read_bytes() == b"x"
