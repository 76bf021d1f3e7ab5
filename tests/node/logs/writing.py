"""A log as a shim writes it: records in the CRI format, the newest in ``log``, older ones in ``log.1``, ``log.2``…"""

from __future__ import annotations

from pathlib import Path


def record(text: str, *, stream: str = "stdout", tag: str = "F", second: int = 0) -> bytes:
    """A record of so many seconds after ten o'clock."""
    return f"2026-11-15T10:{second // 60:02d}:{second % 60:02d}.000000000Z {stream} {tag} {text}\n".encode()


class Log:
    """Writes and rotates, and never looks back."""

    def __init__(self, path: Path, files: int = 5) -> None:
        self.path = path
        self._files = files
        self.lines = 0

    def write(self, count: int) -> None:
        """So many more lines, each with its number, one a second."""
        with self.path.open("ab") as file:
            for _ in range(count):
                file.write(record(f"line {self.lines}", second=self.lines))
                self.lines += 1

    def append(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

    def rotate(self) -> None:
        self._at(self._files - 1).unlink(missing_ok=True)
        for number in range(self._files - 2, -1, -1):
            if self._at(number).exists():
                self._at(number).rename(self._at(number + 1))
        self.path.touch()

    def _at(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}") if number else self.path


def told(first: int, end: int) -> bytes:
    """The text of those lines."""
    return b"".join(b"line %d\n" % number for number in range(first, end))
