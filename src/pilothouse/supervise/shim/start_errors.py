"""Why a program failed to start: a reason (one word) and a message for people."""

from __future__ import annotations


class ProgramStartError(Exception):
    """`LaunchError`, inside the shim."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


HELP = (
    "run the node as root, or allow unprivileged user namespaces: sysctl user.max_user_namespaces, "
    "kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0, whichever this "
    "machine has"
)
"""Advice where the kernel refuses a view."""
