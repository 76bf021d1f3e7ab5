"""The spec of a StatefulSet, parsed and with defaults.

    wanted = read(set)              # UnreadableSpec for an invalid field, with its path
    wanted.ordinals                 # range(0, 3): the ordinals that should exist
    wanted.first_updated            # the first ordinal that a template change reaches

The server validates sets: an invalid one bypassed it or is of a later version. Its pods are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pilothouse.api.objects import Object, Tree
from pilothouse.meta.int_or_percent import scaled
from pilothouse.meta.selectors import LabelSelector, SelectorError


class UnreadableSpec(ValueError):
    """A field of the spec is invalid."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")


class SetSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The spec of a set, with Kubernetes' defaults."""

    replicas: int
    start: int
    parallel: bool
    on_delete: bool
    partition: int | None
    """None for a rolling update without parameters."""
    max_unavailable: int | None
    min_ready_seconds: int
    history_limit: int
    delete_when_deleted: bool
    delete_when_scaled: bool
    selector: LabelSelector
    match_labels: Mapping[str, str]
    template: Tree
    claim_templates: tuple[Tree, ...]
    service: str

    @property
    def ordinals(self) -> range:
        """The ordinals that should have a pod."""
        return range(self.start, self.start + self.replicas)

    @property
    def first_updated(self) -> int:
        """The lowest ordinal that an update reaches."""
        return self.start + (self.partition or 0)


def read(stateful_set: Object) -> SetSpec:
    """Parse the spec. Raises UnreadableSpec."""
    spec = stateful_set.spec
    selector = _mapping(spec, "selector")
    try:
        selects = LabelSelector.from_object(selector)
    except SelectorError as error:
        raise UnreadableSpec("spec.selector", str(error)) from error
    if not selects:
        raise UnreadableSpec("spec.selector", "selects every pod; expected at least one label")
    template = _mapping(spec, "template")
    labels = _mapping(_mapping(template, "metadata", "spec.template."), "labels", "spec.template.metadata.")
    if not selects.matches(labels):
        raise UnreadableSpec("spec.template.metadata.labels", f"expected labels that match {selects}")
    strategy = _mapping(spec, "updateStrategy")
    rolling = strategy.get("rollingUpdate")
    within = "spec.updateStrategy.rollingUpdate."
    replicas = _number(spec, "replicas", 1)
    retention = _mapping(spec, "persistentVolumeClaimRetentionPolicy")
    claims = spec.get("volumeClaimTemplates") or []
    for index, claim in enumerate(claims):
        if not _mapping(claim, "metadata", f"spec.volumeClaimTemplates[{index}].").get("name"):
            raise UnreadableSpec(f"spec.volumeClaimTemplates[{index}].metadata.name", "expected a name")
    return SetSpec(
        replicas=replicas,
        start=_number(_mapping(spec, "ordinals"), "start", 0, "spec.ordinals."),
        parallel=_choice(spec, "podManagementPolicy", "OrderedReady", "Parallel"),
        on_delete=_choice(strategy, "type", "RollingUpdate", "OnDelete", "spec.updateStrategy."),
        partition=_number(rolling, "partition", 0, within) if rolling is not None else None,
        max_unavailable=_allowance(rolling or {}, replicas, within),
        min_ready_seconds=_number(spec, "minReadySeconds", 0),
        history_limit=_number(spec, "revisionHistoryLimit", 10),
        delete_when_deleted=_retention(retention, "whenDeleted"),
        delete_when_scaled=_retention(retention, "whenScaled"),
        selector=selects,
        match_labels=_mapping(selector, "matchLabels", "spec.selector."),
        template=dict(template),
        claim_templates=tuple(claims),
        service=str(spec.get("serviceName") or ""),
    )


def _allowance(rolling: Mapping[str, Any], replicas: int, within: str) -> int | None:
    value = rolling.get("maxUnavailable")
    if value is None:
        return None
    try:
        # A percentage that rounds to zero would block every update.
        return max(1, scaled(value, replicas, up=False))
    except ValueError as error:
        raise UnreadableSpec(f"{within}maxUnavailable", str(error)) from error


def _retention(policy: Mapping[str, Any], field: str) -> bool:
    return _choice(policy, field, "Retain", "Delete", "spec.persistentVolumeClaimRetentionPolicy.")


def _mapping(within: Mapping[str, Any], field: str, path: str = "spec.") -> Mapping[str, Any]:
    value = within.get(field)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise UnreadableSpec(f"{path}{field}", f"expected an object, found {value!r}")
    return value


def _number(within: Mapping[str, Any], field: str, default: int, path: str = "spec.") -> int:
    value = within.get(field)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise UnreadableSpec(f"{path}{field}", f"expected a number that is not negative, found {value!r}")
    return value


def _choice(within: Mapping[str, Any], field: str, usual: str, other: str, path: str = "spec.") -> bool:
    """True for the second of two values."""
    value = within.get(field) or usual
    if value not in (usual, other):
        raise UnreadableSpec(f"{path}{field}", f"expected {usual} or {other}, found {value!r}")
    return bool(value == other)
