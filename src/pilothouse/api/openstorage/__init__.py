"""``autopilot.libopenstorage.org``: rules on metrics that fire corrective actions."""

from __future__ import annotations

from pilothouse.meta.kind import Resource


def resources() -> tuple[Resource, ...]:
    """The kinds of this group, built on first use: a client needs only the fields."""
    from pilothouse.api.openstorage import rule_kinds

    return rule_kinds.resources()
