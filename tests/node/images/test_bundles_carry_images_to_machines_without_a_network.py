from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import pilothouse
from tests.kit.images import image_folder

from pilothouse.base.clock import ManualClock
from pilothouse.node.images.airgap_bundles import import_bundle, write_bundle
from pilothouse.node.images.image_manifest import ImageManifest
from pilothouse.node.images.image_references import ImageReferenceError
from pilothouse.node.images.image_store import ImageStore, ImageStoreError
from pilothouse.node.images.unpacking import UnpackError, UnpackLimits, folder_digest
from pilothouse.node.interfaces import ImageMissing

Member = tuple[tarfile.TarInfo, bytes]
DIES = """
import os, signal, sys
from pathlib import Path
from pilothouse.node.images.airgap_bundles import import_bundle
from pilothouse.node.images.image_store import ImageStore

class Deadly:
    \"\"\"Asked for the time when files are in place and the name is not written.\"\"\"
    def now(self):
        os.kill(os.getpid(), signal.SIGKILL)

list(import_bundle(Path(sys.argv[1]), ImageStore(Path(sys.argv[2]), Deadly())))
"""


@pytest.fixture
def library(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "data" / "node" / "images", ManualClock(1_700_000_000))


@pytest.fixture
def elsewhere(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "far" / "node" / "images", ManualClock(1_800_000_000))


@pytest.fixture
def redis(tmp_path: Path) -> Path:
    source = image_folder(tmp_path / "redis", "bin/redis-server")
    (source / "bin" / "redis").symlink_to("redis-server")
    (source / "empty").mkdir(mode=0o750)
    (source / ("long" * 30)).write_text("x")
    (source / os.fsdecode(b"not-utf-8-\xff")).write_text("y")
    return source


@pytest.fixture
def bundle(library: ImageStore, redis: Path, tmp_path: Path) -> Path:
    """Of two images: one from a folder, one from an archive."""
    library.import_(
        "quay.io/team/redis:7", redis, ImageManifest(entrypoint=("bin/redis-server",), user="7:8")
    )
    with tarfile.open(tmp_path / "zookeeper.tar.gz", "w:gz") as made:
        made.add(redis, "top/inner")
    library.import_("zookeeper:3", tmp_path / "zookeeper.tar.gz", ImageManifest(env={"LANG": "C"}), strip=1)
    write_bundle(tmp_path / "images.tar.gz", ["zookeeper:3", "quay.io/team/redis:7"], library)
    return tmp_path / "images.tar.gz"


def names(library: ImageStore) -> list[str]:
    return [record.name for record in library.list()]


def leftovers(library_folder: Path) -> list[Path]:
    return list((library_folder / "incoming").glob("*"))


def rewritten(source: Path, change: Callable[[list[Member]], object]) -> Path:
    """The bundle with other members."""
    with tarfile.open(source) as archive:
        members = [
            (member, found.read() if (found := archive.extractfile(member)) and member.isfile() else b"")
            for member in archive
        ]
    change(members)
    target = source.with_name("changed.tar.gz")
    with tarfile.open(target, "w:gz") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return target


def entry(path: str, content: bytes = b"", **fields: object) -> Member:
    member = tarfile.TarInfo(path)
    for field, value in fields.items():
        setattr(member, field, value)
    return member, content


def index_with(change: Callable[[dict[str, Any]], object]) -> Callable[[list[Member]], object]:
    def changed(members: list[Member]) -> None:
        index = json.loads(members[0][1])
        change(index)
        members[0] = members[0][0], json.dumps(index).encode()

    return changed


def test_images_arrive_as_they_were(library: ImageStore, elsewhere: ImageStore, bundle: Path) -> None:
    brought = dict(import_bundle(bundle, elsewhere))
    assert list(brought) == ["quay.io/team/redis:7", "zookeeper:3"]
    for name in brought:
        here, there = library.resolve(name), elsewhere.resolve(name)
        assert here.root is not None
        assert there.root is not None
        assert here.root != there.root
        assert folder_digest(here.root) == folder_digest(there.root)
        assert (there.entrypoint, there.cmd, there.env) == (here.entrypoint, here.cmd, here.env)
        assert (there.user, there.working_dir, there.mount_at) == (here.user, here.working_dir, here.mount_at)
    image = elsewhere.resolve("quay.io/team/redis:7")
    assert image.entrypoint == ("/opt/redis/bin/redis-server",)
    assert image.root is not None
    assert (image.root / "bin" / "redis").readlink() == Path("redis-server")
    assert os.access(image.root / "bin" / "redis-server", os.X_OK)
    [redis, _] = elsewhere.list()
    assert (redis.entries, redis.imported[:4]) == (6, "2027")


