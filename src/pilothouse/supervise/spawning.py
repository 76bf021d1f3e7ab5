"""The shim's programs, spawned: a lean interpreter that is given its order in memory and answers in a pipe.

    subprocess.Popen(lean_command("life", str(folder)), stdin=in_memory(order), stdout=answer)

Nothing runs between fork and exec but C: `preexec_fn` is unsafe in a process with threads.
"""

from __future__ import annotations

import asyncio
import marshal
import os
import sys
from pathlib import Path
from typing import Any

import pilothouse


def lean_command(module: str, *arguments: str) -> list[str]:
    """A command that runs `main` of one of the shim's modules in the leanest interpreter there is."""
    home = Path(pilothouse.__file__).parent.parent
    code = f"import sys; sys.path.append({str(home)!r}); from pilothouse.supervise.shim.{module} import main; main()"
    return [sys.executable, "-I", "-S", "-c", code, *arguments]


def in_memory(order: dict[str, Any]) -> int:
    """A descriptor from which built-in values can be read, marshalled: the reader is this very interpreter's program."""
    descriptor = os.memfd_create("order", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        marshal.dump(order, file)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


async def read_all(descriptor: int, into: bytearray) -> None:
    """All that comes out of a pipe until its other end is closed; closes this end."""
    reader = asyncio.StreamReader()
    pipe = os.fdopen(descriptor, "rb", buffering=0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        while data := await reader.read(4096):
            into += data
    finally:
        transport.close()
