"""The directory of a pod on disk, by which a restarted agent finds what runs.

    pods/<uid>/pod.json                         the pod, for when it is gone from the API
    pods/<uid>/ending.json                      why it terminates, and by when
    pods/<uid>/boot                             the boot id of the machine when an agent last ran the pod
    pods/<uid>/first-id                         the first id of its user id range
    pods/<uid>/containers/<name>/pause.json     its restart back-off
    pods/<uid>/containers/<name>/<attempt>/     one instance: shim, log, exit record, and below them
        termination-log, hooked, failed.json    termination message, whether postStart is done, start error
        image, was-ready                        the directory of its image, whether it has ever been ready

Every file is written atomically. A pod's directory appears with ``pod.json`` in it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TypeVar

import msgspec

from pilothouse.api.kind_names import Pod
from pilothouse.api.objects import Object
from pilothouse.node.files.directory_handles import closing_handle
from pilothouse.node.files.path_names import component
from pilothouse.node.lifecycle.container_instances import EndedInstance
from pilothouse.node.lifecycle.pod_state import PodEnding
from pilothouse.node.lifecycle.restart_policy import RestartBackoff
from pilothouse.node.volumes.removal import remove

log = logging.getLogger(__name__)

T = TypeVar("T")
KEPT = 2
"""Instances of a container whose directories are kept: the latest, and one more for ``--previous``."""
_POD, _ENDING, _BOOT, _BACKOFF = "pod.json", "ending.json", "boot", "pause.json"
_FIRST_ID = "first-id"
_POST_START_DONE, _FAILED, _TERMINATION_MESSAGE = "hooked", "failed.json", "termination-log"
_IMAGE, _WAS_READY = "image", "was-ready"
_OWN = "own"
_MAKING, _REMOVING = ".making-", ".removing-"


class ContainerDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path

    def attempts(self) -> list[int]:
        """The numbers of the instances that have a directory, oldest first."""
        if not self.path.is_dir():
            return []
        return sorted(int(each.name) for each in self.path.iterdir() if each.name.isdigit())

    def attempt(self, number: int) -> Path:
        return self.path / str(number)

    def begin(self, number: int) -> Path:
        """Make the directory of an instance that is about to start."""
        folder = self.attempt(number)
        folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with closing_handle(os.open(folder / _TERMINATION_MESSAGE, flags, 0o666)) as handle:
            os.fchmod(handle, 0o666)  # The program may run as any user.
        return folder

    def outdated(self) -> list[Path]:
        return [self.attempt(number) for number in self.attempts()[:-KEPT]]

    def scratch(self) -> list[Path]:
        """The directories with what its instances wrote outside of volumes, useless once they have ended."""
        found = (self.attempt(number) / _OWN for number in self.attempts())
        return [each for each in found if each.is_dir()]

    @property
    def backoff(self) -> RestartBackoff | None:
        return _read(self.path / _BACKOFF, RestartBackoff)

    @backoff.setter
    def backoff(self, backoff: RestartBackoff) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path / _BACKOFF, msgspec.json.encode(backoff))

    def fail(self, ended: EndedInstance) -> None:
        write_atomically(self.attempt(ended.attempt) / _FAILED, msgspec.json.encode(ended))

    def failed(self, number: int) -> EndedInstance | None:
        return _read(self.attempt(number) / _FAILED, EndedInstance)

    def set_post_start_done(self, number: int) -> None:
        write_atomically(self.attempt(number) / _POST_START_DONE, b"")

    def is_post_start_done(self, number: int) -> bool:
        return (self.attempt(number) / _POST_START_DONE).exists()

    def set_image(self, number: int, root: str) -> None:
        write_atomically(self.attempt(number) / _IMAGE, msgspec.json.encode(root))

    def image(self, number: int) -> str:
        """Empty for a program of the host."""
        return _read(self.attempt(number) / _IMAGE, str) or ""

    def set_was_ready(self, number: int) -> None:
        write_atomically(self.attempt(number) / _WAS_READY, b"")

    def was_ready(self, number: int) -> bool:
        return (self.attempt(number) / _WAS_READY).exists()

    def termination_message_file(self, number: int) -> Path:
        """The file that a container sees at its ``terminationMessagePath``."""
        return self.attempt(number) / _TERMINATION_MESSAGE


class PodDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def uid(self) -> str:
        return self.path.name

    def write_pod(self, pod: Object) -> None:
        """Write ``pod.json``; makes the directory."""
        content = msgspec.json.encode(pod.tree)
        if self.path.is_dir():
            write_atomically(self.path / _POD, content)
            return
        making = self.path.with_name(_MAKING + self.path.name)
        remove(making)
        making.mkdir(parents=True, mode=0o700)
        write_atomically(making / _POD, content)
        making.rename(self.path)

    def read_pod(self) -> Object | None:
        """The pod as it was last written; None if that can't be read."""
        tree = _read(self.path / _POD, dict)
        return Object(Pod, tree) if tree is not None else None

    @property
    def ending(self) -> PodEnding | None:
        return _read(self.path / _ENDING, PodEnding)

    @ending.setter
    def ending(self, ending: PodEnding) -> None:
        write_atomically(self.path / _ENDING, msgspec.json.encode(ending))

    @property
    def boot(self) -> str:
        try:
            return (self.path / _BOOT).read_text()
        except FileNotFoundError:
            return ""

    @boot.setter
    def boot(self, boot: str) -> None:
        write_atomically(self.path / _BOOT, boot.encode())

    @property
    def first_id(self) -> int | None:
        """The first id of the pod's range of user and group ids."""
        return _read(self.path / _FIRST_ID, int)

    @first_id.setter
    def first_id(self, first: int) -> None:
        write_atomically(self.path / _FIRST_ID, str(first).encode())

    def container(self, name: str) -> ContainerDirectory:
        return ContainerDirectory(self.path / "containers" / component(name))

    def containers(self) -> list[str]:
        """The names of the containers that have a directory."""
        folder = self.path / "containers"
        return sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []

    def discard(self) -> list[Path]:
        """Rename the directory, so that no agent adopts it; returns the directories to be removed."""
        if self.path.is_dir():
            _discard(self.path)
        return sorted(self.path.parent.glob(f"{_REMOVING}{self.path.name}.*"))


def list_pod_directories(folder: Path) -> Iterator[PodDirectory]:
    if not folder.is_dir():
        return
    for each in sorted(folder.iterdir()):
        if each.is_dir() and not each.name.startswith((_MAKING, _REMOVING)):
            yield PodDirectory(each)


def unfinished_directories(folder: Path) -> list[Path]:
    """The directories that an earlier agent had not finished making or removing: to be removed."""
    for each in folder.glob(f"{_MAKING}*"):
        _discard(each)
    return sorted(folder.glob(f"{_REMOVING}*"))


def _discard(path: Path) -> None:
    """Rename a directory: its name is free at once, however long the removal takes."""
    names = (path.with_name(f"{_REMOVING}{path.name}.{number}") for number in count())
    path.rename(next(each for each in names if not each.exists()))


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file's content; on an error the earlier content stays."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _read(path: Path, cls: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=cls)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as problem:
        # A power failure may truncate a file. The agent can do without any of them.
        log.warning("failed to decode %s, ignoring it: %s", path, problem)
        return None
