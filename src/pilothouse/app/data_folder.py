"""The data folder: everything that a control plane keeps on a machine.

    DATA/
      format             the number of the layout below
      instance           what the server is called among those that share its store
      admin.kubeconfig   the administrator's way in
      pki/               authority, certificates and keys
      store/             the objects, where they are stored in SQLite

A program that knows only older layouts refuses a newer folder, before it touches anything.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

from pilothouse.app.options import StartError
from pilothouse.base.ids import new_uid
from pilothouse.pki.files import private_folder, write_private

FORMAT = 1


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

    def instance(self) -> str:
        """What the server on this folder is called: the machine's name, and something of its own; made the first time."""
        file = self.path / "instance"
        if not file.exists():
            write_private(file, f"{socket.gethostname()}-{new_uid()[:8]}\n".encode())
        return file.read_text().strip()

    @classmethod
    def open(cls, path: Path) -> DataFolder:
        """Make the folder if need be, and see that it is one of ours."""
        mark = path / "format"
        try:
            if path.exists() and not path.is_dir():
                raise StartError(f"{path} is not a folder")
            if mark.exists():
                _check(mark)
            elif path.exists():
                _refuse_foreign(path)
            private_folder(path)
            if not mark.exists():
                cls(path).mark()
        except OSError as problem:
            raise StartError(f"the data folder {path} can't be used: {problem.strerror or problem}") from None
        return cls(path)

    def mark(self) -> None:
        """Make it one of ours."""
        write_private(self.path / "format", f"{FORMAT}\n".encode())


def _check(mark: Path) -> None:
    text = mark.read_text(errors="replace").strip()
    if not text.isdecimal():
        raise StartError(f"{mark} should hold a number, not {text[:20]!r}")
    if int(text) > FORMAT:
        raise StartError(
            f"{mark.parent} has the data format {text}, this program knows formats up to {FORMAT}; "
            "run the newer pilothouse that wrote it"
        )


def _refuse_foreign(path: Path) -> None:
    """A folder with other things in it is most likely a mistyped one, and would be closed to its users."""
    strangers = sorted(entry.name for entry in path.iterdir() if entry.name != "lost+found")
    if strangers:
        shown = ", ".join(strangers[:3]) + (", …" if len(strangers) > 3 else "")
        raise StartError(
            f"{path} is not empty and has no file named format ({shown}); choose an empty or a new folder"
        )
