"""``pilothouse.io``: what the system reports about itself."""

from __future__ import annotations

from pilothouse.meta.kind import Resource


def resources() -> tuple[Resource, ...]:
    """The kinds of this group, built on first use: a client needs only the fields."""
    from pilothouse.api.pilothouse import kinds

    return kinds.resources()
