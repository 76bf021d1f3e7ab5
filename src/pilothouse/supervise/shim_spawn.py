"""Spawns the shim's programs: a minimal interpreter that reads its order from memory and answers in a pipe.

    subprocess.Popen(lean_command("shim_main", str(folder)), stdin=in_memory(order), stdout=answer)

Only C code runs between fork and exec: `preexec_fn` is unsafe in a process with threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import functools
import logging
import marshal
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pilothouse

_TRIAL_SECONDS = 10.0
_F_ADD_SEALS = 1033
_SEALS = 0x1 | 0x2 | 0x4 | 0x8
"""Neither further seals nor changes of size or content."""

log = logging.getLogger(__name__)


def lean_command(module: str, *arguments: str) -> list[str]:
    """The command that runs `main` of a shim module in a minimal interpreter."""
    home = Path(pilothouse.__file__).parent.parent
    run = f"from pilothouse.supervise.shim.{module} import main; main()"
    code = f"import sys; sys.path.append({str(home)!r}); {run}"
    return [sys.executable, "-I", "-S", "-c", code, *arguments]


@contextlib.contextmanager
def interpreter() -> Iterator[str]:
    """The path by which one shim is started: our interpreter, or a sealed copy of it in memory, for this shim
    alone.

    Until its program is loaded, a container's process runs the interpreter, and a program can open that by
    `/proc/self/exe`, whatever its view shows. To the kernel an ordinary user's container is that user: it
    could change the mode of an interpreter that the user owns, which would stop every other container. So
    each shim gets a copy. An interpreter of another user, such as root's, needs none.
    """
    if os.stat(sys.executable).st_uid != os.geteuid() or os.geteuid() == 0 or not _copies_run(sys.executable):
        yield sys.executable
        return
    copy = _sealed_copy(sys.executable)
    try:
        yield f"/proc/{os.getpid()}/fd/{copy}"
    finally:
        os.close(copy)


@functools.cache
def _copies_run(program: str) -> bool:
    """Whether programs in memory can be run here."""
    try:
        copy = _sealed_copy(program)
        try:
            path = f"/proc/{os.getpid()}/fd/{copy}"
            argv = [program, "-I", "-S", "-c", ""]
            subprocess.run(argv, executable=path, check=True, timeout=_TRIAL_SECONDS)
        finally:
            os.close(copy)
    except (OSError, subprocess.SubprocessError) as problem:
        message = "containers can change the mode of %s: no copy of it in memory runs (%s)"
        log.warning(message, program, problem)
        return False
    return True


def _sealed_copy(program: str) -> int:
    """A descriptor of the copy. Raises OSError without enough memory."""
    copy = os.memfd_create("interpreter", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with open(program, "rb") as source:
            while os.sendfile(copy, source.fileno(), None, 1 << 24):
                pass
        fcntl.fcntl(copy, _F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(copy)
        raise
    return copy


def in_memory(order: dict[str, Any]) -> int:
    """A descriptor with marshalled built-in values; the reader runs the same interpreter."""
    descriptor = os.memfd_create("order", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        marshal.dump(order, file)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


async def read_all(descriptor: int, into: bytearray) -> None:
    """Read a pipe until its other end is closed; closes this end."""
    reader = asyncio.StreamReader()
    pipe = os.fdopen(descriptor, "rb", buffering=0)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
    try:
        while data := await reader.read(4096):
            into += data
    finally:
        transport.close()
