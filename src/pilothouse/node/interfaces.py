"""The protocols of the agent's parts: images, volumes, addresses, containers, control groups.

    parts = NodeParts(images=..., volumes=..., addresses=..., containers=..., ...)
    agent = Agent(api, settings, parts, clock, rng)

A part that can't do something yet raises ``NotReady``; the pod waits with that reason in its status, an event
reports it, and the agent retries. Other exceptions are bugs, which are logged and reported too. ``run`` of a
part goes on until cancelled; the agent restarts it when it fails (``aio.background_tasks``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from pilothouse.api.k0s.payloads import FetchedPayload, Payload
from pilothouse.api.objects import Object, Tree
from pilothouse.node.files.directory_usage import DirectoryUsage
from pilothouse.supervise.attach import Attached
from pilothouse.supervise.cgroup_settings import DeviceThrottle, Limits, Usage
from pilothouse.supervise.launch_spec import ContainerExit, LaunchSpec, Mount
from pilothouse.supervise.machine_survey import MachineSurvey


class NotReady(Exception):
    """Something that a pod needs is missing: a reason in one word, and a message that a user can act on."""

    def __init__(self, reason: str, message: str, retry: float | None = None) -> None:
        """``retry``: seconds until the next attempt at something that ends by itself; None: a back-off."""
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.retry = retry


class ImageMissing(NotReady):
    """No such image on this node. The message names the command that imports it."""

    def __init__(self, message: str, reason: str = "ErrImageNeverPull") -> None:
        super().__init__(reason, message)


class VolumeNotReady(NotReady):
    """A volume can't be prepared: its source is missing, or its claim is not bound."""


class AddressNotReady(NotReady):
    """No address is free, or a port is in use."""


class Image(msgspec.Struct, frozen=True):
    name: str
    root: Path | None = None
    """The unpacked files; None for a program of the host."""
    mount_at: str = ""
    """Where a container sees the files; empty if nowhere. ``/`` adds them to the standard directories."""
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    env: dict[str, str] = {}
    user: str = ""
    """``uid``, ``uid:gid``, a name, or empty."""
    working_dir: str = ""
    digest: str = ""
    """The digest of the imported files; empty for a program of the host."""


class StoredImage(msgspec.Struct, frozen=True):
    """An image in the Node's ``status.images``."""

    names: tuple[str, ...]
    """By digest and by tag, as kubelet lists them."""
    size: int


class ImageSource(Protocol):
    def resolve(self, reference: str, /) -> Image:
        """Raises ``ImageMissing``."""

    def stored(self) -> Sequence[StoredImage]:
        """All imported images, the largest first."""

    def revision(self) -> int:
        """A number that changes whenever an image is imported, replaced or removed."""


class PreparedVolume(msgspec.Struct, frozen=True):
    path: Path
    read_only: bool = False
    host: bool = False
    """Whether it is a path of the machine that a manifest names (``hostPath``)."""


class VolumeManager(Protocol):
    async def prepare(self, pod: Object, /) -> Mapping[str, PreparedVolume]:
        """All volumes of a pod by name. Called again by a restarted agent. Raises ``VolumeNotReady``."""

    def mounts(
        self, pod: Object, container: Tree, prepared: Mapping[str, PreparedVolume], env: Mapping[str, str], /
    ) -> Sequence[Mount]:
        """The volume mounts of a container. Raises ``VolumeNotReady``, as for a bad ``subPath``."""

    def excess(self, pod_uid: str, /) -> str:
        """Why a pod exceeds its storage limits; empty if it doesn't."""

    async def disk_usage(self, pod_uid: str, /) -> DirectoryUsage:
        """The disk usage of a pod, without its claims. Raises OSError."""

    def throttles(self, pod_uid: str, /) -> tuple[DeviceThrottle, ...]:
        """The current I/O limits of a pod's volumes."""

    async def release(self, pod_uid: str, /) -> None:
        """Release the volumes of a pod whose containers have ended. Idempotent."""

    async def run(self) -> None:
        """Keep the volumes up to date."""

    def close(self) -> None:
        """Release what the agent itself holds, when it ends. Pods keep their volumes."""


