"""What the core asks of the other parts of a node, and of the machine.

    class Everything:               # structural: whoever has the methods is the part
        images: ImageSource
        volumes: VolumeManager
        addresses: AddressManager
        containers: ContainerRuntime
        groups: CgroupSource
        removal: DirectoryRemover

A part that can't do something *yet* raises ``NotReady`` with a reason in one word and a sentence that a person can act on; the pod
waits with that reason in its status, an event tells it, and the part is asked again after a while. Any other exception is a
bug: it is logged, and told the same way.

``run`` of a part goes on until cancelled; it is kept running by the agent (``aio.supervising``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from pilothouse.api.objects import Object, Tree
from pilothouse.node.files.directory_usage import DirectoryUsage
from pilothouse.supervise.attach import Attached
from pilothouse.supervise.cgroup_settings import Limits, Throttle, Usage
from pilothouse.supervise.launch_spec import ContainerExit, LaunchSpec, Mount
from pilothouse.supervise.machine_survey import MachineSurvey


class NotReady(Exception):
    """Something that a pod needs is not there."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class ImageMissing(NotReady):
    """No such image on this node. The message names the command that would bring it."""

    def __init__(self, message: str, reason: str = "ErrImageNeverPull") -> None:
        super().__init__(reason, message)


class VolumeNotReady(NotReady):
    """A volume can't be had: what it is made of is missing, or its claim is not bound."""


class AddressNotReady(NotReady):
    """There is no address, or a port is taken."""


class Image(Protocol):
    """What an image says of the programs in it."""

    @property
    def name(self) -> str: ...

    @property
    def digest(self) -> str:
        """Of what was imported; empty for a program of the host."""
        ...

    @property
    def root(self) -> Path | None:
        """The unpacked files; None for a program of the host."""
        ...

    @property
    def mount_at(self) -> str:
        """Where the files are seen inside a container; empty if nowhere. At ``/`` they are beside what is there anyway."""
        ...

    @property
    def entrypoint(self) -> Sequence[str]: ...

    @property
    def cmd(self) -> Sequence[str]: ...

    @property
    def env(self) -> Mapping[str, str]: ...

    @property
    def user(self) -> str:
        """As in an image's configuration: ``uid``, ``uid:gid``, a name, or empty."""
        ...

    @property
    def working_dir(self) -> str: ...


class StoredImage(msgspec.Struct, frozen=True):
    """An image of this node, as its Node lists it."""

    names: tuple[str, ...]
    """By digest and by tag, as kubelet has them."""
    size: int


class ImageSource(Protocol):
    """ImageSource that were brought to this node."""

    def resolve(self, reference: str, /) -> Image:
        """Raises ``ImageMissing``."""
        ...

    def stored(self) -> Sequence[StoredImage]:
        """All that were imported, the largest first."""
        ...

    def revision(self) -> int:
        """Another one whenever an image has come, gone or been replaced."""
        ...


class PreparedVolume(Protocol):
    """A volume that can be mounted."""

    @property
    def path(self) -> Path: ...

    @property
    def read_only(self) -> bool: ...

    @property
    def host(self) -> bool:
        """Whether it is a path of the machine, named by somebody."""
        ...


class VolumeManager(Protocol):
    """The volumes of this node's pods."""

    async def prepare(self, pod: Object, /) -> Mapping[str, PreparedVolume]:
        """All of a pod's volumes by name. Asked again after the agent was restarted. Raises ``VolumeNotReady``."""
        ...

    def mounts(
        self, pod: Object, container: Tree, prepared: Mapping[str, PreparedVolume], env: Mapping[str, str], /
    ) -> Sequence[Mount]:
        """Where a container with this environment sees them. Raises ``VolumeNotReady``, for a ``subPath`` that leads
        out, say."""
        ...

    def excess(self, pod_uid: str, /) -> str:
        """Why a pod has to go: it keeps more on the disk than it may. Empty if it does not."""
        ...

    async def disk_usage(self, pod_uid: str, /) -> DirectoryUsage:
        """All that a pod has on the disk beside its claims. Raises OSError."""
        ...

    def throttles(self, pod_uid: str, /) -> tuple[Throttle, ...]:
        """How much a pod may read from its volumes and write to them, as things are."""
        ...

    async def release(self, pod_uid: str, /) -> None:
        """The pod's containers have ended: let go of all that is its own. Does nothing the second time."""
        ...

    async def run(self) -> None:
        """Keep what is mounted up to date."""
        ...

    def close(self) -> None:
        """The agent ends: let go of what only a living one holds. Pods keep their volumes."""
        ...


