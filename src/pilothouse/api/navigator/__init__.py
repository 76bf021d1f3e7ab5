"""``navigator.jetstack.io``: clusters of databases, and the pilots beside their instances."""

from __future__ import annotations

from pilothouse.meta.kind import Resource


def resources() -> tuple[Resource, ...]:
    """The kinds of this group, built on first use: a client needs only the fields."""
    from pilothouse.api.navigator import cluster_kinds

    return cluster_kinds.resources()
