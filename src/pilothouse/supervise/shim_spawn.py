"""The shim's programs, spawned: a lean interpreter that is given its order in memory and answers in a pipe.

    subprocess.Popen(lean_command("shim_main", str(folder)), stdin=in_memory(order), stdout=answer)

Nothing runs between fork and exec but C: `preexec_fn` is unsafe in a process with threads.
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
"""No further seals, nor a change of its size or content."""

log = logging.getLogger(__name__)


def lean_command(module: str, *arguments: str) -> list[str]:
    """A command that runs `main` of one of the shim's modules in the leanest interpreter there is."""
    home = Path(pilothouse.__file__).parent.parent
    code = f"import sys; sys.path.append({str(home)!r}); from pilothouse.supervise.shim.{module} import main; main()"
    return [sys.executable, "-I", "-S", "-c", code, *arguments]


@contextlib.contextmanager
def interpreter() -> Iterator[str]:
    """The path by which one shim is started: our interpreter, or a sealed copy of it in memory, for this shim alone.

    Until its program is loaded, a container's process runs the interpreter, and a program can open that by `/proc/self/exe`, whatever its
    view shows. To the kernel an ordinary user's container is that user: it could change the mode of an interpreter that the user owns,
    which would stop every other container. So it gets a copy of its own, which the shim and its container keep. An interpreter of
    somebody else's, such as root's, needs no copy.
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
    """Whether a program in memory may be run here."""
    try:
        copy = _sealed_copy(program)
        try:
            path = f"/proc/{os.getpid()}/fd/{copy}"
            subprocess.run(
                [program, "-I", "-S", "-c", ""], executable=path, check=True, timeout=_TRIAL_SECONDS
            )
        finally:
            os.close(copy)
    except (OSError, subprocess.SubprocessError) as problem:
        log.warning(
            "containers can change the mode of %s: no copy of it in memory runs (%s)", program, problem
        )
        return False
    return True


def _sealed_copy(program: str) -> int:
    """A descriptor. Raises OSError where there is no memory for it."""
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
