"""The image store of a node, in a directory.

    images = ImageStore(Path("/var/lib/pilothouse/images"), SystemClock())
    images.import_("redis:7.2", Path("redis.tar.gz"))
    images.resolve("docker.io/library/redis:7.2").root
    images.resolve("host/redis-server").entrypoint      # ("/usr/bin/redis-server",)

    names/redis%3A7.2.json          the record of an image, and its bundle
    bundles/<id>/                   the files
    incoming/<id>/                  an unfinished import

The record is written last, so an interrupted import leaves only waste, which the next one removes. Importing
a name again replaces it at once; the old files go when no running container has them mounted. Writers hold a
lock on the directory; readers need none.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.base.uids import new_uid
from pilothouse.node.containers.environment import OWN_PROGRAMS, PATH
from pilothouse.node.files.directory_handles import open_directory, open_regular, remove_tree
from pilothouse.node.images.image_manifest import (
    MANIFEST,
    ImageManifest,
    ManifestError,
    read_manifest,
    settled,
)
from pilothouse.node.images.image_references import (
    ImageReference,
    ImageReferenceError,
    host_program,
    parse_image_reference,
)
from pilothouse.node.images.image_users import describe_users
from pilothouse.node.images.unpacking import Unpacked, UnpackLimits, unpack
from pilothouse.node.interfaces import Image, ImageMissing, StoredImage
from pilothouse.supervise.shim.rootfs import PROGRAMS

_USUAL: Final = Path("/var/lib/pilothouse")
_LONGEST_MANIFEST: Final = 1 << 20
_SEARCHED: Final = f"{PATH}:{OWN_PROGRAMS}"

log = logging.getLogger(__name__)


class ImageStoreError(Exception):
    """An image can't be imported or removed."""


