"""The manifest of an image: its files, and how its program is started.

An archive or folder says the latter in a file ``image.json`` at its top; whoever imports it can say it too, and wins:

    {"entrypoint": ["bin/redis-server"], "cmd": ["/etc/redis.conf"], "env": {"LANG": "C.UTF-8"},
     "user": "999:999", "workingDir": "/data", "mountAt": "/opt/redis"}

A pod sees the files of the image at ``mountAt``, over the files of the node: by default ``/opt/NAME``. With ``/`` it sees each file and folder at
the image's top beside those of the node. A program in ``entrypoint`` that is given by a relative path is one of the image's files.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from pilothouse.node.containers.environment import PATH
from pilothouse.node.images.image_references import ImageReference
from pilothouse.supervise.shim.rootfs import DISK, FOLDERS, PROGRAMS

MANIFEST: Final = "image.json"
_RESERVED: Final = frozenset(f"/{name}" for name in ("dev", "etc", "proc", "sys", *PROGRAMS))
_TAKEN: Final = _RESERVED.union(f"/{name}" for name, _ in (*FOLDERS, *DISK))
"""What every container has at its root."""


class ManifestError(ValueError):
    """What an image says of itself can't be."""


class ImageManifest(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """What is said of an image's program."""

    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    env: dict[str, str] = {}
    user: str = ""
    working_dir: str = ""
    mount_at: str = ""

    def over(self, other: ImageManifest) -> ImageManifest:
        """This one, and the other's where this one says nothing."""
        said = {field: getattr(self, field) or getattr(other, field) for field in self.__struct_fields__}
        return ImageManifest(**{**said, "env": {**other.env, **self.env}})


class ImportedImage(msgspec.Struct, frozen=True):
    """An image that can be run: ``node.parts.Image``."""

    name: str
    root: Path | None = None
    mount_at: str = ""
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    env: dict[str, str] = {}
    user: str = ""
    working_dir: str = ""
    digest: str = ""


def read_manifest(content: bytes, where: str) -> ImageManifest:
    """Raises ManifestError."""
    try:
        return msgspec.json.decode(content, type=ImageManifest)
    except msgspec.MsgspecError as problem:
        known = ", ".join(field.encode_name for field in msgspec.structs.fields(ImageManifest))
        raise ManifestError(f"{where} can't be read: {problem}; it may have {known}") from None


def settled(manifest: ImageManifest, reference: ImageReference, top: Collection[str]) -> ImageManifest:
    """The manifest with all that follows from it spelt out; ``top`` names what is at the image's top. Raises ManifestError."""
    at = manifest.mount_at or f"/opt/{reference.name.rpartition('/')[2]}"
    folder = PurePosixPath(at)
    if not folder.is_absolute() or ".." in folder.parts:
        raise ManifestError(f"mountAt: {at!r} is not an absolute path without '..'")
    if str(folder) == "/" and (taken := _TAKEN.intersection(f"/{name}" for name in top)):
        raise ManifestError(
            f"mountAt: at '/' the image's {min(taken)} would hide what every pod has there; leave it out, or give a folder, as /opt/redis"
        )
    if str(folder) in _RESERVED:
        raise ManifestError(
            f"mountAt: {at!r} would hide the node's own files from the pod; give a folder of its own, as /opt/redis"
        )
    if manifest.working_dir and not manifest.working_dir.startswith("/"):
        raise ManifestError(f"workingDir: {manifest.working_dir!r} is not an absolute path")
    entrypoint = manifest.entrypoint
    if entrypoint and "/" in entrypoint[0] and not entrypoint[0].startswith("/"):
        entrypoint = (str(folder / entrypoint[0]), *entrypoint[1:])
    env = dict(manifest.env)
    if "bin" in top:
        env.setdefault("PATH", f"{folder}/bin:{PATH}")
    return msgspec.structs.replace(manifest, mount_at=str(folder), entrypoint=entrypoint, env=env)
