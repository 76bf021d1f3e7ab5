"""The types of a launch inside the shim: the fields of `launch_spec`, as plain dictionaries.

For the type checker alone; never imported at run time, since `typing` is more than a shim may have in memory.
"""

from __future__ import annotations

from typing import TypedDict


class UserShape(TypedDict):
    uid: int
    gid: int
    groups: tuple[int, ...]


class IdsShape(TypedDict):
    first: int
    count: int


class LogShape(TypedDict):
    path: str
    max_bytes: int
    files: int


class MountShape(TypedDict):
    source: str
    target: str
    part: str
    foreign: bool
    kind: str
    read_only: bool
    size: int | None
    is_file: bool
    mapped: bool


class ViewShape(TypedDict):
    hostname: str
    mounts: list[MountShape]
    read_only_root: bool
    hidden: list[str]
    machine: list[str]
    masked: bool


class HomeShape(TypedDict):
    """A user's own folder, and its owner, as the machine counts; -1 for whoever makes it."""

    path: str
    uid: int
    gid: int


class LaunchShape(TypedDict):
    argv: list[str]
    env: dict[str, str]
    cwd: str
    user: UserShape | None
    view: ViewShape | None
    ids: IdsShape | None
    seccomp: bytes
    cgroups: list[str]
    oom_score_adj: int | None
    stdin: bool
    stdin_once: bool
    tty: bool
    umask: int
    open_files: int
    no_new_privileges: bool
    capabilities: list[str] | None
    log: LogShape


class EntryShape(TypedDict):
    """What is to be run inside a container that runs already."""

    pid: int
    argv: list[str]
    env: dict[str, str]
    cwd: str
    user: UserShape | None
    confined: bool
    """Whether the container has a view of its own."""
    seccomp: bytes
    capabilities: list[str] | None
    cgroups: list[str]
    oom_score_adj: int | None
    umask: int
    no_new_privileges: bool
    tty: bool
