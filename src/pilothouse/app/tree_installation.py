"""Installs Pilothouse from a payload, in a folder from which update plans can update it.

tree = await install(Path("pilothouse-0.2.0-linux-amd64.tar.gz"), Path("/opt/pilothouse"))
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

from pilothouse.app.options import StartError
from pilothouse.node.files.directory_owners import why_replaceable
from pilothouse.node.images.unpacking import UnpackError
from pilothouse.node.updating.installed_tree import LAUNCHER, InstalledTree, install_launcher
from pilothouse.node.updating.tree_launcher import VERSIONS


def own_root() -> Path | None:
    """The folder that this program is installed in, as trees; None if it is installed in another way."""
    tree = Path(sys.prefix)
    root = tree.parent.parent
    return root if tree.parent.name == VERSIONS and (root / LAUNCHER).exists() else None


async def install(payload: Path, root: Path) -> Path:
    """Install a payload below a folder, with the launcher; returns the tree. A version that is there is kept.

    Raises StartError.
    """
    files = InstalledTree(root)
    try:
        sha256 = _copied(payload, root, files.download)
        if files.current() is not None:
            await files.keep()
        await files.stage("", sha256)
        await files.swap()
        await files.confirm()
        install_launcher(root)
    except UnpackError as problem:
        raise StartError(f"{payload}: {problem}") from None
    except OSError as problem:
        raise StartError(f"{problem.filename or root}: {problem.strerror or problem}") from None
    tree = files.current()
    assert tree is not None, "it was installed"
    return tree


def _copied(payload: Path, root: Path, download: Path) -> str:
    """Copy the payload below the root; returns its digest."""
    root.mkdir(mode=0o755, parents=True, exist_ok=True)
    if problem := why_replaceable(root, "the program"):
        raise StartError(problem)
    shutil.copyfile(payload, download)
    with download.open("rb") as copied:
        return hashlib.file_digest(copied, "sha256").hexdigest()
