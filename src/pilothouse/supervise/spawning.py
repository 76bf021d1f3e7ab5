"""The shim's programs, spawned: a lean interpreter that is given its order in memory and answers in a pipe.

    subprocess.Popen(lean_command("life", str(folder)), stdin=in_memory(order), stdout=answer)

Nothing runs between fork and exec but C: `preexec_fn` is unsafe in a process with threads.
"""

from __future__ import annotations

import asyncio
import fcntl
import functools
import logging
import marshal
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pilothouse

_TRIAL_SECONDS = 10.0
_F_ADD_SEALS = 1033
_SEALS = 0x1 | 0x2 | 0x4 | 0x8
"""No further seals, nor a change of its size or content."""

log = logging.getLogger(__name__)


def lean_command(module: str, *arguments: str) -> list[str]:
    """A command that runs `main` of one of the shim's modules in the leanest interpreter there is."""
    home = Path(pilothouse.__file__).parent.parent
    code = f"import sys; sys.path.append({str(home)!r}); from pilothouse.supervise.shim.{module} import main; main()"
    return [sys.executable, "-I", "-S", "-c", code, *arguments]


def interpreter() -> str:
    """The path by which shims are started: our interpreter, or a sealed copy of it in memory.

    Until its program is loaded, a container's process runs the interpreter, and a program can ask for that by `/proc/self/exe`, whatever its
    view shows. An ordinary user's container is that user to the kernel: it could change the mode of the user's own interpreter. What it
    gets is the copy. Under root the interpreter is somebody else's. The copy is ours for as long as we live, and theirs who run it.
    """
    return sys.executable if os.geteuid() == 0 else _copied(sys.executable)


@functools.cache
def _copied(program: str) -> str:
    """The path of a sealed copy that runs; of the program itself if none does."""
    try:
        path = _sealed_copy(program)
        subprocess.run([program, "-I", "-S", "-c", ""], executable=path, check=True, timeout=_TRIAL_SECONDS)
    except (OSError, subprocess.SubprocessError) as problem:
        log.warning(
            "containers can change the mode of %s: no copy of it in memory runs (%s)", program, problem
        )
        return program
    return path


def _sealed_copy(program: str) -> str:
    """Held for as long as we live. Raises OSError where programs in memory are not allowed."""
    copy = os.memfd_create("interpreter", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(program, "rb") as source:
        while os.sendfile(copy, source.fileno(), None, 1 << 24):
            pass
    fcntl.fcntl(copy, _F_ADD_SEALS, _SEALS)
    return f"/proc/{os.getpid()}/fd/{copy}"


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
