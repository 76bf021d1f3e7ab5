"""The media types of patches, for the server, its OpenAPI documents and the client."""

from __future__ import annotations

from typing import Final

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"


def accepted_patches(*, native: bool) -> list[str]:
    """What a PATCH may send. Only Kubernetes' own kinds have the merge keys of a strategic merge patch."""
    accepted = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
    return [*accepted, STRATEGIC_PATCH] if native else accepted
