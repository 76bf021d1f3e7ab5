from __future__ import annotations

import json
import re
import shlex
import tarfile
from pathlib import Path

import pytest
from tests.cli.running import pilothouse
from tests.kit.images import image_folder

from pilothouse.base.clock import SystemClock
from pilothouse.node.images.image_store import ImageStore
from pilothouse.node.interfaces import ImageMissing


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    source = image_folder(tmp_path / "redis-7.2", "bin/redis-server")
    with tarfile.open(tmp_path / "redis.tar.gz", "w:gz") as made:
        made.add(source, "redis-7.2")
    return tmp_path / "redis.tar.gz"


def test_an_image_is_imported_listed_and_removed(archive: Path, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    flags = [
        "--strip-components",
        "1",
        "--entrypoint",
        "bin/redis-server",
        "--env",
        "LANG=C",
        "--cmd",
        "--port",
        "--cmd",
        "1",
    ]
    done = pilothouse("image", "import", "redis:7.2", str(archive), "--data", data, *flags)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("Warning: no node is running on "), "nobody uses the folder yet"
    assert done.stdout == "imported redis:7.2: 2 files, 10 B, seen by pods at /opt/redis\n"
    [record] = json.loads(pilothouse("image", "list", "--data", data, "-o", "json").stdout)
    assert record["name"] == "redis:7.2"
    assert record["manifest"]["entrypoint"] == ["/opt/redis/bin/redis-server"]
    assert record["manifest"]["cmd"] == ["--port", "1"]
    assert record["manifest"]["env"]["LANG"] == "C"
    head, row = pilothouse("image", "list", "--data", data).stdout.splitlines()
    assert head.split() == ["NAME", "SIZE", "FILES", "IMPORTED", "SEEN", "AT", "DIGEST"]
    assert row.startswith("redis:7.2  10 B  2      ")
    assert pilothouse("image", "remove", "redis:7.2", "--data", data).stdout == "removed redis:7.2\n"
    assert json.loads(pilothouse("image", "list", "--data", data, "-o", "json").stdout) == []


def test_an_archive_with_all_in_one_folder_is_told_with_the_flag_that_leaves_it_out(
    archive: Path, tmp_path: Path
) -> None:
    importing = ("image", "import", "redis:7.2", str(archive), "--data", str(tmp_path / "data"))
    done = pilothouse(*importing)
    assert done.returncode == 0
    assert "all files are in the folder redis-7.2" in done.stderr
    [flags] = re.findall(r"--strip-components \d", done.stderr)
    done = pilothouse(*importing, *flags.split())
    assert done.returncode == 0
    assert "all files are in the folder" not in done.stderr, "a folder like bin at the top is as it should be"


@pytest.mark.parametrize("flags", [(), ("--strip-components", "1")])
def test_the_command_that_a_missing_image_names_brings_it(
    archive: Path, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    data = tmp_path / "a folder; of my own"
    library = ImageStore(data / "node" / "images", SystemClock())
    with pytest.raises(ImageMissing) as caught:
        library.resolve("quay.io/team/redis:7.2")
    command = caught.value.message.partition("Import it: ")[2].partition(" (with")[0]
    program, *words = shlex.split(command.replace("FILE.tar.gz", shlex.quote(str(archive))))
    assert program == "pilothouse"
    assert pilothouse(*words, *flags).returncode == 0
    assert library.resolve("quay.io/team/redis:7.2").root is not None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("import", "not an image", "ARCHIVE"), "is not an image reference: expected the form NAME:TAG"),
        (("import", "redis:7", "NONE"), "does not exist"),
        (("import", "redis:7", "/dev/zero"), "/dev/zero is neither a file nor a folder"),
        (("import", "redis:7", "TEXT"), "is not a readable tar or zip archive"),
        (("import", "redis:7", "ARCHIVE", "--env", "LANG"), "'LANG' is not NAME=VALUE"),
        (("import", "redis:7", "ARCHIVE", "--mount-at", "/usr"), "would hide the node's own files"),
        (
            ("import", "host/redis:7", "ARCHIVE"),
            "names that begin with host/ are programs of the node itself",
        ),
        (("remove", "redis:7"), "there is no image redis:7; there are: none"),
    ],
)
def test_mistakes_are_told_in_one_line(
    archive: Path, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    text = tmp_path / "text"
    text.write_text("hello")
    names = {"ARCHIVE": str(archive), "TEXT": str(text), "NONE": str(tmp_path / "none")}
    words = [names.get(word, word) for word in arguments]
    done = pilothouse("image", *words, "--data", str(tmp_path / "data"))
    assert done.returncode != 0
    last = done.stderr.splitlines()[-1]
    assert last.startswith("Error: ")
    assert said in last
    assert "Traceback" not in done.stderr
