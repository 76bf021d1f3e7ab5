"""``navigator.jetstack.io``: clusters of databases, and the pilots beside their instances.

``v1alpha1`` and ``v1beta1`` hold the fields, ``conversion`` the way between them, ``validation`` the rules, and ``cluster_kinds``
puts them together. ``elasticsearch``, ``cassandra`` and ``pilots`` say what follows from a spec.
"""

from __future__ import annotations

from pilothouse.meta.kind import Resource


def resources() -> tuple[Resource, ...]:
    """The kinds of this group. They are put together when first asked for: a client needs only the fields."""
    from pilothouse.api.navigator import cluster_kinds

    return cluster_kinds.resources()
