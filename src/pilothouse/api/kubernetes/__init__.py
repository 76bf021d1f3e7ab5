"""Kubernetes' own kinds: as many of them as stateful applications need.

Fields come from a derived table (``table``). Written by hand: defaults, enumerations, descriptions, and per
group and version a module with validation, columns and update rules.
"""

from __future__ import annotations

from functools import cache

from pilothouse.meta.kind import Kind, Resource


@cache
def resources() -> tuple[Resource, ...]:
    """Every resource, built on first use, so that only servers read the table."""
    from pilothouse.api.kubernetes import (
        apiextensions_v1,
        apps_v1,
        authentication_v1,
        authorization_v1,
        batch_v1,
        certificates_v1,
        coordination_v1,
        core_v1,
        discovery_v1,
        events_v1,
        policy_v1,
        rbac_v1,
        storage_v1,
    )

    groups = (
        core_v1, apps_v1, batch_v1, policy_v1, storage_v1, coordination_v1, events_v1, discovery_v1,
        rbac_v1, authentication_v1, authorization_v1, certificates_v1, apiextensions_v1,
    )  # fmt: skip
    return tuple(resource for group in groups for resource in group.resources())


@cache
def bodies() -> dict[str, Kind]:
    """Kinds sent to subresources and never stored, by name: Binding, Eviction, Scale, TokenRequest."""
    from pilothouse.api.kubernetes import authentication_v1, autoscaling_v1, core_v1, policy_v1

    makers = (core_v1.binding, policy_v1.eviction, autoscaling_v1.scale, authentication_v1.token_request)
    return {kind.name: kind for kind in (make() for make in makers)}
