"""The namespaces of a container: mount, UTS, IPC, cgroup and PID, and a user namespace.

Under root the others belong to root, and the program enters its user namespace last, with ids that no other
pod has. Without privileges only a user namespace makes the others possible, so it comes first, and maps one
id.
"""

from __future__ import annotations

import errno
import fcntl
import os

from pilothouse.supervise.shim import kernel
from pilothouse.supervise.shim.start_errors import HELP, ProgramStartError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pilothouse.supervise.launch_spec import IdRange, ProcessUser

_NS_GET_PARENT = 0xB702

OWNERS = 0x80000000
"""The first of 65,536 ids that own user namespaces, one for each possible range of a pod. None of them is in
any pod.

The owner of a user namespace has every right over it from outside. Were it an id of the pod itself, a program
outside that got this id, by a set-user-id file of an earlier pod with the same range, would be root over the
pod.
"""

NAMESPACES = (
    kernel.CLONE_NEWNS
    | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWCGROUP
    | kernel.CLONE_NEWPID
)


def make_user_namespace(ids: IdRange) -> int:
    """Make a user namespace in which 0, 1, … are these ids of the machine; returns its descriptor. Needs
    root.

    A process has to be in it while its ids are written; it ends right after.
    """
    inside, entered = os.pipe()
    ended, end = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            os.close(end)
            _own_as(OWNERS + ids.first // 65536)
            kernel.unshare(kernel.CLONE_NEWUSER)
            os.write(entered, b"+")
            os.read(ended, 1)  # Until its other end is closed, by us or by our death.
        finally:
            os._exit(0)
    os.close(entered)
    os.close(ended)
    try:
        if os.read(inside, 1) != b"+":
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{pid}/{name}", "w") as file:
                file.write(f"0 {ids.first} {ids.count}")
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        why = f"no user namespace with {ids.count} ids from {ids.first} on: {error.strerror}"
        raise ProgramStartError("ViewRefused", why) from None
    finally:
        os.close(inside)
        os.close(end)
        os.waitpid(pid, 0)


def _own_as(uid: int) -> None:
    """Become an unused user of the machine, with root's capabilities: the owner of a namespace is charged for
    what is used in it, so pods would use up root's message queues, inotify instances and signals."""
    kernel.prctl(kernel.PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    kernel.raise_capabilities()


def enter_user_namespace(namespace: int) -> None:
    """Become root in it, with all capabilities over what it owns, and none over anything else."""
    kernel.setns(namespace, kernel.CLONE_NEWUSER)
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def enter_namespaces(user: ProcessUser | None, report_pid: Callable[[int], None]) -> bool:
    """Enter namespaces of our own; True if that took a user namespace, which maps one user.

    A PID namespace begins with the next fork. The process in between reports its child's pid to the shim
    (`report_pid`) and exits, which leaves the child to the shim; the child writes nothing before that, or the
    shim would read it first. The shim itself could not start threads in a namespace that isn't its own.
    """
    mapped = False
    try:
        kernel.unshare(NAMESPACES)
    except OSError as error:
        if error.errno != errno.EPERM:
            raise ProgramStartError("ViewRefused", f"no namespaces of its own: {error.strerror}") from None
        _make_own_user_namespace(user)
        mapped = True
    known, knowing = os.pipe()
    if (pid := os.fork()) != 0:
        report_pid(pid)
        os.write(knowing, b"+")
        os._exit(0)
    os.close(knowing)
    if os.read(known, 1) != b"+":
        os._exit(1)
    os.close(known)
    return mapped


def _make_own_user_namespace(user: ProcessUser | None) -> None:
    """Map our user to the requested number, or to our own."""
    uid, gid = os.geteuid(), os.getegid()
    inner_uid, inner_gid = (user.uid, user.gid) if user is not None else (uid, gid)
    try:
        kernel.unshare(NAMESPACES | kernel.CLONE_NEWUSER)
        _map_one(f"{inner_uid} {uid} 1", f"{inner_gid} {gid} 1")
    except OSError as error:
        why = f"no namespaces of its own: {error.strerror}; {HELP}"
        raise ProgramStartError("ViewRefused", why) from None


def lock_mounts() -> None:
    """Without privileges: go on in a user and a mount namespace below those that the view was built in, with
    the same id.

    There the kernel refuses to unmount what came from above, or to make it writable, whatever the
    capabilities.
    """
    uid, gid = os.geteuid(), os.getegid()
    try:
        kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS)
    except OSError:  # No more namespaces: the seccomp filter and the dropped capabilities do the same.
        return
    _map_one(f"{uid} {uid} 1", f"{gid} {gid} 1")


def _map_one(uids: str, gids: str) -> None:
    for name, text in (("setgroups", "deny"), ("uid_map", uids), ("gid_map", gids)):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def outer_user_namespace(namespace: int) -> int:
    """The parent of a user namespace; -1 if that is our own."""
    outer: int = fcntl.ioctl(namespace, _NS_GET_PARENT)
    if os.fstat(outer).st_ino != os.stat("/proc/self/ns/user").st_ino:
        return outer
    os.close(outer)
    return -1
