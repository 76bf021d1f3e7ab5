"""Air-gap bundles: several images in one file, for machines without a network.

    write_bundle(Path("images.tar.gz"), ["redis:7.2", "postgres:15"], library)
    for name, record in import_bundle(Path("images.tar.gz"), elsewhere):
        print(name, "brought" if record else "was here")

A bundle is a tar archive. ``index.json`` comes first: each image's name, digest, and what is said of its program. The files follow in
the order of the index, each image's below a folder with its name:

    index.json
    redis%3A7.2/bin/redis-server

The digest is that of the files' names and contents, as of a folder that is imported. It is taken again from what came onto the disk, and that is the
image's digest from then on: the digest of an archive that the image once came in could not be checked here, and a pod that
asks for a digest must get nothing else. With the same zlib, the same images make the same bundle to the byte.

An image is there as a whole or not at all; those before it stay, and are passed over when the bundle is brought once more.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Final, Literal
from urllib.parse import quote

import msgspec

from pilothouse.node.images.archives import open_tar
from pilothouse.node.images.image_manifest import ImageManifest, ManifestError, settled
from pilothouse.node.images.image_references import ImageReferenceError, parse_image_reference
from pilothouse.node.images.image_store import ImageRecord, ImageStore, ImageStoreError, importable
from pilothouse.node.images.unpacking import (
    DAMAGED,
    ArchiveEntry,
    Unpacked,
    UnpackError,
    UnpackLimits,
    folder_digest,
    folder_entries,
    tar_entries,
    unpack_entries,
)

INDEX: Final = "index.json"
_LONGEST_INDEX: Final = 4 << 20
_TYPES: Final = {"file": tarfile.REGTYPE, "folder": tarfile.DIRTYPE, "symlink": tarfile.SYMTYPE}


class BundledImage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An image, as the index has it."""

    name: str
    digest: str
    manifest: ImageManifest

    @property
    def folder(self) -> str:
        """Where its files are in the bundle."""
        return quote(self.name, safe="")


