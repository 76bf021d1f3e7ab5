"""Every kind that is served by default: ours, and the part of Kubernetes that they need."""

from __future__ import annotations

from pilothouse.api import k0s, kubernetes, navigator, openstorage, pilothouse
from pilothouse.meta.kind import Resource


def own_resources() -> tuple[Resource, ...]:
    """Our own kinds, which a real Kubernetes gets as CRDs."""
    return (
        *navigator.resources(),
        *k0s.resources(),
        *openstorage.resources(),
        *pilothouse.resources(),
    )


def resources() -> tuple[Resource, ...]:
    return (*own_resources(), *kubernetes.resources())
