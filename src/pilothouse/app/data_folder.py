"""The data folder: everything that a control plane keeps on a machine.

    DATA/
      format             the number of the layout below
      instance           the name of the server among those that share its store
      admin.kubeconfig   for the administrator
      controller-manager.kubeconfig   for the controller-manager, which is not an administrator
      node.kubeconfig    for the node on this machine, if there is one
      node/              the node's data: pods, images, volumes
      pki/               authority, certificates and keys
      store/             the objects, where they are stored in SQLite

A program refuses a folder with a newer layout, before it touches anything, and migrates one with an older:
``STEPS[0]`` leads from layout 1 to 2, and so on. A step that is interrupted is repeated, so each must be
idempotent; the number is written after it.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from pilothouse.app.options import StartError, data_path_problem
from pilothouse.base.uids import new_uid
from pilothouse.pki.private_files import private_folder, write_private

Step = Callable[[Path], None]
STEPS: tuple[Step, ...] = ()
"""Empty: there is only one layout so far."""


class DataFolder:
    """A data folder with the current layout."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pki = path / "pki"
        self.store = path / "store"
        self.admin_kubeconfig = path / "admin.kubeconfig"
        self.manager_kubeconfig = path / "controller-manager.kubeconfig"
        self.node_kubeconfig = path / "node.kubeconfig"
        self.node = path / "node"
        """The data of the node on this machine."""
        self.node_serving = self.node / "serving" / "serving.pem"
        """Certificate and key of that node's own server."""

    def instance(self) -> str:
        """The name of the server on this folder: the host name and a random suffix, created at first use."""
        file = self.path / "instance"
        if not file.exists():
            write_private(file, f"{socket.gethostname()}-{new_uid()[:8]}\n".encode())
        return file.read_text().strip()

    @classmethod
    def open(cls, path: Path, steps: Sequence[Step] = STEPS) -> DataFolder:
        """Create the folder if it does not exist, check that it is a data folder, and migrate it."""
        mark = path / "format"
        try:
            if problem := data_path_problem(path):
                raise StartError(problem)
            if mark.exists():
                _migrate(mark, steps)
            elif path.exists():
                _refuse_foreign(path)
            private_folder(path)
            if not mark.exists():
                cls(path).mark(steps)
        except OSError as error:
            raise StartError(f"the data folder {path} can't be used: {error.strerror or error}") from None
        return cls(path)

    def mark(self, steps: Sequence[Step] = STEPS) -> None:
        """Mark it as a data folder with the newest layout."""
        _write_mark(self.path / "format", 1 + len(steps))


def _migrate(mark: Path, steps: Sequence[Step]) -> None:
    text = mark.read_text(errors="replace").strip()
    newest = 1 + len(steps)
    if not text.isdecimal() or int(text) < 1:
        raise StartError(f"{mark} should hold a number, not {text[:20]!r}")
    if int(text) > newest:
        raise StartError(
            f"{mark.parent} has the data format {text}, this program knows formats up to {newest}; "
            "run the newer pilothouse that wrote it"
        )
    for number, step in enumerate(steps[int(text) - 1 :], int(text) + 1):
        step(mark.parent)
        _write_mark(mark, number)


def _write_mark(mark: Path, number: int) -> None:
    write_private(mark, f"{number}\n".encode())


def _refuse_foreign(path: Path) -> None:
    """A folder with other files is most likely a typo, and would become private."""
    others = sorted(
        entry.name
        for entry in path.iterdir()
        if entry.name != "lost+found" and not _holds_images_alone(entry)
    )
    if others:
        shown = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
        raise StartError(
            f"{path} is not empty and has no file named format ({shown}); choose an empty folder or one that "
            "does not exist"
        )


def _holds_images_alone(entry: Path) -> bool:
    """Images may be imported before the first start."""
    return entry.name == "node" and entry.is_dir() and all(each.name == "images" for each in entry.iterdir())