class AddressManager(Protocol):
    """The addresses of this node's pods, and name resolution."""

    async def assign(self, pod: Object, /) -> str:
        """The pod's address; it stays the same across restarts of the agent. Raises ``AddressNotReady``."""

    async def release(self, pod_uid: str, /) -> None:
        """Release the pod's address. Idempotent."""

    def mounts(self, pod: Object, address: str, /) -> Sequence[Mount]:
        """The pod's files for name resolution (/etc/hosts, /etc/resolv.conf), kept up to date."""

    def services(self, namespace: str, /) -> Sequence[Object]:
        """The services of a namespace that the agent knows of."""

    def condition(self) -> Mapping[str, str]:
        """The Node's condition ``NetworkUnavailable``: type, status, reason and message."""

    async def run(self) -> None:
        """Keep names, routes and services up to date."""


class ExecSession(Protocol):
    """A program that was started inside a running container."""

    @property
    def stdin(self) -> asyncio.StreamWriter | None:
        """None unless ``stdin`` was requested."""

    @property
    def stdout(self) -> asyncio.StreamReader:
        """With a terminal, both output streams."""

    @property
    def stderr(self) -> asyncio.StreamReader | None: ...

    def resize(self, rows: int, columns: int, /) -> None:
        """Resize its terminal, if it has one."""

    async def exited(self) -> int:
        """Wait for its exit code. Output may still be unread."""

    async def close(self) -> None:
        """Kill it if it still runs, and close its streams."""


class RunningContainer(Protocol):
    """A container that runs, or has run."""

    @property
    def folder(self) -> Path: ...

    @property
    def pid(self) -> int:
        """The host's pid of its first process."""

    @property
    def started(self) -> float:
        """Seconds since 1970."""

    async def exited(self) -> ContainerExit:
        """Wait for its exit."""

    def kill(self, signal: int, /) -> None:
        """Send a signal to its first process."""

    async def stop(self, signal: int, grace: float, /) -> ContainerExit:
        """Send the signal; after the grace period kill all its processes."""

    async def enter(
        self,
        argv: Sequence[str],
        *,
        tty: bool = False,
        stdin: bool = False,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> ExecSession:
        """Run a program inside the container, until it exits or the agent does. Raises
        ``supervise.launch_spec.LaunchError``."""

    async def attach(self) -> Attached:
        """Read its output and write its input. Raises ``supervise.launch_spec.LaunchError``."""


class ContainerRuntime(Protocol):
    """Starts and adopts containers: ``supervise.containers``."""

    async def start(self, folder: Path, launch: LaunchSpec, /) -> RunningContainer:
        """Returns once the program runs. Raises ``supervise.launch_spec.LaunchError``."""

    async def adopt(self, folder: Path, /) -> RunningContainer | ContainerExit | None:
        """The container that an earlier agent started in a directory; None if it never started."""


class ContainerCgroup(Protocol):
    @property
    def folders(self) -> tuple[str, ...]:
        """For ``LaunchSpec.cgroups``."""

    def make(self, limits: Limits, /) -> tuple[str, ...]:
        """Create or update it with these limits. Returns which of them are not enforced, and why."""

    def usage(self) -> Usage: ...

    async def remove(self) -> None:
        """Kill its processes and remove it. Raises ``supervise.cgroups.GroupBusy``."""


class CgroupSource(Protocol):
    """``supervise.cgroups``. ``node.containers.resource_limits`` names the groups."""

    def group(self, name: str, /) -> ContainerCgroup: ...


class DirectoryRemover(Protocol):
    async def remove(self, folder: Path, /) -> None:
        """Returns when the directory is gone, however long that takes. Raises OSError."""


class PayloadSource(Protocol):
    """Where updates are downloaded from; see ``updating``."""

    async def fetch(self, payload: Payload, into: Path, /) -> FetchedPayload:
        """Download and verify; the file is then there as a whole. Raises DownloadFailed.

        When it is cancelled, what has come so far stays, and the next call goes on from there.
        """
        ...

    def discard(self, into: Path, /) -> None:
        """Remove what has come so far of a file."""


class NodeParts(msgspec.Struct, frozen=True, kw_only=True):
    images: ImageSource
    volumes: VolumeManager
    addresses: AddressManager
    containers: ContainerRuntime
    groups: CgroupSource
    removal: DirectoryRemover
    survey: MachineSurvey
    """What the machine supports."""