def test_a_pod_that_asks_for_a_digest_gets_what_was_checked_here(
    library: ImageStore, elsewhere: ImageStore, bundle: Path
) -> None:
    list(import_bundle(bundle, elsewhere))
    of_folder = library.resolve("quay.io/team/redis:7").digest
    assert elsewhere.resolve(f"quay.io/team/redis:7@{of_folder}").digest == of_folder
    of_archive = library.resolve("zookeeper:3").digest
    with pytest.raises(ImageMissing, match=r"zookeeper:3 is, with the digest sha256:"):
        elsewhere.resolve(f"zookeeper:3@{of_archive}")


def test_the_same_images_make_the_same_bundle(
    library: ImageStore, elsewhere: ImageStore, bundle: Path, tmp_path: Path
) -> None:
    list(import_bundle(bundle, elsewhere))
    others = ["quay.io/team/redis:7", "zookeeper:3", "zookeeper:3"]
    write_bundle(tmp_path / "again.tar.gz", others, elsewhere)
    assert (tmp_path / "again.tar.gz").read_bytes() == bundle.read_bytes()


def test_a_bundle_that_cannot_be_made_leaves_nothing(
    library: ImageStore, redis: Path, tmp_path: Path
) -> None:
    library.import_("redis:7", redis)
    out = tmp_path / "out" / "images.tar.gz"
    out.parent.mkdir()
    out.write_text("what was there")
    with pytest.raises(ImageStoreError, match="there is no image redis:8; there are: redis:7"):
        write_bundle(out, ["redis:7", "redis:8"], library)
    with pytest.raises(ImageReferenceError, match="programs of the node itself"):
        write_bundle(out, ["host/redis:7"], library)
    root = library.resolve("redis:7").root
    assert root is not None
    os.mkfifo(root / "pipe")
    with pytest.raises(ImageStoreError, match="pipe is a device, pipe or socket"):
        write_bundle(out, ["redis:7"], library)
    assert [file.name for file in out.parent.iterdir()] == ["images.tar.gz"]
    assert out.read_text() == "what was there"


def test_what_is_here_is_passed_over(library: ImageStore, elsewhere: ImageStore, bundle: Path) -> None:
    assert all(record is not None for _, record in import_bundle(bundle, elsewhere))
    before = elsewhere.list()
    assert [record for _, record in import_bundle(bundle, elsewhere)] == [None, None]
    assert elsewhere.list() == before
    # Also where one of them came in an archive, and has the digest of that.
    assert [record for _, record in import_bundle(bundle, library)] == [None, None]


def test_replacing_gives_an_image_from_an_archive_the_digest_of_its_files(
    library: ImageStore, elsewhere: ImageStore, bundle: Path
) -> None:
    list(import_bundle(bundle, elsewhere))
    digest = elsewhere.resolve("zookeeper:3").digest
    assert library.resolve("zookeeper:3").digest != digest
    assert [record is None for _, record in import_bundle(bundle, library, replace=True)] == [True, False]
    assert library.resolve("zookeeper:3").digest == digest


def test_another_image_of_the_same_name_stays_unless_told(
    elsewhere: ImageStore, bundle: Path, redis: Path, tmp_path: Path
) -> None:
    (redis / "more").write_text("more")
    elsewhere.import_("zookeeper:3", redis)
    with pytest.raises(ImageStoreError, match=r"another zookeeper:3 here, with the digest .* --replace"):
        list(import_bundle(bundle, elsewhere))
    assert names(elsewhere) == ["zookeeper:3"]  # Not the one before it either.
    brought = dict(import_bundle(bundle, elsewhere, replace=True))
    assert brought["zookeeper:3"] is not None
    root = elsewhere.resolve("zookeeper:3").root
    assert root is not None
    assert not (root / "more").exists()


def test_the_same_files_with_another_entrypoint_are_another_image(
    elsewhere: ImageStore, bundle: Path, redis: Path
) -> None:
    elsewhere.import_("quay.io/team/redis:7", redis, ImageManifest(entrypoint=("bin/other",)))
    with pytest.raises(ImageStoreError, match="with other entrypoint, cmd, env"):
        list(import_bundle(bundle, elsewhere))
    list(import_bundle(bundle, elsewhere, replace=True))
    assert elsewhere.resolve("quay.io/team/redis:7").entrypoint == ("/opt/redis/bin/redis-server",)


