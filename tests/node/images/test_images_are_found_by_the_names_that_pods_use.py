from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest
from tests.kit.images import image_folder

from pilothouse.base.clock import ManualClock
from pilothouse.node.images.image_manifest import ImageManifest, ManifestError
from pilothouse.node.images.image_references import ImageReferenceError, host_program, parse_image_reference
from pilothouse.node.images.image_store import ImageStore, ImageStoreError
from pilothouse.node.images.unpacking import UnpackError
from pilothouse.node.interfaces import ImageMissing


@pytest.fixture
def library(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "images", ManualClock(1_700_000_000))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return image_folder(
        tmp_path / "source",
        "bin/server",
        "exec sleep 1000",
        entrypoint=["bin/server"],
        cmd=["--port", "1"],
        env={"LANG": "C"},
        user="7:8",
        workingDir="/data",
    )


@pytest.mark.parametrize(
    ("text", "full", "short"),
    [
        ("redis", "redis:latest", "redis:latest"),
        ("redis:7", "redis:7", "redis:7"),
        ("quay.io/team/redis:7.2", "quay.io/team/redis:7.2", "redis:7.2"),
        ("localhost:5000/redis", "localhost:5000/redis:latest", "redis:latest"),
        ("localhost:5000/a/redis:7", "localhost:5000/a/redis:7", "redis:7"),
    ],
)
def test_a_reference_has_a_name_and_a_tag(text: str, full: str, short: str) -> None:
    assert (parse_image_reference(text).full, parse_image_reference(text).short) == (full, short)


@pytest.mark.parametrize(
    "text", ["", ":7", "a b", "redis:", "redis:a/b:c/d", "../up:1", "a@sha256:12", "a" * 600]
)
def test_what_is_no_reference_is_told_so(text: str) -> None:
    with pytest.raises(ImageReferenceError, match="not an image reference"):
        parse_image_reference(text)


def test_programs_of_the_host_have_names_or_paths() -> None:
    assert host_program("host/redis-server") == "redis-server"
    assert host_program("host/redis-server:7") == "redis-server"
    assert host_program("host/usr/bin/env") == "usr/bin/env"
    assert host_program("redis:7") is None
    for text in ("host/", "host/:7"):
        assert host_program(text) is None
        with pytest.raises(ImageReferenceError):
            parse_image_reference(text)


def test_an_image_resolves_exactly_else_without_registry_and_path(library: ImageStore, source: Path) -> None:
    library.import_("redis:7", source)
    library.import_("quay.io/team/redis:7", source, ImageManifest(mount_at="/srv/redis"))
    assert library.resolve("quay.io/team/redis:7").mount_at == "/srv/redis"
    assert library.resolve("docker.io/library/redis:7").mount_at == "/opt/redis"
    assert library.resolve("redis:7").name == "redis:7"


def test_what_an_image_says_of_itself_is_spelt_out(library: ImageStore, source: Path) -> None:
    library.import_("redis:7", source)
    image = library.resolve("redis:7")
    assert image.entrypoint == ("/opt/redis/bin/server",)
    assert (image.cmd, image.user, image.working_dir) == (("--port", "1"), "7:8", "/data")
    assert image.env["LANG"] == "C"
    assert image.env["PATH"].startswith("/opt/redis/bin:/usr/local/sbin:")
    assert image.root is not None
    assert (image.root / "bin" / "server").exists()


def test_whoever_imports_has_the_last_word(library: ImageStore, source: Path) -> None:
    library.import_(
        "redis:7", source, ImageManifest(entrypoint=("/bin/true",), env={"A": "b"}, mount_at="/srv/x")
    )
    image = library.resolve("redis:7")
    assert (image.entrypoint, image.mount_at) == (("/bin/true",), "/srv/x")
    assert (image.env["A"], image.env["LANG"]) == ("b", "C")


def test_a_missing_image_names_the_command_that_would_bring_it(library: ImageStore) -> None:
    with pytest.raises(ImageMissing) as caught:
        library.resolve("quay.io/team/redis:7")
    assert caught.value.reason == "ErrImageNeverPull"
    assert "pilothouse image import redis:7 FILE.tar.gz" in caught.value.message


def test_nonsense_is_an_invalid_name(library: ImageStore) -> None:
    with pytest.raises(ImageMissing) as caught:
        library.resolve("not an image")
    assert caught.value.reason == "InvalidImageName"


def test_a_digest_is_kept(library: ImageStore, source: Path) -> None:
    record = library.import_("redis:7", source)
    assert library.resolve(f"redis:7@{record.digest}").digest == record.digest
    with pytest.raises(ImageMissing, match="with the digest"):
        library.resolve(f"redis:7@sha256:{'0' * 64}")


