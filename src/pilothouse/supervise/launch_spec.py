"""The launch spec of a container, and its exit status: plain data, also stored as JSON in a container's
directory.

    launch = LaunchSpec(
        argv=("postgres", "-D", "/data"),
        env={"PGDATA": "/data"},
        user=ProcessUser(uid=999, gid=999, groups=(2000,)),
        view=FilesystemView(hostname="db-0", mounts=(Mount("/var/lib/pilothouse/volumes/7", "/data"),)),
        cgroups=group.folders,
        log=LogPolicy("/var/lib/pilothouse/pods/3/containers/db/0/log"),
    )

Without a view the program runs in the machine's namespaces. With one it has mount, UTS and PID namespaces of
its own: it is PID 1, sees its mounts at their targets, and no process that it starts outlives it. A new
field reaches the shim (`supervise.shim.launch_order`) and the exec helper by itself.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

KILLED = 128
"""The exit code of a program that signal n killed is 128 + n, as in shells and Kubernetes."""


class ProcessUser(Struct, frozen=True):
    """The user of the program. Without privileges the ids are only shown; files are the agent's."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


class IdRange(Struct, frozen=True):
    """The machine's ids to which a container's user namespace maps its ids 0 to `count` - 1."""

    first: int
    count: int = 65536


class LogPolicy(Struct, frozen=True):
    """The log files. The latest lines are in `path`, older ones in `path`.1, `path`.2, and so on."""

    path: str
    max_bytes: int = 10 * 1024 * 1024
    files: int = 5
    """The number of files, including `path`."""


class Mount(Struct, frozen=True):
    """A mount in a container's view. The target need not exist on the machine, and is not created there."""

    source: str
    """A directory or file of the machine; for a tmpfs only a name."""
    target: str
    part: str = ""
    """A path below the source that is mounted instead. No link in it is followed, even one made meanwhile."""
    foreign: bool = False
    """Whether a user has named the path: it is refused if it leads into a hidden directory."""
    kind: Literal["bind", "tmpfs"] = "bind"
    read_only: bool = False
    size: int | None = None
    """Bytes that a tmpfs may hold."""
    is_file: bool = False
    mapped: bool = False
    """Whether the mount is id-mapped: with `LaunchSpec.ids`, owners appear as they are on disk."""


class FilesystemView(Struct, frozen=True):
    """The container's own mount, UTS and PID namespaces."""

    hostname: str
    mounts: tuple[Mount, ...] = ()
    read_only_root: bool = False
    """Applies to everything except writable mounts."""
    hidden: tuple[str, ...] = ()
    """Directories that are hidden wherever a mount would show them: the node's own."""
    machine: tuple[str, ...] = ()
    """Paths of the machine that are shown read-only, beside `/usr` and the like."""
    masked: bool = True
    """Whether paths of `/proc` and `/sys` are masked or read-only, as in the OCI runtime specification."""


class LaunchSpec(Struct, frozen=True, kw_only=True):
    argv: tuple[str, ...]
    """The program is looked up in env's PATH, inside the view, unless it contains a slash."""
    env: dict[str, str] = {}
    cwd: str = "/"
    user: ProcessUser | None = None
    view: FilesystemView | None = None
    ids: IdRange | None = None
    """A user namespace with these ids of the machine, for a view made by root; None for the machine's ids."""
    seccomp: bytes = b""
    """A classic BPF program that filters its system calls (see `supervise.seccomp`); empty for none."""
    cgroups: tuple[str, ...] = ()
    """The cgroups that it joins before its first instruction: one with v2, one a controller with v1."""
    oom_score_adj: int | None = None
    stdin: bool = False
    stdin_once: bool = False
    """Standard input ends with the first client that was attached to it."""
    tty: bool = False
    umask: int = 0o22
    open_files: int = 0
    """The soft limit of open files; 0 for the caller's own."""
    no_new_privileges: bool = False
    capabilities: tuple[str, ...] | None = None
    """Names such as `NET_BIND_SERVICE`; None keeps the caller's capabilities."""
    log: LogPolicy


class ContainerExit(Struct, frozen=True):
    code: int
    """0 to 255; 128 + n when signal n ended it."""
    signal: int | None
    oom: bool
    """Whether the kernel's OOM killer killed a process of it."""
    started: float
    finished: float
    """Seconds since 1970."""
    lost: bool = False
    """The exit status is unknown, as the shim or the machine went down; the code is 137."""


class LaunchError(Exception):
    """The program failed to start. `reason` is one word; the message says what to do."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
