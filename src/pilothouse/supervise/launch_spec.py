"""What to run and how, and how it ended: plain data, which also lies as JSON in a container's folder.

    launch = LaunchSpec(
        argv=("postgres", "-D", "/data"),
        env={"PGDATA": "/data"},
        user=ProcessUser(uid=999, gid=999, groups=(2000,)),
        view=FilesystemView(hostname="db-0", mounts=(Mount("/var/lib/pilothouse/volumes/7", "/data"),)),
        cgroups=group.folders,
        log=LogPolicy("/var/lib/pilothouse/pods/3/containers/db/0/log"),
    )

Without a view the program sees the machine as it is. With one it has mount, UTS and PID namespaces of its own: it is
PID 1, sees its mounts where it asked for them, and nothing that it starts outlives it.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

KILLED = 128
"""A program ended by signal n counts as one that exited with 128 + n, as shells and Kubernetes have it."""


class ProcessUser(Struct, frozen=True):
    """Who the program runs as. Without privileges only one's own files can be touched, whatever the numbers here say."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


class IdRange(Struct, frozen=True):
    """The machine's user and group ids that a container's own user namespace maps its ids 0 to `count` - 1 to."""

    first: int
    count: int = 65536


class LogPolicy(Struct, frozen=True):
    """Where the output goes. The newest lines are in `path`, older ones in `path`.1, `path`.2, and so on."""

    path: str
    max_bytes: int = 10 * 1024 * 1024
    files: int = 5
    """How many files in all, `path` included."""


class Mount(Struct, frozen=True):
    """Something placed in a container's view. The target need not exist on the machine, and is not created there."""

    source: str
    """A folder or file of the machine; for a tmpfs only a name."""
    target: str
    part: str = ""
    """A path in the source that is mounted instead of all of it. No link in it is followed, whoever puts one there meanwhile."""
    foreign: bool = False
    """A path that a user has named: it is refused if it leads into a hidden folder, at the moment when it is mounted."""
    kind: Literal["bind", "tmpfs"] = "bind"
    read_only: bool = False
    size: int | None = None
    """Bytes that a tmpfs may hold."""
    is_file: bool = False
    mapped: bool = False
    """Owners are shown as they are on disk, by an id-mapped mount, although the container has ids of its own (`LaunchSpec.ids`)."""


class FilesystemView(Struct, frozen=True):
    """How the machine looks from inside: private mount, UTS and PID namespaces."""

    hostname: str
    mounts: tuple[Mount, ...] = ()
    read_only_root: bool = False
    """All but the mounts that aren't read-only themselves."""
    hidden: tuple[str, ...] = ()
    """Folders that look empty wherever else they would be seen: those of the node itself."""
    machine: tuple[str, ...] = ()
    """Files and folders of the machine that are shown read-only at their own paths, beside `/usr` and the like."""
    masked: bool = True
    """Whether the parts of `/proc` and `/sys` that speak of the whole machine are covered or read-only, as the OCI runtime
    specification has it."""


class LaunchSpec(Struct, frozen=True, kw_only=True):
    """A program to run as a container."""

    argv: tuple[str, ...]
    """The program is looked for along env's PATH, inside the view, unless it has a slash in it."""
    env: dict[str, str] = {}
    cwd: str = "/"
    user: ProcessUser | None = None
    view: FilesystemView | None = None
    ids: IdRange | None = None
    """A user namespace with these ids of the machine, for a view made by root; None runs it with the machine's own ids."""
    seccomp: bytes = b""
    """A classic BPF program that judges its system calls (see `supervise.seccomp`); empty for none."""
    cgroups: tuple[str, ...] = ()
    """Folders of cgroups to be in from the first instruction on: one with cgroup v2, one a controller with v1."""
    oom_score_adj: int | None = None
    stdin: bool = False
    stdin_once: bool = False
    """Standard input ends with the first client that was attached to it."""
    tty: bool = False
    umask: int = 0o22
    open_files: int = 0
    """How many files it may have open unless it asks for more (the soft limit); 0 for as many as we may."""
    no_new_privileges: bool = False
    capabilities: tuple[str, ...] | None = None
    """Those it may have, as in `NET_BIND_SERVICE`; None leaves all that we have ourselves."""
    log: LogPolicy


class ContainerExit(Struct, frozen=True):
    """How a container ended."""

    code: int
    """0 to 255; 128 + n when signal n ended it."""
    signal: int | None
    oom: bool
    """The kernel killed in it because its memory was used up."""
    started: float
    finished: float
    """Seconds since 1970."""
    lost: bool = False
    """Its shim was killed or the machine went down, so how it ended is not known; the code is then 137."""


class LaunchError(Exception):
    """The program could not be started. `reason` is one word; the message says what would be right."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