def test_a_program_of_the_host_is_found_or_said_to_be_missing(library: ImageStore) -> None:
    assert library.resolve("host/sh").entrypoint[0].endswith("/sh")
    assert library.resolve("host/sh").root is None
    assert library.resolve("host/bin/sh").entrypoint == ("/bin/sh",)
    with pytest.raises(ImageMissing, match="Install it on the node"):
        library.resolve("host/no-such-program")


def test_whether_a_program_is_there_that_containers_dont_see_is_not_told(tmp_path: Path) -> None:
    """A pod's author could else find out what is installed in folders that pods don't look into."""
    exposed, hidden = tmp_path / "exposed", tmp_path / "hidden"
    for folder in (exposed, hidden):
        folder.mkdir()
        (folder / "tool").write_text("#!/bin/sh\n")
        (folder / "tool").chmod(0o755)
    library = ImageStore(tmp_path / "images", ManualClock(1_700_000_000), seen=(str(exposed),))
    assert library.resolve(f"host{exposed}/tool").entrypoint == (f"{exposed}/tool",)

    def said(path: str) -> str:
        with pytest.raises(ImageMissing) as caught:
            library.resolve(f"host{path}")
        return caught.value.message.replace(path, "PATH").replace(os.path.normpath(path), "PATH")

    for there, absent in (
        (f"{hidden}/tool", f"{hidden}/none"),
        (f"{exposed}/../hidden/tool", f"{exposed}/../hidden/none"),
        (f"/usr/..{hidden}/tool", f"/usr/..{hidden}/none"),
        (f"{exposed}-not", f"{exposed}-none"),
    ):
        assert said(there) == said(absent)
    assert said(f"{exposed}/none") == said(f"{hidden}/tool")


def test_a_name_that_is_imported_again_means_the_new_files(
    library: ImageStore, source: Path, tmp_path: Path
) -> None:
    library.import_("redis:7", source)
    former = library.resolve("redis:7").root
    (source / "bin" / "server").write_text("#!/bin/bash\n")
    library.import_("redis:7", source)
    image = library.resolve("redis:7")
    assert image.root is not None
    assert (image.root / "bin" / "server").read_text() == "#!/bin/bash\n"
    assert former is not None
    assert not former.exists()
    assert len(library.list()) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (ImageManifest(mount_at="relative"), "is not an absolute path"),
        (ImageManifest(mount_at="/opt/../etc"), "is not an absolute path"),
        (ImageManifest(mount_at="/usr"), "would hide the node's own files"),
        (ImageManifest(mount_at="/"), "the image's /bin would hide what every pod has there"),
        (ImageManifest(working_dir="data"), "workingDir"),
    ],
)
def test_places_that_can_not_be_are_refused_and_leave_nothing(
    library: ImageStore, source: Path, given: ImageManifest, said: str
) -> None:
    with pytest.raises(ManifestError, match=said):
        library.import_("redis:7", source, given)
    assert library.list() == []


def test_a_manifest_with_unknown_fields_is_refused(library: ImageStore, source: Path) -> None:
    (source / "image.json").write_text('{"entrypont": []}')
    with pytest.raises(ManifestError, match="entrypont"):
        library.import_("redis:7", source)


def test_an_import_that_fails_leaves_what_was_there(
    library: ImageStore, source: Path, tmp_path: Path
) -> None:
    library.import_("redis:7", source)
    with tarfile.open(tmp_path / "bad.tar", "w") as archive:
        info = tarfile.TarInfo("link")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc"
        archive.addfile(info)
    with pytest.raises(UnpackError):
        library.import_("redis:7", tmp_path / "bad.tar")
    root = library.resolve("redis:7").root
    assert root is not None
    assert (root / "bin" / "server").exists()
    assert os.listdir(tmp_path / "images" / "incoming") == []


def test_an_import_that_was_cut_short_is_swept_up_by_the_next(
    library: ImageStore, source: Path, tmp_path: Path
) -> None:
    left = tmp_path / "images" / "incoming" / "11111111-2222"
    left.mkdir(parents=True)
    (left / "half").write_text("x")
    nameless = tmp_path / "images" / "bundles" / "33333333-4444"
    nameless.mkdir(parents=True)
    library.import_("redis:7", source)
    assert not left.exists()
    assert not nameless.exists()


def test_an_image_that_is_removed_is_missing(library: ImageStore, source: Path) -> None:
    library.import_("redis:7", source)
    library.remove("redis:7")
    with pytest.raises(ImageMissing):
        library.resolve("redis:7")
    with pytest.raises(ImageStoreError, match="there are: none"):
        library.remove("redis:7")


def test_an_image_folder_that_can_not_be_read_says_so(
    library: ImageStore, source: Path, tmp_path: Path
) -> None:
    library.import_("redis:7", source)
    (tmp_path / "images" / "names" / "redis%3A7.json").write_text("not json")
    with pytest.raises(ImageMissing, match="the image folder can't be read"):
        library.resolve("redis:7")