class AddressManager(Protocol):
    """AddressManager and names."""

    async def assign(self, pod: Object, /) -> str:
        """The pod's address, the same for as long as it lives, over agents. Raises ``AddressNotReady``."""
        ...

    async def release(self, pod_uid: str, /) -> None:
        """The pod has gone. Does nothing the second time."""
        ...

    def mounts(self, pod: Object, address: str, /) -> Sequence[Mount]:
        """The files by which names are found inside the pod (/etc/hosts, /etc/resolv.conf), kept up to date."""
        ...

    def services(self, namespace: str, /) -> Sequence[Object]:
        """The services of a namespace, as far as they are known."""
        ...

    def condition(self) -> Mapping[str, str]:
        """The Node's condition ``NetworkUnavailable``: type, status, reason and message."""
        ...

    async def run(self) -> None:
        """Keep names, routes and services up to date."""
        ...


class ExecSession(Protocol):
    """A program that was started inside a running container."""

    @property
    def stdin(self) -> asyncio.StreamWriter | None:
        """None unless it was asked for."""
        ...

    @property
    def stdout(self) -> asyncio.StreamReader:
        """With a terminal, everything that it prints."""
        ...

    @property
    def stderr(self) -> asyncio.StreamReader | None: ...

    def resize(self, rows: int, columns: int, /) -> None:
        """Of its terminal, if it has one."""
        ...

    async def exited(self) -> int:
        """Its exit code. Output may still have to be read."""
        ...

    async def close(self) -> None:
        """Kill it if it still runs, and let go of everything."""
        ...


class RunningContainer(Protocol):
    """One that runs, or has run."""

    @property
    def folder(self) -> Path: ...

    @property
    def pid(self) -> int:
        """Of its first process, as the host numbers it."""
        ...

    @property
    def started(self) -> float:
        """Seconds since 1970."""
        ...

    async def exited(self) -> ContainerExit:
        """Wait for its end."""
        ...

    def kill(self, signal: int, /) -> None:
        """Send a signal to its first process."""
        ...

    async def stop(self, signal: int, grace: float, /) -> ContainerExit:
        """Signal, grace, then kill everything in it."""
        ...

    async def enter(
        self,
        argv: Sequence[str],
        *,
        tty: bool = False,
        stdin: bool = False,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> ExecSession:
        """Run a program beside the container's own, with its view of the machine. It dies with the agent.

        Raises ``supervise.launching.LaunchError``.
        """
        ...

    async def attach(self) -> Attached:
        """Follow its output and type its input. Raises ``supervise.launching.LaunchError``."""
        ...


class ContainerRuntime(Protocol):
    """Processes with a view, a log and an exit record of their own: ``supervise.containers``."""

    async def start(self, folder: Path, launch: LaunchSpec, /) -> RunningContainer:
        """Returns once the program runs. Raises ``supervise.launching.LaunchError``."""
        ...

    async def adopt(self, folder: Path, /) -> RunningContainer | ContainerExit | None:
        """What was started in a folder by an earlier agent: still running, ended, or never."""
        ...


class ContainerCgroup(Protocol):
    """What a container may use, and has used."""

    @property
    def folders(self) -> tuple[str, ...]:
        """For ``LaunchSpec.cgroups``."""
        ...

    def make(self, limits: Limits, /) -> tuple[str, ...]:
        """Have it with these limits. What of them is not enforced, and why."""
        ...

    def usage(self) -> Usage: ...

    async def remove(self) -> None:
        """Kill what is in it, and forget it. Raises ``supervise.cgroups.GroupBusy``."""
        ...


class CgroupSource(Protocol):
    """``supervise.cgroups``. A container's group is called as ``limits.group_name`` says."""

    def group(self, name: str, /) -> ContainerCgroup: ...


class DirectoryRemover(Protocol):
    """Removes folders that hold whatever pods have left in them."""

    async def remove(self, folder: Path, /) -> None:
        """Returns when nothing is left of it, however long that takes. Raises OSError."""
        ...


class NodeParts(msgspec.Struct, frozen=True, kw_only=True):
    """All that a node is made of beside its core."""

    images: ImageSource
    volumes: VolumeManager
    addresses: AddressManager
    containers: ContainerRuntime
    groups: CgroupSource
    removal: DirectoryRemover
    survey: MachineSurvey
    """What the machine lets us do."""
