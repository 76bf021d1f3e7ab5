"""What may change in a pod: images, a shorter deadline, more tolerations, fewer scheduling gates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pilothouse.api.kubernetes.shared_checks import Problems
from pilothouse.meta.fields import FieldError

Spec = Mapping[str, Any]

_CHANGEABLE: Final = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)
_FREE: Final = frozenset(
    {"containers", "initContainers", "activeDeadlineSeconds", "tolerations", "schedulingGates"}
)


def check_update(new: Spec, old: Spec, path: str) -> Problems:
    """Problems of an update through the main endpoint; binding to a node has its own."""
    for field in ("containers", "initContainers"):
        if len(new.get(field) or ()) != len(old.get(field) or ()):
            yield FieldError.forbidden(f"{path}.{field}", "pod updates may not add or remove containers")
            return
    yield from _check_deadline(new, old, f"{path}.activeDeadlineSeconds")
    yield from _check_tolerations(new, old, f"{path}.tolerations")
    kept = old.get("schedulingGates") or []
    if any(gate not in kept for gate in new.get("schedulingGates") or ()):
        yield FieldError.forbidden(
            f"{path}.schedulingGates", "only deletion is allowed, but found new scheduling gates"
        )
    changed = [*_changed_fields(new, old), *_changed_containers(new, old)]
    if changed:
        allowed = ",".join(_CHANGEABLE)
        yield FieldError.forbidden(
            path, f"pod updates may not change fields other than {allowed}; changed: {', '.join(changed)}"
        )


def _changed_fields(new: Spec, old: Spec) -> list[str]:
    gated = bool(old.get("schedulingGates"))
    found = []
    for field in sorted({*new, *old} - _FREE):
        if new.get(field) == old.get(field):
            continue
        if gated and field in ("nodeSelector", "affinity"):
            continue
        if field == "terminationGracePeriodSeconds" and old.get(field, 0) < 0 and new.get(field) == 1:
            continue
        found.append(field)
    return found


def _changed_containers(new: Spec, old: Spec) -> list[str]:
    found = []
    for field in ("containers", "initContainers"):
        for index, (mine, theirs) in enumerate(zip(new.get(field) or (), old.get(field) or (), strict=True)):
            if {**mine, "image": ""} != {**theirs, "image": ""}:
                found.append(f"{field}[{index}]")
    return found


def _check_deadline(new: Spec, old: Spec, path: str) -> Problems:
    mine, theirs = new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    if theirs is None:
        return
    if mine is None:
        yield FieldError.invalid(path, None, "must not update from a positive integer to nil value")
    elif mine > theirs:
        yield FieldError.invalid(path, mine, "must be less than or equal to previous value")


def _check_tolerations(new: Spec, old: Spec, path: str) -> Problems:
    """Each old toleration is still there; only its seconds may differ."""
    kept = [_without_seconds(each) for each in new.get("tolerations") or ()]
    if any(_without_seconds(each) not in kept for each in old.get("tolerations") or ()):
        yield FieldError.forbidden(
            path, "existing toleration can not be modified except its tolerationSeconds"
        )


def _without_seconds(toleration: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in toleration.items() if field != "tolerationSeconds"}
