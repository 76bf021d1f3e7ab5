"""Namespaces of a container's own: mount, UTS and PID, and where only that makes them possible, user."""

from __future__ import annotations

import errno
import os

from pilothouse.supervise.shim import kernel
from pilothouse.supervise.shim.refusing import HELP, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pilothouse.supervise.shim.shapes import UserShape

NAMESPACES = kernel.CLONE_NEWNS | kernel.CLONE_NEWUTS | kernel.CLONE_NEWPID


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
            raise Refusal("ViewRefused", f"no namespaces of its own: {error.strerror}") from None
        _enter_user_namespace(user)
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


def _enter_user_namespace(user: UserShape | None) -> None:
    """Ours under the number that was asked for, or our own."""
    uid, gid = os.geteuid(), os.getegid()
    inner_uid, inner_gid = (user["uid"], user["gid"]) if user is not None else (uid, gid)
    try:
        kernel.unshare(NAMESPACES | kernel.CLONE_NEWUSER)
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{inner_uid} {uid} 1"),
            ("gid_map", f"{inner_gid} {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    except OSError as error:
        raise Refusal(
            "ViewRefused",
            f"no namespaces of its own: {error.strerror}; {HELP}",
        ) from None
