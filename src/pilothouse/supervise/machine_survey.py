"""Finds out what this machine supports, by trying it: for the Node's conditions, and to reject what can't be honoured.

    survey = await survey_machine(folder, "pilothouse/node-1")
    survey.view.allowed, survey.view.why       # False, "no namespaces of its own: Operation not permitted; run the node as root, ..."
    survey.limits["memory"].why                # "no part of /sys/fs/cgroup is delegated to us: ..."

Whether namespaces are allowed depends on kernel, sysctls, security modules and the container that the agent may run in; no file says it.
So a container with a view is started in `folder`; it exits at once.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from pilothouse.supervise import cgroups
from pilothouse.supervise.containers import start
from pilothouse.supervise.launch_spec import (
    FilesystemView,
    IdRange,
    LaunchError,
    LaunchSpec,
    LogPolicy,
    Mount,
)

SECONDS = 30.0
_IDS = IdRange(first=0xFFFE0000)
"""For the container that is tried; no pod is given these."""


class Capability(Struct, frozen=True):
    """Something that is possible here, or why it is not."""

    allowed: bool
    why: str = ""


class MachineSurvey(Struct, frozen=True):
    """What a node can promise."""

    view: Capability
    """Mount, UTS and PID namespaces for each container."""
    ids: Capability
    """A user namespace with 65,536 ids of its own for each container, and volumes mounted with their ids mapped."""
    users: Capability
    """Containers that run as other users than ourselves."""
    limits: Mapping[str, Capability]
    """By controller: cpu, memory, pids, io."""


async def survey_machine(folder: Path, base: str) -> MachineSurvey:
    """`folder` is made, and removed again; `base` is where the node's cgroups are to be."""
    found = cgroups.find(base)
    root = os.geteuid() == 0
    ids = await _tried(folder, _IDS) if root else Capability(False, f"{_who()}: it has no ids to give away")
    return MachineSurvey(
        view=ids if ids.allowed else await _tried(folder, None),
        ids=ids,
        users=Capability(True)
        if root
        else Capability(False, f"{_who()}: inside, any one number is shown for it, but no other is it"),
        limits={
            each: Capability(each not in found.unavailable, found.unavailable.get(each, ""))
            for each in cgroups.CONTROLLERS
        },
    )


def _who() -> str:
    return f"we are user {os.geteuid()}, not root"


async def _tried(folder: Path, ids: IdRange | None) -> Capability:
    """The program that is tried is the one we know to be there: our own interpreter."""
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    mounts = [Mount(str(folder), "/pilothouse-survey/here", read_only=True, mapped=ids is not None)]
    if ids is not None:
        # Secrets and tokens are kept in memory, which can be mapped since Linux 6.3.
        mounts.append(Mount("/dev/shm", "/pilothouse-survey/memory", read_only=True, mapped=True))
    machine = (sys.prefix, sys.base_prefix, sys.executable)
    launch = LaunchSpec(
        argv=(
            sys.executable,
            "-I",
            "-S",
            "-c",
            "import os; os._exit(os.getpid() != 1 or not os.path.isdir('/proc/1'))",
        ),
        view=FilesystemView(hostname="survey", mounts=tuple(mounts), machine=machine),
        ids=ids,
        log=LogPolicy(str(folder / "log")),
    )
    try:
        async with asyncio.timeout(SECONDS):
            exit = await (await start(folder, launch)).exited()
    except LaunchError as error:
        return Capability(False, error.message)
    except TimeoutError:
        return Capability(False, f"a container with a view of its own did not end in {SECONDS:g} s")
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    if exit.code:
        return Capability(False, f"a container with a view of its own ended with code {exit.code}")
    return Capability(True)
