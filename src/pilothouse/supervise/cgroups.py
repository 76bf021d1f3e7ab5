"""Control groups: resource limits and usage of containers, as far as the machine allows.

    cgroups = find("pilothouse/node-1")
    cgroups.unavailable                              # {"io": "the kernel does not offer it ..."}
    cgroups.weigh(os.cpu_count())                    # the weight against other processes of the machine
    group = cgroups.group("pods/3f2a/db")
    for message in group.make(Limits(cpu=2, memory=2**30, pids=500)): ...    # what is not enforced, and why
    launch = LaunchSpec(..., cgroups=group.folders)
    ...
    await group.remove()                             # kills the processes in it

v2 has one tree, v1 one for each controller, and many machines a mixture: every writable tree is used. For an
ordinary user that is the delegated subtree, if any (`systemd-run --user --scope -p Delegate=yes`). A
restarted agent finds its groups by their names.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from pilothouse.supervise.cgroup_settings import (
    UNTHROTTLED,
    USAGE_FILES_V1,
    USAGE_FILES_V2,
    Limits,
    Setting,
    Usage,
    settings_v1,
    settings_v2,
    usage_v1,
    usage_v2,
)

CONTROLLERS = ("cpu", "memory", "pids", "io")
"""v2's names; v1 has blkio for io, and counts CPU time in cpuacct."""
_V1_NAMES = {"cpu": "cpu", "memory": "memory", "pids": "pids", "io": "blkio"}
PODS = "pods"
"""The parent of pods' groups."""
REMOVE_SECONDS = 10.0


class GroupBusy(Exception):
    """A group can't be removed: its killed processes have not ended."""


class Cgroup:
    """One cgroup, whether or not it exists yet: a directory in each tree."""

    def __init__(
        self, trees: Mapping[str, Path], unified: Path | None, name: str, unavailable: Mapping[str, str]
    ) -> None:
        self._trees = {controller: tree / name for controller, tree in trees.items()}
        self._top = unified
        self._unified = None if unified is None else unified / name
        self._unavailable = unavailable

    @classmethod
    def holding(cls, folders: Iterable[str]) -> Cgroup:
        """The parent of a launch's groups (`LaunchSpec.cgroups`). At least one."""
        above = [Path(folder).parent for folder in folders]
        return cls({str(each.parent): each.parent for each in above}, None, above[0].name, {})

    @property
    def folders(self) -> tuple[str, ...]:
        """The directories that a process joins; for `LaunchSpec.cgroups`."""
        return tuple(str(folder) for folder in self._folders())

    def make(self, limits: Limits) -> tuple[str, ...]:
        """Create it, or change its limits. Returns which of them are not enforced, and why."""
        for made in self._folders():
            made.mkdir(parents=True, exist_ok=True)
        if self._top is not None and self._unified is not None:
            _hand_down(self._top, self._unified)
        failures: dict[str, str] = {}
        for setting, folder in self._settings(limits):
            why = self._why_not(setting, folder)
            if why and setting.limit:
                failures.setdefault(setting.limit, why)
        return tuple(f"{limit} is not enforced: {why}" for limit, why in failures.items())

    def usage(self) -> Usage:
        old = usage_v1(_texts(self._trees.values(), USAGE_FILES_V1))
        new = usage_v2(_texts(() if self._unified is None else (self._unified,), USAGE_FILES_V2))
        # On a mixed machine each tree counts something.
        known = {name: value for name, value in msgspec.structs.asdict(old).items() if value is not None}
        return msgspec.structs.replace(new, **known)

    def kill(self) -> None:
        """Kill all processes in it and below it."""
        if self._unified is not None:
            with contextlib.suppress(FileNotFoundError):
                if (switch := self._unified / "cgroup.kill").exists():
                    switch.write_text("1")
                    return
        for pid in self._processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def remove(self, *, seconds: float = REMOVE_SECONDS) -> None:
        """Kill its processes and remove it. Raises GroupBusy."""
        deadline = time.monotonic() + seconds
        while True:
            # In each round: without cgroup.kill, a fork bomb outruns a single one.
            self.kill()
            left = [folder for folder in self._folders() if not _removed(folder)]
            if not left:
                return
            if time.monotonic() > deadline:
                raise GroupBusy(f"{left[0]} still has processes {seconds:g} s after they were killed")
            await asyncio.sleep(0.01)

    def _folders(self) -> list[Path]:
        trees = [*self._trees.values(), *(() if self._unified is None else (self._unified,))]
        return list(dict.fromkeys(trees))

    def _processes(self) -> set[int]:
        found: set[int] = set()
        for folder in self._folders():
            for each in (folder, *_below(folder)):
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    found.update(int(line) for line in (each / "cgroup.procs").read_text().split())
        return found

    def _settings(self, limits: Limits) -> Iterator[tuple[Setting, Path | None]]:
        for setting in settings_v1(limits):
            if setting.controller in self._trees:
                yield setting, self._trees[setting.controller]
        for setting in settings_v2(limits):
            if setting.controller in self._unavailable:
                yield setting, None
            elif _V1_NAMES[setting.controller] not in self._trees:
                yield setting, self._unified

    def _why_not(self, setting: Setting, folder: Path | None) -> str:
        if folder is None:
            return self._unavailable.get(setting.controller, "there is no cgroup to hold it")
        try:
            (folder / setting.file).write_text(setting.value)
        except OSError as error:
            return f"{folder / setting.file} refuses {setting.value!r}: {error.strerror}"
        return ""


