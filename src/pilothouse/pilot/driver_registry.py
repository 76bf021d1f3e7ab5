"""Which driver knows a database: those that come along, and whatever is installed beside them.

    driver = find_driver("redis", place)

A package brings a driver with an entry point of the group ``pilothouse.drivers``: its name is the application, its value a function
from a ``InstanceEnvironment`` to the driver.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Final, cast

from pilothouse.pilot.driver import Driver, InstanceEnvironment

GROUP: Final = "pilothouse.drivers"
OURS: Final = {
    "elasticsearch": "pilothouse.pilot.drivers.elasticsearch.elasticsearch_driver",
    "redis": "pilothouse.pilot.drivers.redis",
}
Make = Callable[[InstanceEnvironment], Driver]


class UnknownApplication(Exception):
    """No driver has this name."""


def find_driver(application: str, place: InstanceEnvironment) -> Driver:
    """Raises ``UnknownApplication``, which names those that there are."""
    installed = {point.name: point for point in entry_points(group=GROUP)}
    if application in installed:
        return cast(Make, installed[application].load())(place)
    if application in OURS:
        return cast(Make, importlib.import_module(OURS[application]).make)(place)
    known = ", ".join(sorted({*OURS, *installed}))
    raise UnknownApplication(f"no driver knows {application!r}; there are {known}")
