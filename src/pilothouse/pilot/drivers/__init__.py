"""The drivers that come with Pilothouse, one module or package a database. They don't know each other."""

from __future__ import annotations

from typing import Final

BUILT_IN: Final = {
    "elasticsearch": "pilothouse.pilot.drivers.elasticsearch.elasticsearch_driver",
    "redis": "pilothouse.pilot.drivers.redis",
}
"""By application, the module whose ``make`` makes the driver; loaded by pilots of that application alone."""