class Cgroups:
    """The cgroup trees of this machine."""

    def __init__(
        self, base: str, trees: Mapping[str, Path], unified: Path | None, unavailable: Mapping[str, str]
    ) -> None:
        self._base = base
        self._trees = trees
        self._unified = unified
        self.unavailable = unavailable
        """Controllers that can't be used, and why."""

    def group(self, name: str) -> Cgroup:
        """A group by its name, which may contain slashes. Creates nothing."""
        return Cgroup(self._trees, self._unified, f"{self._base}/{name}", self.unavailable)

    def remove_empty(self) -> None:
        """Remove the empty parents of all groups."""
        folders = {*self._trees.values(), *(() if self._unified is None else (self._unified,))}
        for folder in folders:
            remove_empty(folder / self._base / PODS, 2 + self._base.count("/"))

    def weigh(self, processors: float) -> None:
        """Set the CPU weight of all groups together. By default they weigh as much as one process outside."""
        parts = self._base.split("/")
        for depth in range(len(parts)):
            above = "/".join(parts[: depth + 1])
            Cgroup(self._trees, self._unified, above, self.unavailable).make(Limits(cpu_request=processors))


def find(base: str, *, proc: Path = Path("/proc")) -> Cgroups:
    """Find the usable trees, with all groups below one called `base`."""
    v1, v2 = _mounted(os.fsdecode((proc / "self/mountinfo").read_bytes()))
    own = dict(_own((proc / "self/cgroup").read_text()))
    unified = _writable(v2, own.get("", "/")) if v2 is not None else None
    if unified is not None:
        _leave_to_leaf(unified, base)
    offered = set((unified / "cgroup.controllers").read_text().split()) if unified is not None else set()
    trees: dict[str, Path] = {}
    unavailable: dict[str, str] = {}
    for controller in CONTROLLERS:
        old = _V1_NAMES[controller]
        if controller in offered:
            continue
        if old in v1:
            if (tree := _writable(v1[old], own.get(old, "/"))) is not None:
                trees[old] = tree
            else:
                unavailable[controller] = f"{v1[old]} is not ours to write: run as root"
        elif unified is not None:
            unavailable[controller] = f"the kernel does not offer it at {unified}"
        elif v2 is not None:
            unavailable[controller] = (
                f"no part of {v2} is delegated to us: run as root, or with systemd-run --user --scope "
                "-p Delegate=yes"
            )
        else:
            unavailable[controller] = "no cgroup filesystem is mounted"
    if "cpu" in trees and "cpuacct" in v1 and (tree := _writable(v1["cpuacct"], own.get("cpuacct", "/"))):
        trees["cpuacct"] = tree
    return Cgroups(base, trees, unified, unavailable)


