"""The ``Application`` for Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pilothouse.api.applications.descriptor import Application

if TYPE_CHECKING:
    from pilothouse.api.applications.pilot_sections import PilotSections


def _sections() -> PilotSections:
    from pilothouse.api.applications.pilot_sections import PilotSections

    return PilotSections(spec=None, status=None)


REDIS: Final = Application(
    name="redis",
    summary="a Redis server",
    data_folder="/data",
    sections=_sections,
)
