"""Configures the containers of one pod: image, environment, mounts, user ids, control groups.

configurator = ContainerConfigurator(api, settings, parts, agent, allocatable, images, id_ranges)
launch = await configurator.compose(pod, container, address, prepared, folder, attempt)
configurator.images, configurator.not_enforced          # for the pod's status
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
from pilothouse.node.containers.environment import CONFIG_MAP, Source, environment, referenced_sources
from pilothouse.node.containers.pilot_installation import installation
from pilothouse.node.containers.resource_limits import (
    all_unenforced,
    container_cgroup,
    container_limits,
    pod_cgroup,
    pod_limits,
    unenforced_limits,
)
from pilothouse.node.containers.security_context import AgentIdentity, has_host_users
from pilothouse.node.interfaces import NodeParts, NotReady, PreparedVolume
from pilothouse.node.lifecycle.container_roles import ContainerRole, PodContainer, containers_of
from pilothouse.node.machine.id_ranges import UNAVAILABLE, IdRanges
from pilothouse.node.pods.pod_directories import ContainerDirectory, PodDirectory
from pilothouse.node.settings import NodeSettings
from pilothouse.supervise.cgroup_settings import DeviceThrottle
from pilothouse.supervise.launch_spec import IdRange, LaunchSpec

_INSTALL_PILOT: Final = ["pilothouse", "pilot", "install"]


class ContainerConfigurator:
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
        """``images`` are the image ids in the pod's last reported status."""
        self._api = api
        self._settings = settings
        self._parts = parts
        self._agent = agent
        self._allocatable = allocatable
        self.images = dict(images)
        """The image id of each container."""
        self._id_ranges = id_ranges
        self._unenforced: dict[str, list[str]] = {}
        self._throttles: dict[str, tuple[DeviceThrottle, ...]] = {}

    @property
    def not_enforced(self) -> str:
        """Which limits are not enforced, and why; empty if all are."""
        return "; ".join(
            f"container {name}: {why}" for name, each in self._unenforced.items() for why in each
        )

    async def compose(
        self,
        pod: Object,
        container: PodContainer,
        address: str,
        prepared: Mapping[str, PreparedVolume],
        folder: ContainerDirectory,
        attempt: int,
    ) -> LaunchSpec:
        """The launch spec of one instance. Raises OSError, and ``NotReady`` if something is missing."""
        parts, settings = self._parts, self._settings
        image = parts.images.resolve(image_name(pod, container))
        self.images[container.name] = image.digest or image.name
        sources = {
            source: await self._source(pod, source) for source in sorted(referenced_sources(container.spec))
        }
        env = environment(
            pod,
            container.spec,
            sources,
            image.env,
            address=address,
            host=settings.address,
            allocatable=self._allocatable(),
            server=settings.server,
            other_servers=settings.other_servers,
            services=parts.addresses.services(pod.namespace),
        )
        setting = PodSetting(
            agent=self._agent,
            mounts=tuple(parts.addresses.mounts(pod, address)),
            hidden=(*settings.hidden, *self._shared_memory()),
            machine=(*installation(), *map(str, settings.exposed)),
            ids=self._ids(pod),
            open_files=settings.open_files,
            profiles=settings.data / "seccomp",
        )
        volumes = parts.volumes.mounts(pod, container.spec, prepared, env)
        groups = self._limit(pod, container)
        return compose_launch(
            pod, container.spec, image, env, setting, folder, attempt, volumes=volumes, cgroups=groups
        )

    def _shared_memory(self) -> Iterator[str]:
        """In-memory volumes of an unprivileged agent, which a ``hostPath`` of ``/dev/shm`` would expose."""
        if not self._agent.is_root:
            for each in Path("/dev/shm").glob(f"pilothouse-{self._agent.uid}-*"):
                # Other users can make links of that name: their targets would be hidden.
                if stat.S_ISDIR((found := each.lstat()).st_mode) and found.st_uid == self._agent.uid:
                    yield str(each)

    def _ids(self, pod: Object) -> IdRange | None:
        """The pod's range of user ids. Raises ``NotReady``."""
        if not self._agent.is_root or has_host_users(pod):
            return None
        survey = self._parts.survey.ids
        if survey.allowed:
            return self._id_ranges.claim(PodDirectory(self._settings.pods / pod.uid))
        if self._settings.allow_host_users:
            return None
        raise NotReady(
            UNAVAILABLE,
            f"pods can't have user ids of their own on this node: {survey.why}; put its data folder on a "
            "filesystem, and the machine on a kernel, that can (Linux 6.3, ext4 or xfs), or start it with "
            "--allow-host-users to run pods with the machine's own ids",
        )

    def update_limits(self, pod: Object) -> None:
        """Apply the current I/O limits of the pod's volumes to its running containers."""
        throttles = self._parts.volumes.throttles(pod.uid)
        for container in containers_of(pod.spec):
            # The limits that an earlier agent set are not known: set them again.
            if self._throttles.get(container.name, ()) != throttles:
                self._limit(pod, container)

    def _limit(self, pod: Object, container: PodContainer) -> tuple[str, ...]:
        """Create the container's control groups. Without them it runs too, and a pod condition says so."""
        throttles = self._parts.volumes.throttles(pod.uid)
        limits = container_limits(container.spec, pids=self._settings.pids, throttles=throttles)
        self._throttles[container.name] = throttles
        group = self._parts.groups.group(container_cgroup(pod.uid, container.name))
        try:
            self._parts.groups.group(pod_cgroup(pod.uid)).make(
                pod_limits((each.spec for each in containers_of(pod.spec)), self._settings.pids)
            )
            unenforced = group.make(limits)
        except OSError as problem:
            self._unenforced[container.name] = all_unenforced(limits, describe_error(problem))
            return ()
        self._unenforced[container.name] = unenforced_limits(unenforced)
        return group.folders

    async def _source(self, pod: Object, source: Source) -> Object | None:
        kind, name = source
        try:
            return await self._api.find(ConfigMap if kind == CONFIG_MAP else Secret, name, pod.namespace)
        except (StatusError, TransportError, AccessError) as problem:
            raise NotReady("CreateContainerConfigError", f"{kind} {name} can't be read: {problem}") from None


def image_name(pod: Object, container: PodContainer) -> str:
    """The image of a container. An init container that installs the pilot uses this node's pilot."""
    installs_pilot = (container.spec.get("command") or [])[:3] == _INSTALL_PILOT
    if installs_pilot and container.role is ContainerRole.INIT and HAS_PILOT in pod.labels:
        return "host/pilothouse"
    return str(container.spec.get("image") or "")
