"""The registered applications: ours, and those of installed packages.

A package adds one by entry points: ``pilothouse.applications`` for an ``Application``, ``pilothouse.drivers``
for a driver alone. All processes of a control plane must find the same ones: API servers drop unknown
sections of Pilots.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Final

from pilothouse.api.applications.cassandra_application import CASSANDRA
from pilothouse.api.applications.descriptor import Application
from pilothouse.api.applications.elasticsearch_application import ELASTICSEARCH
from pilothouse.api.applications.redis_application import REDIS
from pilothouse.meta import names

APPLICATIONS: Final = "pilothouse.applications"
DRIVERS: Final = "pilothouse.drivers"
BUILT_IN: Final = (CASSANDRA, ELASTICSEARCH, REDIS)


class InvalidApplication(Exception):
    """An entry point of another package can't be used."""


@cache
def applications() -> tuple[Application, ...]:
    """All of them, ours first. Raises ``InvalidApplication``."""
    return (*BUILT_IN, *installed())


@cache
def installed() -> tuple[Application, ...]:
    """Those of other packages, by name. Raises ``InvalidApplication``."""
    ours = {each.name for each in BUILT_IN}
    # Only the name of a driver is asked for: an API server does not load it.
    found = {point.name: Application(name=point.name) for point in entry_points(group=DRIVERS)}
    for point in entry_points(group=APPLICATIONS):
        if point.name in ours:
            raise InvalidApplication(
                f"entry point {point.value}: {point.name} is an application of Pilothouse itself"
            )
        try:
            described = point.load()
        except (ImportError, AttributeError) as problem:
            raise InvalidApplication(f"entry point {point.value} can't be loaded: {problem}") from problem
        if not isinstance(described, Application) or described.name != point.name:
            raise InvalidApplication(
                f"entry point {point.value} is not an Application with the name {point.name}"
            )
        found[point.name] = described
    for name in found:
        if wrong := names.label(name):
            raise InvalidApplication(f"application {name!r}: {wrong}")
    return tuple(found[name] for name in sorted(found.keys() - ours))


def find_application(name: str) -> Application:
    """The application of this name; an unregistered one has no properties of its own."""
    return next((each for each in applications() if each.name == name), Application(name=name))


def application_of_cluster(group: str, kind: str) -> Application | None:
    """The application whose clusters are of this kind, whatever the version, or None."""
    for each in applications():
        if each.cluster is not None and (each.cluster.group, each.cluster.kind) == (group, kind):
            return each
    return None


def application_of_owner(owner: Mapping[str, Any] | None) -> Application | None:
    """The application whose cluster an owner reference names, or None."""
    if owner is None:
        return None
    return application_of_cluster(
        str(owner.get("apiVersion", "")).rpartition("/")[0], str(owner.get("kind", ""))
    )
