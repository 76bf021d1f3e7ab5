"""Finds the driver of an application: one of ours, or one of another package.

    driver = find_driver("memcached", instance)

A package has a driver as an entry point of the group ``pilothouse.drivers``: its name is the application, its
value a function from an ``InstanceEnvironment`` to the driver.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import cast

from pilothouse.api.applications.registry import DRIVERS, InvalidApplication
from pilothouse.pilot.driver import Driver, InstanceEnvironment
from pilothouse.pilot.drivers import BUILT_IN

Make = Callable[[InstanceEnvironment], Driver]


class UnknownApplication(Exception):
    """No driver has this name."""


def driver_names() -> list[str]:
    return sorted({*BUILT_IN, *(point.name for point in entry_points(group=DRIVERS))})


def find_driver(application: str, instance: InstanceEnvironment) -> Driver:
    """Raises ``UnknownApplication``, whose message lists the available drivers, or ``InvalidApplication``."""
    installed = {point.name: point for point in entry_points(group=DRIVERS)}
    if application in installed:
        point = installed[application]
        try:
            make = cast(Make, point.load())
        except (ImportError, AttributeError) as problem:
            raise InvalidApplication(f"entry point {point.value} can't be loaded: {problem}") from problem
        return make(instance)
    if application in BUILT_IN:
        return cast(Make, importlib.import_module(BUILT_IN[application]).make)(instance)
    raise UnknownApplication(f"no driver for {application!r}; available drivers: {', '.join(driver_names())}")
