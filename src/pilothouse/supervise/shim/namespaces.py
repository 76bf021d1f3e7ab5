"""The namespaces of a container: mount, UTS, IPC, cgroup and PID, and a user namespace.

Under root the others belong to root, and the program enters its user namespace last, with ids that no other pod has. Without
privileges only a user namespace makes the others possible, so it comes first, and maps one id.
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

    from pilothouse.supervise.shim.launch_types import IdsShape, UserShape

_NS_GET_PARENT = 0xB702

OWNERS = 0x80000000
"""The first of the 65,536 ids that own user namespaces: one for each range of ids that a pod can have. None of them is in any pod.

The owner of a user namespace has every right over it from outside. Were it an id of the pod itself, a program outside that got this id, by
a set-user-id file that an earlier pod with the same range left behind, would be root over the pod.
"""

NAMESPACES = (
    kernel.CLONE_NEWNS
    | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWCGROUP
    | kernel.CLONE_NEWPID
)


def make_user_namespace(ids: IdsShape) -> int:
    """A user namespace in which 0, 1, … are these ids of the machine, by its descriptor. It takes root.

    A process has to be in it while its ids are written; it ends right after.
    """
    inside, entered = os.pipe()
    ended, end = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            os.close(end)
            _own_as(OWNERS + ids["first"] // 65536)
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
                file.write(f"0 {ids['first']} {ids['count']}")
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise ProgramStartError(
            "ViewRefused",
            f"no user namespace with {ids['count']} ids from {ids['first']} on: {error.strerror}",
        ) from None
    finally:
        os.close(inside)
        os.close(end)
        os.waitpid(pid, 0)


def _own_as(uid: int) -> None:
    """Be a user of the machine that is nobody, with root's capabilities: who makes a namespace is charged for what is used in it, so
    that pods would use up root's message queues, inotify instances and signals.
    """
    kernel.prctl(kernel.PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    kernel.raise_capabilities()


def enter_user_namespace(namespace: int) -> None:
    """Be root in it, with all capabilities over what is its own, and none over anything else."""
    kernel.setns(namespace, kernel.CLONE_NEWUSER)
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def enter_namespaces(user: UserShape | None, told_by: Callable[[int], None]) -> bool:
    """Into namespaces of our own; True if that took a user namespace, which knows one user.

    A PID namespace begins with the next fork. The process in between tells the shim who its child is (`told_by`), ends, and leaves the child
    to the shim; before that the child says nothing, or the shim would hear it first. The shim itself could not start threads in a namespace that isn't its own.
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
        told_by(pid)
        os.write(knowing, b"+")
        os._exit(0)
    os.close(knowing)
    if os.read(known, 1) != b"+":
        os._exit(1)
    os.close(known)
    return mapped


def _make_own_user_namespace(user: UserShape | None) -> None:
    """Ours under the number that was asked for, or our own."""
    uid, gid = os.geteuid(), os.getegid()
    inner_uid, inner_gid = (user["uid"], user["gid"]) if user is not None else (uid, gid)
    try:
        kernel.unshare(NAMESPACES | kernel.CLONE_NEWUSER)
        _map_one(f"{inner_uid} {uid} 1", f"{inner_gid} {gid} 1")
    except OSError as error:
        raise ProgramStartError(
            "ViewRefused",
            f"no namespaces of its own: {error.strerror}; {HELP}",
        ) from None


def lock_mounts() -> None:
    """Without privileges: go on in a user and a mount namespace below those that the view was built in, under the same number.

    The kernel lets nobody in there unmount what came from above, nor take "read-only" off it, whatever capabilities they have.
    """
    uid, gid = os.geteuid(), os.getegid()
    try:
        kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS)
    except (
        OSError
    ):  # No more namespaces are to be had. The filter and the capabilities that are dropped do the same.
        return
    _map_one(f"{uid} {uid} 1", f"{gid} {gid} 1")


def _map_one(uids: str, gids: str) -> None:
    for name, text in (("setgroups", "deny"), ("uid_map", uids), ("gid_map", gids)):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def outer_user_namespace(namespace: int) -> int:
    """The one that a user namespace was made in, unless that is our own: then -1."""
    outer: int = fcntl.ioctl(namespace, _NS_GET_PARENT)
    if os.fstat(outer).st_ino != os.stat("/proc/self/ns/user").st_ino:
        return outer
    os.close(outer)
    return -1
