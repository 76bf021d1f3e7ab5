"""``policy/v1``: disruption budgets and evictions."""

from __future__ import annotations

from typing import Final

from pilothouse.api.kubernetes.kind_builders import CREATE_ONLY, native
from pilothouse.api.kubernetes.printer_cells import AGE, NAME, at, column
from pilothouse.api.kubernetes.shared_checks import Problems, count_or_percent, label_selector
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Kind, Object, Resource, single


def resources() -> tuple[Resource, ...]:
    budgets = native(
        "policy/v1",
        "PodDisruptionBudget",
        short_names=("pdb",),
        status=True,
        generation=True,
        unconditional_update=False,
        columns=_COLUMNS,
        prepare_create=_prepare,
        validate=_validate,
    )
    return (single(budgets),)


def eviction() -> Kind:
    """The body of ``pods/eviction``."""
    return native("policy/v1", "Eviction", virtual=True, verbs=CREATE_ONLY)


def _prepare(obj: Object) -> None:
    obj["status"] = {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}


def _validate(new: Object, old: Object | None) -> Problems:
    spec = new["spec"]
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        yield FieldError.invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for field, value in (("minAvailable", least), ("maxUnavailable", most)):
        if value is not None:
            yield from count_or_percent(f"spec.{field}", value)
    if spec.get("selector") is not None:
        yield from label_selector(spec["selector"], "spec.selector")


_COLUMNS: Final = (
    NAME,
    column(
        "Min Available",
        "How many must stay available.",
        lambda obj, now: str(at("spec", "minAvailable", missing="N/A")(obj, now)),
    ),
    column(
        "Max Unavailable",
        "How many may be down.",
        lambda obj, now: str(at("spec", "maxUnavailable", missing="N/A")(obj, now)),
    ),
    column(
        "Allowed Disruptions",
        "How many may be evicted now.",
        at("status", "disruptionsAllowed", missing=0),
        type="integer",
    ),
    AGE,
)
