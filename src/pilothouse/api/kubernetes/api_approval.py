"""The approval that definitions in community groups (``*.k8s.io``, ``*.kubernetes.io``) need.

    approval("widgets.k8s.io", {"api-approved.kubernetes.io": "https://github.com/kubernetes/…/pull/78458"})

The annotation is the URL of the approval, or text that begins with ``unapproved``. States, messages and the
condition ``KubernetesAPIApprovalPolicyConformant`` are kube-apiserver's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Object

ANNOTATION: Final = "api-approved.kubernetes.io"
CONDITION: Final = "KubernetesAPIApprovalPolicyConformant"
APPROVED, BYPASSED, MISSING, INVALID = (
    "ApprovedAnnotation",
    "UnapprovedAnnotation",
    "MissingAnnotation",
    "InvalidAnnotation",
)
_PROTECTED: Final = ("k8s.io", "kubernetes.io")
_SEE: Final = "see https://github.com/kubernetes/enhancements/pull/1111"
_AUTHORITY: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://([^/?\x00-\x1f\x7f]+)([/?][^\x00-\x1f\x7f]*)?")
_HOST: Final = re.compile(r"""[\w\-.~!$&'()*+,;=\[\]<>":%]+""")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9a-fA-F]{2})")


class Approval(msgspec.Struct, frozen=True):
    """One of the states above, and a sentence about it."""

    state: str
    message: str

    def condition(self) -> dict[str, str]:
        """The condition without its time."""
        status = "True" if self.state == APPROVED else "False"
        return {"type": CONDITION, "status": status, "reason": self.state, "message": self.message}


def approval(group: str, annotations: Mapping[str, Any] | None) -> Approval | None:
    """The approval of a definition in a group; None if the group needs none."""
    if not any(group == each or group.endswith(f".{each}") for each in _PROTECTED):
        return None
    given = str((annotations or {}).get(ANNOTATION) or "")
    if not given:
        return Approval(MISSING, f'protected groups must have approval annotation "{ANNOTATION}", {_SEE}')
    if given.startswith("unapproved"):
        return Approval(BYPASSED, f'not approved: "{given}"')
    if _is_url(given):
        return Approval(APPROVED, f"approved in {given}")
    return Approval(
        INVALID,
        f'protected groups must have approval annotation "{ANNOTATION}" with either a URL or a reason '
        f'starting with "unapproved", {_SEE}',
    )


def approval_problems(new: Object, old: Object | None) -> Iterator[FieldError]:
    """Problems of the approval. Definitions stored without one can still be changed."""
    found = _approval_of(new)
    if found is None or found.state in (APPROVED, BYPASSED):
        return
    before = _approval_of(old) if old is not None else None
    if before is not None and before.state == found.state:
        return
    path = f"metadata.annotations[{ANNOTATION}]"
    if found.state == MISSING:
        yield FieldError.required(path, found.message)
    else:
        yield FieldError.invalid(path, new["metadata"]["annotations"][ANNOTATION], found.message)


def _approval_of(definition: Object) -> Approval | None:
    group = (definition.get("spec") or {}).get("group")
    return approval(str(group or ""), definition["metadata"].get("annotations"))


def _is_url(text: str) -> bool:
    """True for a URL with scheme and host."""
    match = _AUTHORITY.fullmatch(text)
    if match is None or _BAD_ESCAPE.search(text.partition("?")[0]):
        return False
    return _HOST.fullmatch(match[1].rpartition("@")[2]) is not None
