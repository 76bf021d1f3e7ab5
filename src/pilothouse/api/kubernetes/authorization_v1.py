"""``authorization.k8s.io/v1``: questions about rights, answered on the spot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pilothouse.api.kubernetes.kind_builders import review
from pilothouse.api.kubernetes.shared_checks import Problems
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Object, Resource, single

_V1: Final = "authorization.k8s.io/v1"


def resources() -> tuple[Resource, ...]:
    return (
        single(review(_V1, "SubjectAccessReview", validate=_validate(of_others=True))),
        single(review(_V1, "LocalSubjectAccessReview", namespaced=True, validate=_validate_local)),
        single(review(_V1, "SelfSubjectAccessReview", validate=_validate(of_others=False))),
        single(review(_V1, "SelfSubjectRulesReview")),
    )


def _validate(*, of_others: bool) -> Callable[[Object, Object | None], Problems]:
    def validate(new: Object, old: Object | None) -> Problems:
        spec = new["spec"]
        resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        if resource is not None and path is not None:
            yield FieldError.invalid(
                "spec.nonResourceAttributes",
                path,
                "cannot be specified in combination with resourceAttributes",
            )
        if resource is None and path is None:
            yield FieldError.invalid(
                "spec.resourceAttributes",
                None,
                "exactly one of nonResourceAttributes or resourceAttributes must be specified",
            )
        if of_others and not spec.get("user") and not spec.get("groups"):
            yield FieldError.invalid(
                "spec.user", spec.get("user", ""), "at least one of user or group must be specified"
            )

    return validate


def _validate_local(new: Object, old: Object | None) -> Problems:
    yield from _validate(of_others=True)(new, old)
    spec = new["spec"]
    asked = (spec.get("resourceAttributes") or {}).get("namespace", "")
    if spec.get("resourceAttributes") is not None and asked != new["metadata"].get("namespace", ""):
        yield FieldError.invalid("spec.resourceAttributes.namespace", asked, "must match metadata.namespace")
    if spec.get("nonResourceAttributes") is not None:
        yield FieldError.invalid(
            "spec.nonResourceAttributes", spec["nonResourceAttributes"], "disallowed on this kind of request"
        )
