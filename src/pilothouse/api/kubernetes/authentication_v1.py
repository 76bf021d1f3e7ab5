"""``authentication.k8s.io``: questions about identity, answered on the spot."""

from __future__ import annotations

from typing import Final

from pilothouse.api.kubernetes.kind_builders import CREATE_ONLY, native, review
from pilothouse.api.kubernetes.shared_checks import Problems
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Kind, Object, Resource, single

GROUP: Final = "authentication.k8s.io"
_SHORTEST: Final = 600


def resources() -> tuple[Resource, ...]:
    return (
        single(review(f"{GROUP}/v1", "TokenReview", confidential=True, validate=_validate_review)),
        Resource(
            kinds=tuple(review(f"{GROUP}/{version}", "SelfSubjectReview") for version in ("v1", "v1beta1")),
            storage="v1",
        ),
    )


def token_request() -> Kind:
    """The body of ``serviceaccounts/token``."""
    return native(
        f"{GROUP}/v1",
        "TokenRequest",
        virtual=True,
        verbs=CREATE_ONLY,
        validate=_validate_request,
    )


def _validate_review(new: Object, old: Object | None) -> Problems:
    if not new["spec"].get("token"):
        yield FieldError.required("spec.token")


def _validate_request(new: Object, old: Object | None) -> Problems:
    seconds = new["spec"].get("expirationSeconds", _SHORTEST)
    if seconds < _SHORTEST:
        yield FieldError.invalid(
            "spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"
        )
    if seconds > 1 << 32:
        yield FieldError.invalid(
            "spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"
        )