class BundleIndex(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is in a bundle."""

    version: Literal[1]
    images: tuple[BundledImage, ...]


def write_bundle(target: Path, names: Sequence[str], library: ImageStore) -> BundleIndex:
    """Write images of the library into one file, which is there when all of it is.

    Raises ImageStoreError, ImageReferenceError, ImageMissing, or OSError.
    """
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with library.turn(), draft.open("wb") as out:
            roots = _roots(names, library)
            index = BundleIndex(
                1,
                tuple(BundledImage(each.name, folder_digest(root), each.manifest) for each, root in roots),
            )
            # Neither time nor name of the file in its head.
            with (
                gzip.GzipFile("", "wb", 6, out, mtime=0) as packed,
                tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
            ):
                content = msgspec.json.format(msgspec.json.encode(index, order="deterministic"))
                archive.addfile(_member(INDEX, len(content)), io.BytesIO(content))
                for listed, (_, root) in zip(index.images, roots, strict=True):
                    for entry in folder_entries(root):
                        _add(archive, listed, root, entry)
            out.flush()
            os.fsync(out.fileno())
        draft.rename(target)
    finally:
        draft.unlink(missing_ok=True)
    return index


def import_bundle(
    source: Path, library: ImageStore, *, replace: bool = False
) -> Iterator[tuple[str, ImageRecord | None]]:
    """Take in the images of a bundle, one after the other; with each name comes its record, or None if it was here already.

    What is here under the same name with other files or another manifest stays, and nothing at all is taken in, unless ``replace``.
    Raises ImageStoreError, UnpackError, ImageMissing, or OSError.
    """
    if not source.is_file():
        raise ImageStoreError(f"{source} is not a file")
    try:
        with open_tar(source) as archive:
            entries = tar_entries(archive)
            index = _read_index(next(entries, None))
            here = {each.name for each in index.images if _is_here(each, library, replace=replace)}
            groups = groupby(entries, _top)
            for listed in index.images:
                top, files = next(groups, ("", iter(())))
                if top != listed.folder:
                    found = f"{top!r} is" if top else "it ends"
                    raise UnpackError(
                        f"{found} where the files of {listed.name} should be, in {listed.folder}"
                    )
                if listed.name in here:
                    _pass_over(listed, files, library.limits)
                    yield listed.name, None
                else:
                    yield listed.name, _take(listed, files, library)
            if (more := next(groups, None)) is not None:
                raise UnpackError(f"{more[0]!r} is in it, but not in its index")
    except DAMAGED as problem:
        why = str(problem).partition("\n")[0].rstrip(":")
        raise UnpackError(f"{source.name} is not a readable bundle: {why}") from None


def _roots(names: Sequence[str], library: ImageStore) -> list[tuple[ImageRecord, Path]]:
    known = {record.name: record for record in library.list()}
    found = []
    for name in sorted({importable(text).full for text in names}):
        if name not in known:
            raise ImageStoreError(f"there is no image {name}; there are: {', '.join(known) or 'none'}")
        root = library.resolve(name).root
        assert root is not None  # It is no program of the host.
        found.append((known[name], root))
    return found


def _member(path: str, size: int = 0) -> tarfile.TarInfo:
    """Without owner and time: they are those of the machine that packs, and nobody's where it is unpacked."""
    member = tarfile.TarInfo(path)
    member.size = size
    return member


def _add(archive: tarfile.TarFile, listed: BundledImage, root: Path, entry: ArchiveEntry) -> None:
    if entry.kind not in _TYPES:
        raise ImageStoreError(
            f"{root / entry.path} is {entry.kind}; an image has files, folders and links alone"
        )
    member = _member(f"{listed.folder}/{entry.path}")
    member.type, member.mode, member.linkname = _TYPES[entry.kind], entry.mode & 0o777, entry.link
    if entry.content is None:
        archive.addfile(member)
        return
    with entry.content() as content:
        member.size = os.fstat(content.fileno()).st_size
        archive.addfile(member, content)


def _top(entry: ArchiveEntry) -> str:
    return next(iter(PurePosixPath(entry.path).parts), ".")


def _read_index(first: ArchiveEntry | None) -> BundleIndex:
    if first is None or first.path != INDEX or first.content is None:
        raise UnpackError(
            f"it does not begin with {INDEX}, as bundles do. A single image: pilothouse image import NAME:TAG FILE"
        )
    with first.content() as file:
        content = file.read(_LONGEST_INDEX + 1)
    if len(content) > _LONGEST_INDEX:
        raise UnpackError(f"{INDEX} has more than {_LONGEST_INDEX} bytes")
    try:
        index = msgspec.json.decode(content, type=BundleIndex)
    except msgspec.MsgspecError as problem:
        raise UnpackError(f"{INDEX} can't be read: {problem}") from None
    if not index.images:
        raise UnpackError(f"{INDEX} has no images")
    for number, listed in enumerate(index.images):
        try:
            if importable(listed.name).full != listed.name:
                raise ImageReferenceError(f"{listed.name!r} has no tag")
            settled(listed.manifest, parse_image_reference(listed.name), ())
        except (ImageReferenceError, ManifestError) as problem:
            raise UnpackError(f"{INDEX}: images[{number}]: {problem}") from None
    if len({listed.name for listed in index.images}) < len(index.images):
        raise UnpackError(f"{INDEX} has an image twice")
    return index


def _is_here(listed: BundledImage, library: ImageStore, *, replace: bool) -> bool:
    """Whether the library has the image. Raises ImageStoreError if it has another one of this name."""
    record = next((each for each in library.list() if each.name == listed.name), None)
    if record is None:
        return False
    if replace and record.digest != listed.digest:
        return False
    root = library.resolve(listed.name).root
    assert root is not None  # It is no program of the host.
    # What came in an archive has the digest of that: then the files tell.
    same_files = record.digest == listed.digest or folder_digest(root) == listed.digest
    said = settled(listed.manifest, parse_image_reference(listed.name), os.listdir(root))
    if same_files and record.manifest == said:
        return True
    if replace:
        return False
    what = (
        "with other entrypoint, cmd, env, user, workingDir or mountAt"
        if same_files
        else f"with the digest {record.digest}, where the bundle's has {listed.digest}"
    )
    raise ImageStoreError(
        f"there is another {listed.name} here, {what}; --replace puts the bundle's in its place"
    )


def _pass_over(listed: BundledImage, files: Iterator[ArchiveEntry], limits: UnpackLimits) -> None:
    for number, _ in enumerate(files):
        if number >= limits.entries:
            raise UnpackError(f"{listed.name}: it has more than {limits.entries} entries")


def _take(listed: BundledImage, files: Iterator[ArchiveEntry], library: ImageStore) -> ImageRecord:
    def fill(incoming: Path) -> tuple[Unpacked, ImageManifest]:
        unpacked = unpack_entries(files, incoming, library.limits, strip=1)
        if unpacked.digest != listed.digest:
            raise UnpackError(
                f"its files have the digest {unpacked.digest} where {INDEX} says {listed.digest}: "
                "the bundle is damaged, or was changed"
            )
        return unpacked, listed.manifest

    try:
        return library.add(parse_image_reference(listed.name), fill)
    except (UnpackError, ManifestError) as problem:
        raise UnpackError(f"{listed.name}: {problem}") from None
