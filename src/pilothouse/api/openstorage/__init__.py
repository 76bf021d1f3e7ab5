"""``autopilot.libopenstorage.org``: rules on metrics that fire corrective actions.

``v1alpha1`` holds the fields, ``actions`` what can be done, ``rule_validation`` the rules, ``rule_kinds`` puts them together.
"""

from __future__ import annotations

from pilothouse.meta.kind import Resource


def resources() -> tuple[Resource, ...]:
    """The kinds of this group. They are put together when first asked for: a client needs only the fields."""
    from pilothouse.api.openstorage import rule_kinds

    return rule_kinds.resources()
