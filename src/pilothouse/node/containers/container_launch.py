"""The launch spec of a container, from its manifest, image, environment, volumes and address.

    launch = compose_launch(pod, container, image, env, setting, folder, attempt)

The image's arguments apply only to the image's entrypoint, as in Kubernetes. Reads only this machine's users
and seccomp profiles, and the top directory of an image that is mounted at ``/``.
"""

from __future__ import annotations

import os
import pwd
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from pilothouse.api.kubernetes.pods.qos_class import quality_of_service
from pilothouse.api.objects import Object, Tree
from pilothouse.node.containers import security_context
from pilothouse.node.containers.container_index import LOG
from pilothouse.node.containers.environment import MOST_IN_ALL, expanded, hostname
from pilothouse.node.containers.seccomp_profiles import seccomp_filter
from pilothouse.node.images.image_manifest import MANIFEST
from pilothouse.node.interfaces import Image, NotReady
from pilothouse.node.pods.pod_directories import ContainerDirectory
from pilothouse.supervise.launch_spec import (
    FilesystemView,
    IdRange,
    LaunchSpec,
    LogPolicy,
    Mount,
    ProcessUser,
)
from pilothouse.supervise.shim.rootfs import PROGRAMS

MESSAGE_PATH: Final = "/dev/termination-log"
_ERROR: Final = "CreateContainerConfigError"
_PROGRAMS: Final = tuple(f"/{name}" for name in PROGRAMS)


class PodSetting(msgspec.Struct, frozen=True):
    agent: security_context.AgentIdentity
    mounts: tuple[Mount, ...] = ()
    """The files for name resolution: /etc/hosts, /etc/resolv.conf."""
    hidden: tuple[str, ...] = ()
    """The node's own directories, which no container may see."""
    machine: tuple[str, ...] = ()
    """Further paths of the machine that a container sees, so that it can run a pilot."""
    ids: IdRange | None = None
    """The pod's range of user ids."""
    open_files: int = 0
    """The soft limit of open files; 0 for the agent's own limit."""
    profiles: Path = Path("/nonexistent")
    """The directory of ``Localhost`` seccomp profiles."""


def compose_launch(
    pod: Object,
    container: Tree,
    image: Image,
    env: Mapping[str, str],
    setting: PodSetting,
    folder: ContainerDirectory,
    attempt: int,
    *,
    volumes: Sequence[Mount] = (),
    cgroups: tuple[str, ...] = (),
) -> LaunchSpec:
    """Raises ``NotReady`` for a configuration that can't be honoured."""
    if not container.get("command"):
        _check_visible(image, setting.machine)
    user = security_context.user(pod, container, image.user, setting.agent)
    _check_range(user, setting.ids)
    env = {"HOME": _home(setting.agent.uid if user is None else user.uid), **env}
    mounts = [*_image_mounts(image), *setting.mounts, *volumes]
    message_path = container.get("terminationMessagePath") or MESSAGE_PATH
    mounts.append(
        Mount(str(folder.termination_message_file(attempt)), message_path, is_file=True, mapped=True)
    )
    own = container.get("securityContext") or {}
    view = FilesystemView(
        hostname=hostname(pod),
        mounts=tuple(mounts),
        read_only_root=bool(own.get("readOnlyRootFilesystem")),
        hidden=setting.hidden,
        machine=setting.machine,
        masked=security_context.is_masked(container),
    )
    capabilities = security_context.capabilities(container)
    return LaunchSpec(
        argv=_command(container, image, env),
        env=env,
        cwd=container.get("workingDir") or image.working_dir or "/",
        user=user,
        view=view,
        cgroups=cgroups,
        oom_score_adj=oom_score(pod, container),
        stdin=bool(container.get("stdin")),
        stdin_once=bool(container.get("stdinOnce")),
        tty=bool(container.get("tty")),
        no_new_privileges=security_context.no_new_privileges(container),
        capabilities=capabilities,
        open_files=setting.open_files,
        ids=setting.ids,
        seccomp=seccomp_filter(
            pod, container, capabilities, setting.profiles, shared_user=not setting.agent.is_root
        ),
        log=LogPolicy(str(folder.attempt(attempt) / LOG)),
    )


def _image_mounts(image: Image) -> Iterator[Mount]:
    if image.root is None or not image.mount_at:
        return
    if image.mount_at != "/":
        yield Mount(str(image.root), image.mount_at, read_only=True)
        return
    for name in sorted(os.listdir(image.root)):
        if name != MANIFEST:
            yield Mount(str(image.root / name), f"/{name}", read_only=True)


def _check_range(user: ProcessUser | None, ids: IdRange | None) -> None:
    """Check that the user's ids are in the pod's range. Raises ``NotReady``."""
    if user is None or ids is None:
        return
    if beyond := [each for each in (user.uid, user.gid, *user.groups) if each >= ids.count]:
        raise NotReady(
            _ERROR,
            f"id {beyond[0]} is more than a pod with user ids of its own has (0 to {ids.count - 1}); choose "
            "a lower one in securityContext, or set hostUsers: true in a namespace at level privileged",
        )


def _check_visible(image: Image, machine: Sequence[str]) -> None:
    """Check that containers can see a program of the machine. Raises ``NotReady``."""
    if image.root is not None or not image.entrypoint:
        return
    program = image.entrypoint[0]
    if program.startswith("/") and not any(
        program == each or program.startswith(f"{each}/") for each in (*_PROGRAMS, *machine)
    ):
        raise NotReady(
            "ErrImageNeverPull",
            f"image {image.name} is a program outside of what containers see of the machine; start the node "
            f"with --expose-path {os.path.dirname(program)}",
        )


def _command(container: Tree, image: Image, env: Mapping[str, str]) -> tuple[str, ...]:
    command = container.get("command")
    arguments = container.get("args")
    if arguments is None:
        arguments = () if command else image.cmd
    name = f'container "{container["name"]}"'
    argv: list[str] = []
    left = MOST_IN_ALL
    for text in (*(command or image.entrypoint), *arguments):
        argv.append(expanded(text, env))
        left -= len(argv[-1])
        if left < 0:
            raise NotReady(_ERROR, f"arguments of {name} are larger than {MOST_IN_ALL} characters in all")
    if not argv:
        raise NotReady(
            _ERROR,
            f'image "{container.get("image", "")}" has no entrypoint, and {name} no command; set command in '
            "the "
            "container, or import the image again with `pilothouse image import --entrypoint`",
        )
    return tuple(argv)


def _home(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        return "/"


def stop_signal(container: Tree) -> signal.Signals:
    """The container's stop signal; SIGTERM for one that this machine does not know."""
    name = (container.get("lifecycle") or {}).get("stopSignal")
    return signal.Signals.__members__.get(str(name), signal.SIGTERM)


def oom_score(pod: Object, container: Tree) -> int:
    """The ``oom_score_adj`` of a container, by its pod's QoS class."""
    match pod.status.get("qosClass") or quality_of_service(pod.spec):
        case "Guaranteed":
            return 0
        case "BestEffort":
            return 1000
    return 500
