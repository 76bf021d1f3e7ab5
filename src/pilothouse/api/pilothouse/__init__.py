"""``pilothouse.io``: what the system says about itself. ``v1alpha1`` holds the fields, ``kinds`` the rules."""

from __future__ import annotations

from pilothouse.meta.kind import Resource


def resources() -> tuple[Resource, ...]:
    """The kinds of this group. They are put together when first asked for: a client needs only the fields."""
    from pilothouse.api.pilothouse import kinds

    return kinds.resources()
