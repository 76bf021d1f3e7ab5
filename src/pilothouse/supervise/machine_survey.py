"""Finds out what this machine supports, by trying it: for the Node's conditions, and to reject what can't be
honoured.

    survey = await survey_machine(folder, "pilothouse/node-1")
    survey.view.allowed, survey.view.why    # False, "no namespaces of its own: Operation not permitted ..."
    survey.limits["memory"].why             # "no part of /sys/fs/cgroup is delegated to us: ..."

Namespaces may be forbidden by the kernel, sysctls, security modules or the agent's own container, so a
container with a view is started in `folder`; it exits at once.
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
"""For the container that is tried; pods never get these."""


class Capability(Struct, frozen=True):
    """Whether something is possible here, and why not."""

    allowed: bool
    why: str = ""


class MachineSurvey(Struct, frozen=True):
    view: Capability
    """Mount, UTS and PID namespaces for each container."""
    ids: Capability
    """A user namespace with 65,536 ids for each container, and id-mapped volumes."""
    users: Capability
    """Containers that run as other users."""
    limits: Mapping[str, Capability]
    """By controller: cpu, memory, pids, io."""


async def survey_machine(folder: Path, base: str) -> MachineSurvey:
    """`folder` is created, and removed again; `base` is the parent of the node's cgroups."""
    found = cgroups.find(base)
    root = os.geteuid() == 0
    ids = await _tried(folder, _IDS) if root else Capability(False, f"{_who()}: it has no ids to give away")
    other_users = f"{_who()}: inside, any one number is shown for it, but no other is it"
    return MachineSurvey(
        view=ids if ids.allowed else await _tried(folder, None),
        ids=ids,
        users=Capability(True) if root else Capability(False, other_users),
        limits={
            each: Capability(each not in found.unavailable, found.unavailable.get(each, ""))
            for each in cgroups.CONTROLLERS
        },
    )


def _who() -> str:
    return f"we are user {os.geteuid()}, not root"


async def _tried(folder: Path, ids: IdRange | None) -> Capability:
    """Try a container with our own interpreter, which surely exists."""
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    mounts = [Mount(str(folder), "/pilothouse-survey/here", read_only=True, mapped=ids is not None)]
    if ids is not None:
        # Secrets and tokens are in tmpfs, which can be id-mapped since Linux 6.3.
        mounts.append(Mount("/dev/shm", "/pilothouse-survey/memory", read_only=True, mapped=True))
    machine = (sys.prefix, sys.base_prefix, sys.executable)
    program = "import os; os._exit(os.getpid() != 1 or not os.path.isdir('/proc/1'))"
    launch = LaunchSpec(
        argv=(sys.executable, "-I", "-S", "-c", program),
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
