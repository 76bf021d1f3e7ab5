"""What was read about an object, for ``explanation`` to explain and ``pilothouse why -o json`` to print.

Fields that are empty are not printed. Booleans always are: they have factories, whose defaults msgspec keeps.
"""

from __future__ import annotations

import msgspec

from pilothouse.api.objects import Tree


class ObjectFindings(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One object, and what the API server has about it."""

    api_version: str
    kind: str
    namespace: str
    name: str
    exists: bool = msgspec.field(default_factory=lambda: True)
    version: str = ""
    deleting: str = ""
    """When its deletion was requested; empty if it was not."""
    finalizers: tuple[str, ...] = ()
    decisions: tuple[Tree, ...] = ()
    """The ``Decision`` objects about it."""
    conditions: tuple[Tree, ...] = ()
    events: tuple[Tree, ...] = ()
    """The most recent ones, newest first."""
    problem: str = ""
    """Why a pod is not ready, or a volume is another control plane's."""
    remedy: str = ""
    log_errors: str = ""
    """The error lines at the end of the log of a container that failed without a termination message."""


class LeaseHolder(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The leading controller-manager, by its Lease."""

    lease: str
    name: str = ""
    """Empty if the Lease has no holder."""
    renewed: str = ""
    seconds: int = 0
    """The duration of the Lease."""


class Findings(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What was read about an object and the objects around it."""

    about: ObjectFindings
    owners: tuple[ObjectFindings, ...] = ()
    """Its controlling owner, the owner of that, and so on."""
    dependents: tuple[ObjectFindings, ...] = ()
    """The objects that it controls, and those that these control."""
    controllers: tuple[str, ...] = ()
    """The controllers of this kind."""
    disabled: tuple[str, ...] = ()
    """Those of them that do not run, because the server is a Kubernetes one."""
    leader: LeaseHolder = LeaseHolder("")
    serves_decisions: bool = msgspec.field(default_factory=lambda: True)
    """False if the server has no ``Decision`` kind."""


def event_time(event: Tree) -> str:
    """When an event last occurred."""
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"])
