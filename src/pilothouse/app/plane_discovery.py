"""Finds the data folder for a command that was not given one.

    find(CONTROL_PLANE)             # FoundPlane(data=…, origin="where `pilothouse up` runs"); raises NoPlane

In this order: ``PILOTHOUSE_DATA``; running planes of this user (``plane_registry``), of which there must be
one; a plane that was killed; the ``.data`` of the checkout that this program is part of; the default data
folder. A folder that is found has to belong to this user or to root, and be writable by no one else: the
kubeconfig in it says which server the command trusts.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pilothouse
from pilothouse.app.options import StartError, data_path_problem, default_data
from pilothouse.app.plane_registry import RegistryEntry, Role, entries, is_trusted

VARIABLE: Final = "PILOTHOUSE_DATA"


@dataclass(frozen=True)
class WantedPlane:
    """What a command looks for."""

    noun: str
    roles: tuple[Role, ...]
    """What has to run on the folder."""
    mark: str
    """The file that marks the folder of a plane that does not run."""
    remedy: str = "start one with `pilothouse up`"
    """What to do where there is none."""


CONTROL_PLANE: Final = WantedPlane("control plane", ("up", "apiserver"), "admin.kubeconfig")
UP: Final = WantedPlane("`pilothouse up`", ("up",), "admin.kubeconfig")
NODE: Final = WantedPlane("node", ("up", "node"), "format")
JOINED_NODE: Final = WantedPlane(
    "joined node", ("node",), "node.kubeconfig", "a machine becomes one with `pilothouse join`"
)


@dataclass(frozen=True)
class FoundPlane:
    """A data folder, and how it was found."""

    data: Path
    origin: str
    """As a clause that follows the folder's name in a message."""
    running: bool = False
    """Whether what was looked for is known to run on it."""


class NoPlane(Exception):
    """No data folder was found, or more than one could be meant."""


def find(wanted: WantedPlane, environ: Mapping[str, str] = os.environ) -> FoundPlane:
    """The folder to use. Raises ``NoPlane``."""
    if named := environ.get(VARIABLE):
        data = Path(named).absolute()
        if problem := data_path_problem(data):
            raise NoPlane(f"{VARIABLE}: {problem}")
        return FoundPlane(data, f"which {VARIABLE} names", runs_on(data, wanted))
    if (running := find_running(wanted)) is not None:
        return running
    for data, origin in _stopped(wanted):
        if _is_ours(data) and _has(data, wanted.mark):
            return FoundPlane(data, origin, _is_up(data))
    raise NoPlane(
        f"no {wanted.noun} of yours is running on this machine, and there is no data of one in "
        f"{' or '.join(_places())}; {wanted.remedy}, or name its data folder with --data or {VARIABLE}"
    )


def find_running(wanted: WantedPlane) -> FoundPlane | None:
    """The one that runs, of this user; None if there is none. Raises ``NoPlane`` if there are several."""
    folders = running_folders(wanted)
    if len(folders) > 1:
        listed = ", ".join(map(str, sorted(folders)))
        raise NoPlane(f"several are running, on {listed}: name one with --data or {VARIABLE}")
    for data, role in folders.items():
        return FoundPlane(data, f"where `pilothouse {role}` runs", running=True)
    return None


def running_folders(wanted: WantedPlane) -> dict[Path, Role]:
    """The data folders that it runs on, of this user."""
    return {each.data: each.role for each in _known(wanted) if each.running}


def runs_on(data: Path, wanted: WantedPlane) -> bool:
    """Whether it is known to run on this folder."""
    return os.path.realpath(data) in map(os.path.realpath, running_folders(wanted))


def _known(wanted: WantedPlane) -> Iterator[RegistryEntry]:
    return (each for each in entries() if each.role in wanted.roles and _is_ours(each.data))


def _stopped(wanted: WantedPlane) -> Iterator[tuple[Path, str]]:
    """Folders of planes that do not run, as far as is known, and what to say of each."""
    for each in _known(wanted):
        yield each.data, f"where `pilothouse {each.role}` ran until it was killed"
    if (checkout := _checkout()) is not None:
        yield checkout / ".data", "the data folder of this checkout"
    yield default_data(), "the default data folder"


def _places() -> list[str]:
    checkout = _checkout()
    return [*([str(checkout / ".data")] if checkout is not None else []), str(default_data())]


def _checkout() -> Path | None:
    """The checkout that this code is part of. Not the current folder, which may belong to anyone."""
    root = Path(pilothouse.__file__).parents[2]
    return root if (root / "scripts" / "up").exists() and (root / "pyproject.toml").exists() else None


def _is_ours(data: Path) -> bool:
    try:
        found = os.lstat(data)
        if stat.S_ISLNK(found.st_mode):
            # The mode of a link says nothing; its owner counts, and its target.
            return found.st_uid in (os.geteuid(), 0) and is_trusted(os.stat(data))
        return is_trusted(found)
    except OSError:
        return False


def _has(data: Path, mark: str) -> bool:
    try:
        return (data / mark).exists()
    except PermissionError:
        # Root's own, and we are not root.
        return False


def _is_up(data: Path) -> bool:
    """Whether an ``up`` that is not in the registry holds the folder."""
    # Imported here: most commands never need it.
    from pilothouse.app.up_state import holder

    try:
        return (found := holder(data)) is not None and found.lives
    except (OSError, StartError):
        return False
