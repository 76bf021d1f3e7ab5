"""``autopilot.k0sproject.io``: plans that update machines safely, and who makes them.

``v1beta2`` holds the fields, ``plan_validation`` the rules, ``plan_kinds`` puts them together.
"""

from __future__ import annotations

from pilothouse.meta.kind import Resource


def resources() -> tuple[Resource, ...]:
    """The kinds of this group. They are put together when first asked for: a client needs only the fields."""
    from pilothouse.api.k0s import plan_kinds

    return plan_kinds.resources()
