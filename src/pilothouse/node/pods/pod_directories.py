"""What a pod has on disk, below the node's data folder, and what outlives an agent there.

    pods/<uid>/pod.json                               the pod as it was last seen: for when the API no longer has it
    pods/<uid>/ending.json                            why it has to end, and by when
    pods/<uid>/boot                                   the boot of the machine in which it was last looked after
    pods/<uid>/first-id                               the first of the machine's ids that are its own
    pods/<uid>/containers/<name>/pause.json           how long it waits before its next start
    pods/<uid>/containers/<name>/<attempt>/           one instance: shim, log, exit record, and below them
        termination-log, hooked, failed.json          its last words, whether its hook is done, why it could not be started
        image, was-ready                              the files of its image, whether it has ever been ready

Every file is written whole or not at all. A pod's folder appears with ``pod.json`` in it.
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
from pilothouse.node.files.path_names import component
from pilothouse.node.lifecycle.container_instances import EndedInstance
from pilothouse.node.lifecycle.pod_state import PodEnding
from pilothouse.node.lifecycle.restart_policy import RestartBackoff
from pilothouse.node.volumes.removal import remove

log = logging.getLogger(__name__)

T = TypeVar("T")
KEPT = 2
"""Instances of a container whose folders stay: the latest, and the one before it for ``--previous``."""
_POD, _ENDING, _BOOT, _PAUSE = "pod.json", "ending.json", "boot", "pause.json"
_FIRST_ID = "first-id"
_HOOKED, _FAILED, _LAST_WORDS = "hooked", "failed.json", "termination-log"
_IMAGE, _WAS_READY = "image", "was-ready"
_OWN = "own"
_MAKING, _REMOVING = ".making-", ".removing-"


class ContainerDirectory:
    """Of one container of a pod."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def attempts(self) -> list[int]:
        """The instances that there is something of, oldest first."""
        if not self.path.is_dir():
            return []
        return sorted(int(each.name) for each in self.path.iterdir() if each.name.isdigit())

    def attempt(self, number: int) -> Path:
        return self.path / str(number)

    def begin(self, number: int) -> Path:
        """The folder of an instance that is about to be started."""
        folder = self.attempt(number)
        folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        handle = os.open(folder / _LAST_WORDS, flags, 0o666)
        try:
            os.fchmod(handle, 0o666)  # Whoever the program runs as may write it.
        finally:
            os.close(handle)
        return folder

    def outdated(self) -> list[Path]:
        """The folders of instances that are asked for no more, to be removed."""
        return [self.attempt(number) for number in self.attempts()[:-KEPT]]

    def scratch(self) -> list[Path]:
        """The folders of what its instances have written outside of volumes: of no use once they have ended."""
        found = (self.attempt(number) / _OWN for number in self.attempts())
        return [each for each in found if each.is_dir()]

    @property
    def pause(self) -> RestartBackoff | None:
        return _read(self.path / _PAUSE, RestartBackoff)

    @pause.setter
    def pause(self, pause: RestartBackoff) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path / _PAUSE, msgspec.json.encode(pause))

    def fail(self, ended: EndedInstance) -> None:
        """Write down why an instance could not be started."""
        write_atomically(self.attempt(ended.attempt) / _FAILED, msgspec.json.encode(ended))

    def failed(self, number: int) -> EndedInstance | None:
        return _read(self.attempt(number) / _FAILED, EndedInstance)

    def set_hooked(self, number: int) -> None:
        """Its postStart hook is done."""
        write_atomically(self.attempt(number) / _HOOKED, b"")

    def is_hooked(self, number: int) -> bool:
        return (self.attempt(number) / _HOOKED).exists()

    def set_image(self, number: int, root: str) -> None:
        """Where the files of its image are."""
        write_atomically(self.attempt(number) / _IMAGE, msgspec.json.encode(root))

    def image(self, number: int) -> str:
        """Empty for a program of the host."""
        return _read(self.attempt(number) / _IMAGE, str) or ""

    def set_was_ready(self, number: int) -> None:
        write_atomically(self.attempt(number) / _WAS_READY, b"")

    def was_ready(self, number: int) -> bool:
        return (self.attempt(number) / _WAS_READY).exists()

    def last_words(self, number: int) -> Path:
        """The file that a container sees at its ``terminationMessagePath``."""
        return self.attempt(number) / _LAST_WORDS


class PodDirectory:
    """Of one pod."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def uid(self) -> str:
        return self.path.name

    def remember(self, pod: Object) -> None:
        """Keep the pod as it is; makes the folder."""
        content = msgspec.json.encode(pod.tree)
        if self.path.is_dir():
            write_atomically(self.path / _POD, content)
            return
        making = self.path.with_name(_MAKING + self.path.name)
        remove(making)
        making.mkdir(parents=True, mode=0o700)
        write_atomically(making / _POD, content)
        making.rename(self.path)

    def recall(self) -> Object | None:
        """The pod as it was last seen."""
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
        """The first of the machine's user and group ids that are the pod's own."""
        return _read(self.path / _FIRST_ID, int)

    @first_id.setter
    def first_id(self, first: int) -> None:
        write_atomically(self.path / _FIRST_ID, str(first).encode())

    def container(self, name: str) -> ContainerDirectory:
        return ContainerDirectory(self.path / "containers" / component(name))

    def containers(self) -> list[str]:
        """Those of which there is something."""
        folder = self.path / "containers"
        return sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []

    def discard(self) -> list[Path]:
        """Have no agent take it up again; returns the folders that are to be removed."""
        if self.path.is_dir():
            _discard(self.path)
        return sorted(self.path.parent.glob(f"{_REMOVING}{self.path.name}.*"))


def list_pod_directories(folder: Path) -> Iterator[PodDirectory]:
    """Every pod that there is something of."""
    if not folder.is_dir():
        return
    for each in sorted(folder.iterdir()):
        if each.is_dir() and not each.name.startswith((_MAKING, _REMOVING)):
            yield PodDirectory(each)


def unfinished_directories(folder: Path) -> list[Path]:
    """What an earlier agent never finished, or did not remove to its end: the folders that are to be removed."""
    for each in folder.glob(f"{_MAKING}*"):
        _discard(each)
    return sorted(folder.glob(f"{_REMOVING}*"))


def _discard(path: Path) -> None:
    """Rename it. Its name is free at once, however long the removal takes."""
    names = (path.with_name(f"{_REMOVING}{path.name}.{number}") for number in count())
    path.rename(next(each for each in names if not each.exists()))


def write_atomically(path: Path, content: bytes) -> None:
    """Have a file with this content, or the one that there was."""
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
        # A power failure may cut a file short. What is in here can be done without.
        log.warning("%s can't be read, and is as if it were not there: %s", path, problem)
        return None
