"""Every kind that is served without asking: ours, and the part of Kubernetes that they need."""

from __future__ import annotations

from pilothouse.api import k0s, kubernetes, navigator, openstorage, pilothouse
from pilothouse.meta.kind import Resource


def own_resources() -> tuple[Resource, ...]:
    """The kinds that are ours, which a real Kubernetes gets as CRDs."""
    return (
        *navigator.resources(),
        *k0s.resources(),
        *openstorage.resources(),
        *pilothouse.resources(),
    )


def resources() -> tuple[Resource, ...]:
    """All kinds."""
    return (*own_resources(), *kubernetes.resources())
