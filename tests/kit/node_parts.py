"""The plainest parts that a node can have: every image is a program of the host, volumes are folders, addresses are counted.

parts = Parts(images=AnyImage(), volumes=PlainVolumes(folder), addresses=CountedAddresses(), containers=machine)

For suites about the core: what images, volumes and addresses really do is tested where they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from pilothouse.api.objects import Object, Tree
from pilothouse.node.files.directory_usage import DirectoryUsage
from pilothouse.node.interfaces import (
    Image,
    ImageMissing,
    NotReady,
    PreparedVolume,
    StoredImage,
    VolumeNotReady,
)
from pilothouse.node.volumes.removal import remove
from pilothouse.supervise.cgroup_settings import DeviceThrottle, Limits, Usage
from pilothouse.supervise.launch_spec import Mount
from pilothouse.supervise.machine_survey import Capability, MachineSurvey


class PlainImage(Image, frozen=True, kw_only=True):
    name: str = "plain"
    entrypoint: tuple[str, ...] = ("/bin/true",)


class AnyImage:
    """Has every image but those that are said to be missing."""

    def __init__(self) -> None:
        self.missing: set[str] = set()
        self.known: dict[str, PlainImage] = {}
        self.imports = 0
        """To be counted up when ``missing`` or ``known`` change, as an import would be noticed."""

    def resolve(self, reference: str) -> PlainImage:
        if reference in self.missing:
            raise ImageMissing(f'no image "{reference}": pilothouse image import {reference} FILE')
        return self.known.get(reference, PlainImage())

    def stored(self) -> list[StoredImage]:
        return [StoredImage((name,), 1) for name in self.known]

    def revision(self) -> int:
        return self.imports


class PlainVolumes:
    """A folder for each volume of a pod."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.problem: NotReady | None = None
        self.takes = 0.0
        """Seconds until they are there."""
        self.prepared: list[str] = []
        self.released: list[str] = []
        self.excesses: dict[str, str] = {}
        self.sizes: dict[str, int] = {}
        self.files: dict[str, int] = {}
        self.busy: NotReady | None = None
        """Why volumes can't be let go of."""
        self.throttled: dict[str, tuple[DeviceThrottle, ...]] = {}

    async def prepare(self, pod: Object) -> dict[str, PreparedVolume]:
        if self.problem is not None:
            raise self.problem
        if self.takes:
            await asyncio.sleep(self.takes)
        self.prepared.append(pod.uid)
        found = {}
        for volume in pod.spec.get("volumes") or ():
            path = self._folder / pod.uid / volume["name"]
            path.mkdir(parents=True, exist_ok=True)
            found[volume["name"]] = PreparedVolume(path)
        return found

    def excess(self, pod_uid: str) -> str:
        return self.excesses.get(pod_uid, "")

    async def disk_usage(self, pod_uid: str) -> DirectoryUsage:
        return DirectoryUsage(self.sizes.get(pod_uid, 0), self.files.get(pod_uid, 0))

    def throttles(self, pod_uid: str) -> tuple[DeviceThrottle, ...]:
        return self.throttled.get(pod_uid, ())

    def mounts(
        self, pod: Object, container: Tree, prepared: Mapping[str, PreparedVolume], env: Mapping[str, str]
    ) -> Sequence[Mount]:
        return [
            Mount(str(prepared[each["name"]].path), each["mountPath"], mapped=True)
            for each in container.get("volumeMounts") or ()
            if each["name"] in prepared
        ]

    async def release(self, pod_uid: str) -> None:
        if self.busy is not None:
            raise self.busy
        self.released.append(pod_uid)

    async def run(self) -> None:
        await asyncio.get_running_loop().create_future()

    def close(self) -> None:
        return


def missing_claim() -> VolumeNotReady:
    return VolumeNotReady("FailedMount", 'persistentvolumeclaim "data" not found')


class CountedAddresses:
    """127.9.0.1 and so on."""

    def __init__(self) -> None:
        self.given: dict[str, str] = {}
        self.released: list[str] = []
        self.known_services: list[Object] = []

    async def assign(self, pod: Object) -> str:
        return self.given.setdefault(pod.uid, f"127.9.0.{len(self.given) + 1}")

    async def release(self, pod_uid: str) -> None:
        self.released.append(pod_uid)

    def condition(self) -> Mapping[str, str]:
        return {"type": "NetworkUnavailable", "status": "False", "reason": "RouteCreated", "message": ""}

    def mounts(self, pod: Object, address: str) -> Sequence[Mount]:
        return ()

    def services(self, namespace: str) -> Sequence[Object]:
        return [each for each in self.known_services if each.namespace == namespace]

    async def run(self) -> None:
        await asyncio.get_running_loop().create_future()


class PlainRemoval:
    """Removes folders at once: there are no threads in virtual time."""

    async def remove(self, folder: Path) -> None:
        remove(folder)


EVERYTHING = MachineSurvey(
    ids=Capability(True),
    view=Capability(True),
    users=Capability(True),
    limits={name: Capability(True) for name in ("cpu", "memory", "pids", "io")},
)
"""A machine that lets us do all."""


class PlainGroup:
    """A group that is only remembered."""

    def __init__(self, groups: PlainGroups, name: str) -> None:
        self._groups = groups
        self._name = name

    @property
    def folders(self) -> tuple[str, ...]:
        return ()

    def make(self, limits: Limits) -> tuple[str, ...]:
        self._groups.made[self._name] = limits
        return self._groups.complaints

    def usage(self) -> Usage:
        return Usage()

    async def remove(self) -> None:
        self._groups.removed.append(self._name)


class PlainGroups:
    """Groups that limit nothing."""

    def __init__(self) -> None:
        self.made: dict[str, Limits] = {}
        self.removed: list[str] = []
        self.complaints: tuple[str, ...] = ()

    def group(self, name: str) -> PlainGroup:
        return PlainGroup(self, name)
