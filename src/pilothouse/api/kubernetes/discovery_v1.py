"""``discovery.k8s.io/v1``: the addresses behind services, in slices."""

from __future__ import annotations

from pilothouse.api.kubernetes import services
from pilothouse.api.kubernetes.kind_builders import native
from pilothouse.meta.kind import Resource, single


def resources() -> tuple[Resource, ...]:
    slices = native(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        generation=True,
        columns=services.SLICE_COLUMNS,
        validate=services.validate_slice,
    )
    return (single(slices),)