REDIS = "quay.io%2Fteam%2Fredis%3A7"
LAST = "zookeeper%3A3"
NASTY: dict[str, tuple[Callable[[list[Member]], object], str]] = {
    "an absolute path": (lambda all_: all_.append(entry("/etc/passwd", b"x")), "not in its index"),
    "a path that leads out": (lambda all_: all_.append(entry(f"{LAST}/../../x", b"x")), "leads out"),
    "a path beside the images": (lambda all_: all_.append(entry("../x", b"x")), "not in its index"),
    "a link that leads out": (
        lambda all_: all_.append(entry(f"{LAST}/up", type=tarfile.SYMTYPE, linkname="../../names")),
        "leads out of the image",
    ),
    "an absolute link": (
        lambda all_: all_.append(entry(f"{LAST}/up", type=tarfile.SYMTYPE, linkname="/etc")),
        "leads out of the image",
    ),
    "a file through a link": (
        lambda all_: all_.extend(
            [
                entry(f"{LAST}/to", type=tarfile.SYMTYPE, linkname="bin"),
                entry(f"{LAST}/to/x", b"x"),
            ]
        ),
        "goes through the link",
    ),
    "a hard link to another image": (
        lambda all_: all_.append(entry(f"{LAST}/l", type=tarfile.LNKTYPE, linkname=f"../{REDIS}/long")),
        "leads out",
    ),
    "a device": (lambda all_: all_.append(entry(f"{LAST}/d", type=tarfile.CHRTYPE)), "a device or pipe"),
    "another file": (lambda all_: all_.append(entry(f"{LAST}/x", b"x")), "damaged, or was changed"),
    "a file less": (lambda all_: all_.pop(), "damaged, or was changed"),
    "another content": (
        lambda all_: all_.__setitem__(-1, (all_[-1][0], b"z")),
        "damaged, or was changed",
    ),
    "another mode": (lambda all_: setattr(all_[-1][0], "mode", 0o777), "damaged, or was changed"),
    "an image that is not in the index": (
        lambda all_: all_.append(entry("a%3A1/x", b"x")),
        "not in its index",
    ),
    "an image that comes twice": (
        lambda all_: all_.append(entry(f"{REDIS}/x", b"x")),
        "not in its index",
    ),
    "an image without files": (
        lambda all_: all_.__setitem__(slice(None), [one for one in all_ if LAST not in one[0].name]),
        "it ends where the files of zookeeper:3 should be",
    ),
    "too many entries": (
        lambda all_: all_.extend(entry(f"{LAST}/{number}") for number in range(20)),
        "more than 20 entries",
    ),
    "too many bytes": (lambda all_: all_.append(entry(f"{LAST}/x", b"x" * 5000)), "more than 4000 bytes"),
    "a digest that is not the files'": (
        index_with(lambda index: index["images"][1].update(digest="sha256:" + "0" * 64)),
        "damaged, or was changed",
    ),
}
UNREADABLE: dict[str, tuple[Callable[[list[Member]], object], str]] = {
    "no index": (lambda all_: all_.pop(0), "does not begin with index.json"),
    "an index that is a link": (
        lambda all_: all_.__setitem__(0, entry("index.json", type=tarfile.SYMTYPE, linkname="/etc/passwd")),
        "does not begin with index.json",
    ),
    "an index without end": (
        lambda all_: all_.__setitem__(0, entry("index.json", b" " * (5 << 20))),
        "index.json has more than",
    ),
    "no json": (lambda all_: all_.__setitem__(0, entry("index.json", b"{")), "index.json can't be read"),
    "a later version": (index_with(lambda index: index.update(version=2)), "index.json can't be read"),
    "no images": (index_with(lambda index: index.update(images=[])), "has no images"),
    "an image twice": (
        index_with(lambda index: index.update(images=index["images"] * 2)),
        "has an image twice",
    ),
    "a name that is a path": (
        index_with(lambda index: index["images"][0].update(name="../../x:1")),
        "images[0]: '../../x:1' is not an image reference",
    ),
    "a name of the host's": (
        index_with(lambda index: index["images"][0].update(name="host/sh:1")),
        "programs of the node itself",
    ),
    "a name without a tag": (
        index_with(lambda index: index["images"][0].update(name="redis")),
        "'redis' has no tag",
    ),
    "a place over the machine's files": (
        index_with(lambda index: index["images"][1]["manifest"].update(mountAt="/usr")),
        "images[1]: mountAt: '/usr' would hide",
    ),
}


@pytest.mark.parametrize(("change", "said"), NASTY.values(), ids=NASTY.keys())
def test_a_nasty_image_is_not_brought_and_the_ones_before_it_stay(
    bundle: Path, tmp_path: Path, change: Callable[[list[Member]], object], said: str
) -> None:
    few = ImageStore(tmp_path / "few", ManualClock(0), UnpackLimits(entries=20, size=4000))
    with pytest.raises(UnpackError) as refused:
        list(import_bundle(rewritten(bundle, change), few))
    assert said in str(refused.value)
    whole = ["quay.io/team/redis:7", *(["zookeeper:3"] if "not in its index" in said else [])]
    assert names(few) == whole
    assert leftovers(tmp_path / "few") == []
    assert len(list((tmp_path / "few" / "bundles").iterdir())) == len(whole)


