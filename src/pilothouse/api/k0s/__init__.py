"""``autopilot.k0sproject.io``: plans that update machines, and the update configs that create them."""

from __future__ import annotations

from pilothouse.meta.kind import Resource


def resources() -> tuple[Resource, ...]:
    """The kinds of this group, built on first use: a client needs only the fields."""
    from pilothouse.api.k0s import plan_kinds

    return plan_kinds.resources()
