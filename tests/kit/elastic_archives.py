"""An archive of Elasticsearch as Elastic's download page has it: a tar with a folder of the version's name, and a Java of its own.

archive = ordinary_archive(minimal, folder / "elasticsearch-8.17.0-linux-x86_64.tar.gz")

Its files are those of the minimal distribution, and its Java is the machine's, which says that it is called.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
import zipfile
from pathlib import Path

from pilothouse.node.containers.environment import PATH

BUNDLED_JAVA = "the Java of the archive"
_JAVA = f'#!/bin/sh\necho "{BUNDLED_JAVA}" >&2\nexec %s "$@"\n'


def ordinary_archive(minimal: Path, target: Path) -> Path:
    """The archive, and beside it a file with its checksum."""
    java = os.path.realpath(shutil.which("java", path=PATH) or "/usr/bin/java")
    with zipfile.ZipFile(minimal) as given, tarfile.open(target, "w:gz", compresslevel=1) as made:
        top = given.namelist()[0].partition("/")[0]
        for entry in given.infolist():
            content = given.read(entry)
            _add(made, entry.filename.rstrip("/"), content, entry.external_attr >> 16, folder=entry.is_dir())
        for name in ("jdk", "jdk/bin", "logs", "plugins"):
            _add(made, f"{top}/{name}", b"", 0o755, folder=True)
        _add(made, f"{top}/jdk/bin/java", (_JAVA % java).encode(), 0o755, folder=False)
    digest = hashlib.sha512(target.read_bytes()).hexdigest()
    target.with_name(f"{target.name}.sha512").write_text(f"{digest}  {target.name}\n")
    return target


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int, *, folder: bool) -> None:
    entry = tarfile.TarInfo(name)
    entry.mode = mode & 0o777 or (0o755 if folder else 0o644)
    entry.type = tarfile.DIRTYPE if folder else tarfile.REGTYPE
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))
