"""The data folder: everything that a control plane keeps on a machine.

    DATA/
      format             the number of the layout below
      instance           what the server is called among those that share its store
      admin.kubeconfig   the administrator's way in
      controller-manager.kubeconfig   that of the controller-manager, who is no administrator
      node.kubeconfig    that of the node on this machine, where there is one
      node/              what the node keeps: pods, images, volumes
      pki/               authority, certificates and keys
      store/             the objects, where they are stored in SQLite

A program that knows only older layouts refuses a newer folder, before it touches anything. A newer one takes an older
folder a step at a time to the layout that it knows: `STEPS[0]` leads from layout 1 to 2, and so on. A step may be cut
short and is then taken again, so each must bear that; the number is written after it.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pilothouse.app.options import StartError
from pilothouse.base.uids import new_uid
from pilothouse.pki.private_files import private_folder, write_private

Step = Callable[[Path], None]
STEPS: tuple[Step, ...] = ()
"""No layout has been left behind yet."""


@dataclass(frozen=True)
class DataFolder:
    """A folder of the layout that this program knows."""

    path: Path

    @property
    def pki(self) -> Path:
        return self.path / "pki"

    @property
    def store(self) -> Path:
        return self.path / "store"

    @property
    def admin_kubeconfig(self) -> Path:
        return self.path / "admin.kubeconfig"

    @property
    def manager_kubeconfig(self) -> Path:
        return self.path / "controller-manager.kubeconfig"

    @property
    def node_kubeconfig(self) -> Path:
        return self.path / "node.kubeconfig"

    @property
    def node(self) -> Path:
        """What the node on this machine keeps."""
        return self.path / "node"

    @property
    def node_serving(self) -> Path:
        """Certificate and key of that node's own server."""
        return self.node / "serving" / "serving.pem"

    def instance(self) -> str:
        """What the server on this folder is called: the machine's name, and something of its own; made the first time."""
        file = self.path / "instance"
        if not file.exists():
            write_private(file, f"{socket.gethostname()}-{new_uid()[:8]}\n".encode())
        return file.read_text().strip()

    @classmethod
    def open(cls, path: Path, steps: Sequence[Step] = STEPS) -> DataFolder:
        """Make the folder if need be, see that it is one of ours, and bring it up to date."""
        mark = path / "format"
        try:
            if path.exists() and not path.is_dir():
                raise StartError(f"{path} is not a folder")
            if mark.exists():
                _bring_up(mark, steps)
            elif path.exists():
                _refuse_foreign(path)
            private_folder(path)
            if not mark.exists():
                cls(path).mark(steps)
        except OSError as problem:
            raise StartError(f"the data folder {path} can't be used: {problem.strerror or problem}") from None
        return cls(path)

    def mark(self, steps: Sequence[Step] = STEPS) -> None:
        """Make it one of ours, of the newest layout."""
        _write_mark(self.path / "format", 1 + len(steps))


def _bring_up(mark: Path, steps: Sequence[Step]) -> None:
    """Take a folder from the layout that it has to the newest one."""
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
    """A folder with other things in it is most likely a mistyped one, and would be closed to its users."""
    strangers = sorted(
        entry.name
        for entry in path.iterdir()
        if entry.name != "lost+found" and not _holds_images_alone(entry)
    )
    if strangers:
        shown = ", ".join(strangers[:3]) + (", …" if len(strangers) > 3 else "")
        raise StartError(
            f"{path} is not empty and has no file named format ({shown}); choose an empty or a new folder"
        )


def _holds_images_alone(entry: Path) -> bool:
    """Images may be brought before the first start."""
    return entry.name == "node" and entry.is_dir() and all(each.name == "images" for each in entry.iterdir())