class ImageRecord(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    bundle: str
    digest: str
    size: int
    entries: int
    imported: str
    manifest: ImageManifest


class ImageStore:
    """Implements ``interfaces.ImageSource``."""

    def __init__(
        self, folder: Path, clock: Clock, limits: UnpackLimits = UnpackLimits(), *, seen: Sequence[str] = ()
    ) -> None:
        """``seen``: paths of the machine that containers see beside its programs and libraries."""
        self._folder = folder
        self._seen = (*(f"/{name}" for name in PROGRAMS), *seen)
        self._clock = clock
        self.limits = limits

    @property
    def folder(self) -> Path:
        """Where its images are."""
        return self._folder

    def resolve(self, text: str) -> Image:
        """Raises ImageMissing, whose message says how to import the image."""
        if (program := host_program(text)) is not None:
            return self._of_host(text, program)
        try:
            wanted = parse_image_reference(text)
        except ImageReferenceError as problem:
            raise ImageMissing(str(problem), reason="InvalidImageName") from None
        other: ImageRecord | None = None
        for name in dict.fromkeys((wanted.full, wanted.short)):
            record = self._record(name)
            if record is None:
                continue
            if not wanted.digest or wanted.digest == record.digest:
                return self._image(record)
            other = other or record
        if other is not None:
            raise ImageMissing(
                f"image {text} is not on this node: {other.name} is, with the digest {other.digest}. "
                f"Import the right one, or leave the digest out: {self._command(wanted)}"
            )
        raise ImageMissing(
            f"image {text} is not on this node, and nodes do not pull images. Import it: "
            f"{self._command(wanted)}"
        )

    def _of_host(self, text: str, program: str) -> Image:
        """Paths that containers don't see are not looked up: pods must not learn what is there."""
        if "/" not in program:
            path, where = shutil.which(program, path=_SEARCHED), f"there is none in {_SEARCHED}"
        else:
            # Normalised first, since ``..`` could lead elsewhere.
            place = os.path.normpath(f"/{program}")
            is_seen = any(place == each or place.startswith(f"{each}/") for each in self._seen)
            path = shutil.which(place) if is_seen else None
            where = (
                f"containers see none at {place}: of the machine they see /usr and the like, and what the "
                "node's --expose-path names"
            )
        if path is None:
            raise ImageMissing(f"image {text} is a program of the node, and {where}. Install it on the node.")
        return Image(text, entrypoint=(path,))

    def list(self) -> list[ImageRecord]:
        names = sorted((self._folder / "names").glob("*.json")) if self._folder.exists() else []
        return sorted(filter(None, map(self._read, names)), key=lambda record: record.name)

    def stored(self) -> Sequence[StoredImage]:
        """All images as a Node lists them, the largest first."""
        try:
            records = self.list()
        except ImageMissing as problem:
            log.warning("the images of this node can't be listed: %s", problem)
            return ()
        return [
            StoredImage((f"{record.name.rpartition(':')[0]}@{record.digest}", record.name), record.size)
            for record in sorted(records, key=lambda each: (-each.size, each.name))
        ]

    def revision(self) -> int:
        """Changes with every import and removal, as each renames or unlinks a file in ``names``."""
        try:
            return (self._folder / "names").stat().st_mtime_ns
        except OSError:
            return 0

    def import_(
        self, text: str, source: Path, overrides: ImageManifest = ImageManifest(), *, strip: int = 0
    ) -> ImageRecord:
        """Import an archive or a directory under a name; ``overrides`` take precedence over its own manifest.

        Raises ImageStoreError, ImageReferenceError, UnpackError, ManifestError, or OSError.
        """
        wanted = importable(text)
        if not source.exists():
            raise ImageStoreError(f"{source} does not exist")
        if not source.is_file() and not source.is_dir():
            # It might have no end, or never begin.
            raise ImageStoreError(f"{source} is neither a file nor a folder")

        def fill(incoming: Path) -> tuple[Unpacked, ImageManifest]:
            unpacked = unpack(source, incoming, self.limits, strip=strip)
            return unpacked, overrides.over(_manifest_in(incoming))

        return self.add(wanted, fill)

    def add(
        self, wanted: ImageReference, fill: Callable[[Path], tuple[Unpacked, ImageManifest]]
    ) -> ImageRecord:
        """Import what ``fill`` puts into an empty directory. If it raises, nothing is left."""
        with self.locked():
            self._sweep()
            incoming = self._folder / "incoming" / new_uid()
            incoming.mkdir(parents=True)
            incoming.chmod(0o755)  # Whatever the umask: pods' users are others than ours.
            try:
                unpacked, manifest = fill(incoming)
                manifest = settled(manifest, wanted, os.listdir(incoming))
            except BaseException:
                _remove(incoming)
                raise
            _sync(incoming)
            bundle = self._folder / "bundles" / incoming.name
            bundle.parent.mkdir(exist_ok=True)
            incoming.rename(bundle)
            record = ImageRecord(
                wanted.full,
                bundle.name,
                unpacked.digest,
                unpacked.size,
                unpacked.entries,
                format_time(self._clock.now()),
                manifest,
            )
            self._write(record)
            self._sweep()
            return record

    def remove(self, text: str) -> ImageRecord:
        """Remove an image. Raises ImageStoreError if it is missing or in use."""
        wanted = parse_image_reference(text)
        with self.locked():
            record = self._record(wanted.full)
            if record is None:
                known = ", ".join(each.name for each in self.list()) or "none"
                raise ImageStoreError(f"there is no image {wanted.full}; there are: {known}")
            if users := mounted_by(self._folder / "bundles" / record.bundle):
                raise ImageStoreError(f"image {wanted.full} is in use by {describe_users(users)}")
            self._name(record.name).unlink()
            self._sweep()
            return record

    @contextmanager
    def locked(self) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        with (self._folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _command(self, wanted: ImageReference) -> str:
        data = self._folder.absolute().parent.parent
        where = f" --data {shlex.quote(str(data))}" if data != _USUAL else ""
        command = f"pilothouse image import {wanted.short} FILE.tar.gz{where}"
        hint = "(with --strip-components 1 if all of the archive is in one folder)"
        return f"{command} {hint}; the container then starts by itself"

    def only_folder(self, record: ImageRecord) -> str:
        """The one directory that holds all of an image's files; empty if its top has more than that."""
        found = list((self._folder / "bundles" / record.bundle).iterdir())
        return found[0].name if len(found) == 1 and found[0].is_dir() and not found[0].is_symlink() else ""

    def _image(self, record: ImageRecord) -> Image:
        root = self._folder / "bundles" / record.bundle
        if not os.access(root, os.R_OK | os.X_OK):
            raise ImageMissing(f"image {record.name} is on this node, but its files in {root} can't be read")
        return Image(record.name, root, digest=record.digest, **msgspec.structs.asdict(record.manifest))

    def _record(self, name: str) -> ImageRecord | None:
        return self._read(self._name(name))

    def _name(self, name: str) -> Path:
        return self._folder / "names" / f"{quote(name, safe='')}.json"

    def _read(self, file: Path) -> ImageRecord | None:
        try:
            return msgspec.json.decode(file.read_bytes(), type=ImageRecord)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as problem:
            raise ImageMissing(f"the image folder can't be read: {file}: {problem}") from None

    def _write(self, record: ImageRecord) -> None:
        file = self._name(record.name)
        file.parent.mkdir(exist_ok=True)
        draft = file.with_suffix(".draft")
        with draft.open("wb") as out:
            out.write(msgspec.json.format(msgspec.json.encode(record)))
            out.flush()
            os.fsync(out.fileno())
        draft.rename(file)

    def _sweep(self) -> None:
        """Remove unfinished imports, and bundles without a record that no container uses."""
        named = {record.bundle for record in self.list()}
        for left in (self._folder / "incoming").glob("*"):
            _remove(left)
        for bundle in (self._folder / "bundles").glob("*"):
            if bundle.name not in named and not mounted_by(bundle):
                _remove(bundle)


def importable(text: str) -> ImageReference:
    """The reference under which an image can be imported. Raises ImageReferenceError."""
    wanted = parse_image_reference(text)
    if wanted.digest:
        problem = "an image is imported under a NAME:TAG; its digest follows from its content"
        raise ImageReferenceError(f"{text!r}: {problem}")
    if host_program(text) is not None:
        raise ImageReferenceError(f"{text!r}: names that begin with host/ are programs of the node itself")
    return wanted


def mounted_by(bundle: Path) -> list[int]:
    """The processes that have the files of a bundle mounted, as far as we may inspect them."""
    name = bundle.name.encode()  # A random identifier, which no other mount contains.
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                mounts = (process / "mountinfo").read_bytes()
            except OSError:
                continue  # It has ended, or is another user's.
            if name in mounts:
                found.append(int(process.name))
    return sorted(found)


def _manifest_in(bundle: Path) -> ImageManifest:
    try:
        with open_regular(bundle / MANIFEST) as file:
            content = file.read(_LONGEST_MANIFEST + 1)
    except OSError:
        return ImageManifest()  # Missing, or no regular file.
    if len(content) > _LONGEST_MANIFEST:
        raise ManifestError(f"{MANIFEST} has more than {_LONGEST_MANIFEST} bytes")
    return read_manifest(content, MANIFEST)


def _sync(folder: Path) -> None:
    """Write the files to the disk before their record."""
    with open_directory(folder) as handle:
        os.fsync(handle)
        os.sync()


def _remove(folder: Path) -> None:
    """Remove a directory, whatever the modes of its content."""
    with open_directory(folder.parent, follow=True) as above:
        remove_tree(above, folder.name)
