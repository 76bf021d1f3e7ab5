"""Acts of other users of the machine, for a test that runs as root.

as_user(64_998, lambda: Path("/root/secret").read_text())     # "PermissionError: …"
with serving_as(64_998, folder / "attach.sock"): ...
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def as_user(user: int, act: Callable[[], str], *, meanwhile: Callable[[], object] = lambda: None) -> str:
    """What an act returns in a process of another user, or how it failed. ``meanwhile`` is called in this process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _become(user)
            said = act()
        except BaseException as problem:  # noqa: BLE001 - whatever it is, the test shows it
            said = f"{type(problem).__name__}: {problem}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    try:
        meanwhile()
        with open(reading) as answer:
            return answer.read()
    finally:
        os.waitpid(child, 0)


@contextmanager
def serving_as(user: int, path: Path) -> Iterator[None]:
    """A process of another user listens at a path of the filesystem."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _become(user)
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(path))
            path.chmod(0o777)
            listener.listen()
            os.write(writing, b"!")
            signal.pause()
        finally:
            os._exit(1)
    os.close(writing)
    try:
        assert os.read(reading, 1) == b"!", f"user {user} can't listen at {path}"
        yield
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _become(user: int) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