def remove_empty(folder: Path, levels: int) -> None:
    """Remove a group and its parents, up to `levels`, or to the first that is not empty."""
    for each in (folder, *folder.parents)[:levels]:
        try:
            each.rmdir()
        except FileNotFoundError:
            continue
        except OSError:  # It is not empty.
            return


def release_processors(folders: Iterable[str]) -> None:
    """Unthrottle killed processes, which need CPU time to end: a throttled fork bomb would take minutes."""
    for folder in map(Path, folders):
        for file, value in UNTHROTTLED:
            if (folder / file).exists():
                with contextlib.suppress(OSError):  # It is gone by now.
                    (folder / file).write_text(value)


def _mounted(mountinfo: str) -> tuple[dict[str, Path], Path | None]:
    """v1's trees by controller, and v2's tree."""
    v1: dict[str, Path] = {}
    v2 = None
    # Names in it are of any bytes; the kernel escapes no line break but this one.
    for line in filter(None, mountinfo.split("\n")):
        front, _, back = line.partition(" - ")
        kind, _, options = back.split(" ", 2)
        point = Path(front.split(" ")[4].replace("\\040", " "))
        if kind == "cgroup2":
            v2 = v2 or point
        elif kind == "cgroup":
            for option in options.split(","):
                v1.setdefault(option, point)
    return v1, v2


def _own(text: str) -> Iterator[tuple[str, str]]:
    """Our own group by controller; v2's has no name."""
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, path


def _writable(mount: Path, own: str) -> Path | None:
    """The highest group from our own upwards in which we may create others."""
    here = mount / own.strip("/")
    best = None
    for folder in (here, *here.parents):
        if not folder.is_relative_to(mount):
            break
        if os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK):
            best = folder
    return best


def _leave_to_leaf(parent: Path, base: str) -> None:
    """Move our processes to a leaf: in v2 only the root may have both processes and limited groups."""
    if not (parent / "cgroup.type").exists():
        return
    processes = (parent / "cgroup.procs").read_text().split()
    if processes:
        leaf = parent / f"{base.split('/')[0]}-agent"
        leaf.mkdir(exist_ok=True)
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                (leaf / "cgroup.procs").write_text(pid)


def _hand_down(top: Path, group: Path) -> None:
    """Enable all available controllers from the top down to the group's parent."""
    for folder in reversed([each for each in group.parents if each.is_relative_to(top)]):
        offered = (folder / "cgroup.controllers").read_text().split()
        passed = (folder / "cgroup.subtree_control").read_text().split()
        for controller in CONTROLLERS:
            if controller in offered and controller not in passed:
                with contextlib.suppress(OSError):  # Reported where the limit can't be written.
                    (folder / "cgroup.subtree_control").write_text(f"+{controller}")


def _texts(folders: Iterable[Path], names: Iterable[str]) -> dict[str, str]:
    found = {}
    wanted = tuple(names)
    for folder in folders:
        for name in wanted:
            with contextlib.suppress(OSError):
                found[name] = (folder / name).read_text()
    return found


def _below(folder: Path) -> list[Path]:
    return [Path(here) for here, _, _ in os.walk(folder)][1:]


def _removed(folder: Path) -> bool:
    """Remove a group with all below it, deepest first."""
    for each in (*reversed(_below(folder)), folder):
        try:
            each.rmdir()
        except (FileNotFoundError, NotADirectoryError):  # It never existed.
            continue
        except OSError:
            return False
    return True