@pytest.mark.parametrize(("change", "said"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_nothing_is_brought_by_an_index_that_is_wrong(
    bundle: Path, elsewhere: ImageStore, change: Callable[[list[Member]], object], said: str
) -> None:
    with pytest.raises(UnpackError) as refused:
        list(import_bundle(rewritten(bundle, change), elsewhere))
    assert said in str(refused.value)
    assert names(elsewhere) == []


def test_a_bundle_that_was_cut_off_brings_whole_images_alone(
    library: ImageStore, elsewhere: ImageStore, tmp_path: Path
) -> None:
    for name in ("a:1", "b:1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "noise").write_bytes(os.urandom(200_000))
        library.import_(name, tmp_path / name)
    write_bundle(tmp_path / "images.tar.gz", ["a:1", "b:1"], library)
    whole = (tmp_path / "images.tar.gz").read_bytes()
    cut = tmp_path / "cut.tar.gz"
    for length, there in ((10, []), (100_000, []), (300_000, ["a:1"]), (len(whole), ["a:1", "b:1"])):
        cut.write_bytes(whole[:length])
        if there == ["a:1", "b:1"]:
            assert [record is None for _, record in import_bundle(cut, elsewhere)] == [True, False]
        else:
            with pytest.raises(UnpackError):
                list(import_bundle(cut, elsewhere))
        assert names(elsewhere) == there
        assert leftovers(tmp_path / "far" / "node" / "images") == []


def test_an_import_that_is_killed_leaves_nothing_that_counts(
    bundle: Path, elsewhere: ImageStore, tmp_path: Path
) -> None:
    folder = tmp_path / "far" / "node" / "images"
    killed = subprocess.run(
        [sys.executable, "-c", DIES, str(bundle), str(folder)], check=False, timeout=60, capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert len(list((folder / "bundles").iterdir())) == 1
    assert names(elsewhere) == []
    assert all(record is not None for _, record in import_bundle(bundle, elsewhere))
    assert len(list((folder / "bundles").iterdir())) == 2


def test_an_interrupted_import_goes_on_where_it_was(bundle: Path, elsewhere: ImageStore) -> None:
    first = import_bundle(bundle, elsewhere)
    assert next(first)[0] == "quay.io/team/redis:7"
    assert isinstance(first, Generator)
    first.close()
    assert names(elsewhere) == ["quay.io/team/redis:7"]
    assert [record is None for _, record in import_bundle(bundle, elsewhere)] == [True, False]


def test_the_command_line_says_what_it_brought(bundle: Path, tmp_path: Path) -> None:
    here, far, out = str(tmp_path / "data"), str(tmp_path / "far"), str(tmp_path / "out.tar.gz")
    made = pilothouse("image", "bundle", out, "zookeeper:3", "quay.io/team/redis:7", "--data", here)
    assert (made.returncode, made.stderr) == (0, "")
    first, second, last = made.stdout.splitlines()
    assert first.startswith("packed quay.io/team/redis:7: sha256:")
    assert second.startswith("packed zookeeper:3: sha256:")
    assert last.startswith(f"{out}: 2 images, ")
    done = pilothouse("image", "import-bundle", out, "--data", far)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("Warning: no node is running on "), "nobody uses the folder yet"
    assert done.stdout.splitlines() == [
        "imported quay.io/team/redis:7: 6 files, 12 B, seen by pods at /opt/redis",
        "imported zookeeper:3: 7 files, 12 B, seen by pods at /opt/zookeeper",
    ]
    again = pilothouse("image", "import-bundle", out, "--data", far)
    assert again.stdout == "quay.io/team/redis:7 already exists\nzookeeper:3 already exists\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("bundle", "OUT", "redis:8"),
            "was not written: there is no image redis:8; there are: quay.io/team/redis:7",
        ),
        (("bundle", "/nowhere/out", "zookeeper:3"), "was not written: /nowhere/"),
        (("bundle", "OUT"), "Missing argument 'NAME:TAG...'"),
        (("import-bundle", "/dev/zero"), "/dev/zero is not a file"),
        (("import-bundle", "SINGLE"), "(none of its images was): it does not begin with index.json"),
        (("import-bundle", "TEXT"), "text is not a readable bundle"),
    ],
)
def test_mistakes_are_told_in_one_line(
    bundle: Path, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "text").write_text("hello")
    files = {"OUT": "out.tar.gz", "SINGLE": "zookeeper.tar.gz", "TEXT": "text"}
    words = [str(tmp_path / files[word]) if word in files else word for word in arguments]
    done = pilothouse("image", *words, "--data", str(tmp_path / "data"))
    assert done.returncode != 0
    last = done.stderr.splitlines()[-1]
    assert last.startswith("Error: ")
    assert said in last
    assert "Traceback" not in done.stderr
