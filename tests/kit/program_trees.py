"""Payloads of trees: archives as `make payload` makes them, with a program of a few lines.

payload("v2.0.0", "#!/bin/sh\necho v2.0.0 $@\n")                # the bytes of an archive
payload("v2.0.0", SCRIPT, entries=[link("x", "/etc")])          # with further entries
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

from pilothouse.node.updating.installed_tree import InstalledTree, install_launcher

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
Entry = tuple[tarfile.TarInfo, bytes]


def entry(name: str, content: bytes = b"", *, kind: bytes = tarfile.REGTYPE, link: str = "") -> Entry:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode, info.linkname = kind, len(content), 0o755, link
    return info, content


def link(name: str, target: str) -> Entry:
    return entry(name, kind=tarfile.SYMTYPE, link=target)


def manifest(version: str, python: str = PYTHON) -> Entry:
    return entry("payload.json", json.dumps({"version": version, "python": python}).encode())


def archive(entries: Iterable[Entry]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as packed:
        for info, content in entries:
            packed.addfile(info, io.BytesIO(content))
    return out.getvalue()


def payload(version: str, script: str, *, entries: Iterable[Entry] = ()) -> bytes:
    return archive([entry("bin/pilothouse", script.encode()), manifest(version), *entries])


async def stage(files: InstalledTree, version: str, content: bytes) -> str:
    """Download and unpack; returns the digest."""
    files.download.parent.mkdir(parents=True, exist_ok=True)
    files.download.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    await files.stage(version, digest)
    return digest


async def installed(root: Path, version: str, content: bytes) -> InstalledTree:
    """A root with one version, and the launcher."""
    files = InstalledTree(root)
    await stage(files, version, content)
    await files.swap()
    await files.confirm()
    install_launcher(root)
    return files
