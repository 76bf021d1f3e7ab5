"""What the containers of one pod are given to run with: image, environment, mounts, control groups.

outfitter = ContainerConfigurator(api, settings, parts, agent, allocatable, images, id_ranges)
launch = await outfitter.compose(pod, part, address, prepared, folder, attempt)      # NotReady, if something is missing
outfitter.images, outfitter.not_enforced          # what came of it, for the pod's status
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from pilothouse.api.kind_names import ConfigMap, Secret
from pilothouse.api.navigator.labels import HAS_PILOT
from pilothouse.api.objects import Object
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.node.containers.container_launch import PodSetting, compose_launch
from pilothouse.node.containers.container_worker import describe_error
from pilothouse.node.containers.environment import CONFIG_MAP, Source, environment, wanted
from pilothouse.node.containers.pilot_installation import installation
from pilothouse.node.containers.resource_limits import (
    broken_promises,
    denied,
    group_name,
    limits_of,
    pod_group,
    weight_of,
)
from pilothouse.node.containers.security_context import AgentIdentity, has_host_users
from pilothouse.node.interfaces import NodeParts, NotReady, PreparedVolume
from pilothouse.node.lifecycle.container_roles import ContainerRole, PodContainer
from pilothouse.node.lifecycle.container_roles import containers_of as parts
from pilothouse.node.machine.id_ranges import UNAVAILABLE, IdRanges
from pilothouse.node.pods.pod_directories import ContainerDirectory, PodDirectory
from pilothouse.node.settings import NodeSettings
from pilothouse.supervise.cgroup_settings import Throttle
from pilothouse.supervise.launch_spec import IdRange, LaunchSpec

_INSTALL_PILOT: Final = ["pilothouse", "pilot", "install"]


class ContainerConfigurator:
    """Of one pod."""

    def __init__(
        self,
        api: Api,
        settings: NodeSettings,
        parts: NodeParts,
        agent: AgentIdentity,
        allocatable: Callable[[], Mapping[str, str]],
        images: Mapping[str, str],
        id_ranges: IdRanges,
    ) -> None:
        """``images`` are those that an earlier agent has told of."""
        self._api = api
        self._settings = settings
        self._parts = parts
        self._agent = agent
        self._allocatable = allocatable
        self.images = dict(images)
        """By container, what its image was found to be."""
        self._id_ranges = id_ranges
        self._complaints: dict[str, list[str]] = {}
        self._throttles: dict[str, tuple[Throttle, ...]] = {}

    @property
    def not_enforced(self) -> str:
        """Which limits are not enforced, and why; empty if all are."""
        return "; ".join(
            f"container {name}: {why}" for name, each in self._complaints.items() for why in each
        )

    async def compose(
        self,
        pod: Object,
        part: PodContainer,
        address: str,
        prepared: Mapping[str, PreparedVolume],
        folder: ContainerDirectory,
        attempt: int,
    ) -> LaunchSpec:
        """Raises ``NotReady``, or OSError for what the machine refuses."""
        given, settings = self._parts, self._settings
        image = given.images.resolve(image_name(pod, part))
        self.images[part.name] = image.digest or image.name
        sources = {source: await self._source(pod, source) for source in sorted(wanted(part.spec))}
        env = environment(
            pod,
            part.spec,
            sources,
            image.env,
            address=address,
            host=settings.address,
            allocatable=self._allocatable(),
            server=settings.server,
            other_servers=settings.other_servers,
            services=given.addresses.services(pod.namespace),
        )
        setting = PodSetting(
            agent=self._agent,
            mounts=tuple(given.addresses.mounts(pod, address)),
            hidden=(*settings.hidden, *self._shared_memory()),
            machine=(*installation(), *map(str, settings.exposed)),
            ids=self._ids(pod),
            open_files=settings.open_files,
            profiles=settings.data / "seccomp",
        )
        volumes = given.volumes.mounts(pod, part.spec, prepared, env)
        groups = self._limit(pod, part)
        return compose_launch(
            pod, part.spec, image, env, setting, folder, attempt, volumes=volumes, cgroups=groups
        )

    def _shared_memory(self) -> Iterator[str]:
        """Where volumes in memory are of an agent that can't mount: seen by a ``hostPath`` of ``/dev/shm`` else."""
        if not self._agent.is_root:
            for each in Path("/dev/shm").glob(f"pilothouse-{self._agent.uid}-*"):
                # Others can make links of that name: what they lead to would be covered.
                if stat.S_ISDIR((found := each.lstat()).st_mode) and found.st_uid == self._agent.uid:
                    yield str(each)

    def _ids(self, pod: Object) -> IdRange | None:
        """The machine's ids that are the pod's own. Raises ``NotReady``."""
        if not self._agent.is_root or has_host_users(pod):
            return None
        survey = self._parts.survey.ids
        if survey.allowed:
            return self._id_ranges.claim(PodDirectory(self._settings.pods / pod.uid))
        if self._settings.allow_host_users:
            return None
        raise NotReady(
            UNAVAILABLE,
            f"pods can't have user ids of their own on this node: {survey.why}; put its data folder on a filesystem, and "
            "the machine on a kernel, that can (Linux 6.3, ext4 or xfs), or start it with --allow-host-users to run pods "
            "with the machine's own ids",
        )

    def limit_anew(self, pod: Object) -> None:
        """Have containers that run held to the limits that their volumes have by now."""
        throttles = self._parts.volumes.throttles(pod.uid)
        for part in parts(pod.spec):
            # What an earlier agent has set is not known: it is set again.
            if self._throttles.get(part.name, ()) != throttles:
                self._limit(pod, part)

    def _limit(self, pod: Object, part: PodContainer) -> tuple[str, ...]:
        """The control groups of a container. Where they can't be had it runs without, and the pod says so."""
        throttles = self._parts.volumes.throttles(pod.uid)
        limits = limits_of(part.spec, pids=self._settings.pids, throttles=throttles)
        self._throttles[part.name] = throttles
        group = self._parts.groups.group(group_name(pod.uid, part.name))
        try:
            self._parts.groups.group(pod_group(pod.uid)).make(
                weight_of((each.spec for each in parts(pod.spec)), self._settings.pids)
            )
            complaints = group.make(limits)
        except OSError as problem:
            self._complaints[part.name] = denied(limits, describe_error(problem))
            return ()
        self._complaints[part.name] = broken_promises(complaints)
        return group.folders

    async def _source(self, pod: Object, source: Source) -> Object | None:
        kind, name = source
        try:
            return await self._api.find(ConfigMap if kind == CONFIG_MAP else Secret, name, pod.namespace)
        except (StatusError, TransportError, AccessError) as problem:
            raise NotReady("CreateContainerConfigError", f"{kind} {name} can't be read: {problem}") from None


def image_name(pod: Object, part: PodContainer) -> str:
    """The image that a container asks for. One that brings the pilot along stands for the pilot that is installed here, whatever it names."""
    brings_pilot = part.role is ContainerRole.INIT and (part.spec.get("command") or [])[:3] == _INSTALL_PILOT
    if brings_pilot and HAS_PILOT in pod.labels:
        return "host/pilothouse"
    return str(part.spec.get("image") or "")
