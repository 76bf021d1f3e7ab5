"""A server that can be killed.

victim = Victim(folder, "sqlite")
victim.kill()
victim.revive()       # the same address and data, another process
"""

from __future__ import annotations

from pathlib import Path

from tests.kit.pilothouse_server import PilothouseServer


class Victim(PilothouseServer):
    def __init__(self, folder: Path, store: str, *, options: tuple[str, ...] = ()) -> None:
        super().__init__(folder, store)
        self._options = options
        if options:
            self.restart(*options)

    def kill(self) -> None:
        """SIGKILL: no handler runs, nothing is flushed, no connection is said goodbye to."""
        self.process.kill()

    def revive(self, *more: str) -> None:
        super().revive(*self._options, *more)
