"""kubectl as a person uses it: at a terminal.

async with on_a_terminal(kubectl, "exec", "-it", "web", "--", "sh") as terminal:
    await terminal.type("ls\n")
    await terminal.until("etc")
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import struct
import termios
from collections.abc import AsyncIterator
from dataclasses import dataclass

from tests.kit.kubectl import Kubectl

PATIENCE = 30.0


@dataclass
class Terminal:
    """The person's side."""

    main: int
    process: asyncio.subprocess.Process
    reader: asyncio.StreamReader
    seen: str = ""

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.main, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process.send_signal(signal.SIGWINCH)

    async def type(self, text: str) -> None:
        os.write(self.main, text.encode())

    async def until(self, text: str) -> None:
        """What is seen has this in it."""
        try:
            async with asyncio.timeout(PATIENCE):
                while text not in self.seen:
                    data = await self.reader.read(4096)
                    assert data, f"ended without {text!r}: {self.seen!r}"
                    self.seen += data.decode(errors="replace")
        except TimeoutError:
            raise AssertionError(f"{text!r} did not come; there is {self.seen!r}") from None

    async def code(self) -> int:
        return await asyncio.wait_for(self.process.wait(), PATIENCE)


@contextlib.asynccontextmanager
async def on_a_terminal(
    kubectl: Kubectl, *args: str, rows: int = 24, columns: int = 80
) -> AsyncIterator[Terminal]:
    """A kubectl at a terminal of this size, ended with the block."""
    main, side = pty.openpty()
    fcntl.ioctl(main, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    kubectl.home.mkdir(parents=True, exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        str(kubectl.binary.path),
        *args,
        stdin=side,
        stdout=side,
        stderr=side,
        start_new_session=True,
        env={
            "HOME": str(kubectl.home),
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(kubectl.kubeconfig),
            "TERM": "xterm",
        },
    )
    os.close(side)
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(main), "rb", buffering=0)
    )
    try:
        yield Terminal(main, process, reader)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        transport.close()
        os.close(main)
