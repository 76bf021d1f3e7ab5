"""Deployments, ReplicaSets and DaemonSets: defaults, validation and columns.

No controller acts on them; each has a condition that says so.
"""

from __future__ import annotations

from typing import Any, Final

from pilothouse.api.kubernetes.pods.defaults import default_spec
from pilothouse.api.kubernetes.pods.validation import check_template
from pilothouse.api.kubernetes.printer_cells import (
    AGE,
    NAME,
    at,
    column,
    container_columns,
    labels_text,
    selector_text,
)
from pilothouse.api.kubernetes.shared_checks import (
    Problems,
    count_or_percent,
    label_selector,
    not_negative,
    unchanged,
)
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Column, Object
from pilothouse.meta.selectors import LabelSelector, SelectorError

_COUNTED: Final = ("updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")
_NUMBERS: Final = (
    "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady",
    "updatedNumberScheduled", "numberAvailable", "numberUnavailable",
)  # fmt: skip


def default_deployment(obj: Object) -> None:
    _default_strategy(obj["spec"].setdefault("strategy", {}), "25%", "25%")
    default_template(obj)


def default_daemon_set(obj: Object) -> None:
    _default_strategy(obj["spec"].setdefault("updateStrategy", {}), 1, 0)
    default_template(obj)


def _default_strategy(strategy: Object, unavailable: int | str, surge: int | str) -> None:
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", unavailable)
        rolling.setdefault("maxSurge", surge)


def default_template(obj: Object) -> None:
    """Defaults of the template's pods."""
    default_spec(obj["spec"].setdefault("template", {}).setdefault("spec", {}))


def validate_deployment(new: Object, old: Object | None) -> Problems:
    yield from _check_counts(new, old, ("replicas", *_COUNTED))
    if old is not None and new["spec"] == old["spec"]:
        return
    spec = new["spec"]
    yield from _check_spec(spec, old, "deployment", "ReplicaSet")
    yield from _check_rolling(spec["strategy"], "strategy")
    for field in ("revisionHistoryLimit", "progressDeadlineSeconds"):
        yield from not_negative(f"spec.{field}", spec.get(field))
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        yield FieldError.invalid(
            "spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"
        )


def validate_replica_set(new: Object, old: Object | None) -> Problems:
    yield from _check_counts(new, old, ("replicas", "fullyLabeledReplicas", *_COUNTED))
    if old is None or new["spec"] != old["spec"]:
        yield from _check_spec(new["spec"], old, "deployment", "ReplicaSet")


def validate_daemon_set(new: Object, old: Object | None) -> Problems:
    yield from _check_counts(new, old, _NUMBERS)
    if old is not None and new["spec"] == old["spec"]:
        return
    spec = new["spec"]
    yield from _check_spec(spec, old, "daemonset", "DaemonSet")
    yield from not_negative("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))
    yield from _check_rolling(spec["updateStrategy"], "updateStrategy")


def _check_counts(new: Object, old: Object | None, fields: tuple[str, ...]) -> Problems:
    status = new.get("status") or {}
    if old is not None and status != old.get("status"):
        for field in (*fields, "observedGeneration", "collisionCount"):
            yield from not_negative(f"status.{field}", status.get(field))


def _check_spec(spec: Object, old: Object | None, noun: str, of_template: str) -> Problems:
    for field in ("replicas", "minReadySeconds"):
        yield from not_negative(f"spec.{field}", spec.get(field))
    selector = spec.get("selector") or {}
    yield from check_selector(spec, noun)
    template = spec["template"]
    if old is None or template != old["spec"].get("template"):
        yield from check_template(template, "spec.template")
    yield from check_lasting(template, of_template)
    if old is not None:
        yield from unchanged("spec.selector", selector, old["spec"].get("selector") or {})


def check_lasting(template: Object, kind: str) -> Problems:
    """The template's pods are restarted whenever they end, and have no deadline."""
    policy = template["spec"].get("restartPolicy")
    if policy != "Always":
        yield FieldError.not_supported("spec.template.spec.restartPolicy", policy, ["Always"])
    if template["spec"].get("activeDeadlineSeconds") is not None:
        yield FieldError.forbidden(
            "spec.template.spec.activeDeadlineSeconds", f"activeDeadlineSeconds in {kind} is not Supported"
        )


def check_selector(spec: Object, noun: str) -> Problems:
    """The selector is not empty and matches the template's labels."""
    selector = spec.get("selector") or {}
    problems = list(label_selector(selector, "spec.selector"))
    yield from problems
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield FieldError.invalid("spec.selector", selector, f"empty selector is invalid for {noun}")
        return
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    try:
        fits = bool(problems) or LabelSelector.from_object(selector).matches(labels)
    except SelectorError as error:
        yield FieldError.invalid("spec.selector", selector, str(error))
        return
    if not fits:
        yield FieldError.invalid(
            "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"
        )


def _check_rolling(strategy: Object, noun: str) -> Problems:
    path, rolling = f"spec.{noun}", strategy.get("rollingUpdate")
    if strategy.get("type") != "RollingUpdate":
        if rolling is not None:
            yield FieldError.forbidden(
                f"{path}.rollingUpdate",
                f"may not be specified when {noun} `type` is '{strategy.get('type')}'",
            )
        return
    rolling = rolling or {}
    for field in ("maxUnavailable", "maxSurge"):
        if rolling.get(field) is not None:
            yield from count_or_percent(f"{path}.rollingUpdate.{field}", rolling[field])
    if all(rolling.get(field) in (0, "0%") for field in ("maxUnavailable", "maxSurge")):
        yield FieldError.invalid(
            f"{path}.rollingUpdate.maxUnavailable",
            rolling.get("maxUnavailable"),
            "may not be 0 when `maxSurge` is 0",
        )


def template_of(obj: Object) -> Any:
    """The pod spec of an object's template."""
    return ((obj.get("spec") or {}).get("template") or {}).get("spec") or {}


def _number(name: str, description: str, *way: str, type: str = "integer") -> Column:
    return column(name, description, at(*way, missing=0), type=type)


def wide_columns(
    template: Any = template_of, selector: Any = at("spec", "selector", missing=None)
) -> tuple[Column, ...]:
    """Columns of ``-o wide``: containers, images and selector."""
    return (
        *container_columns(template, wide=True),
        column(
            "Selector", "Which pods count.", lambda obj, now: selector_text(selector(obj, now)), wide=True
        ),
    )


def _ready(obj: Object, now: float) -> str:
    ready = (obj.get("status") or {}).get("readyReplicas", 0)
    return f"{ready}/{(obj.get('spec') or {}).get('replicas', 0)}"


READY: Final = column("Ready", "Pods that are ready, of those wanted.", _ready)
DEPLOYMENT_COLUMNS: Final = (
    NAME,
    READY,
    _number("Up-to-date", "Pods made from the current template.", "status", "updatedReplicas", type="string"),
    _number(
        "Available",
        "Pods that have been ready for long enough.",
        "status",
        "availableReplicas",
        type="string",
    ),
    AGE,
    *wide_columns(),
)
REPLICA_SET_COLUMNS: Final = (
    NAME,
    _number("Desired", "Pods that are wanted.", "spec", "replicas"),
    _number("Current", "Pods that there are.", "status", "replicas"),
    _number("Ready", "Pods that are ready.", "status", "readyReplicas"),
    AGE,
    *wide_columns(),
)
DAEMON_SET_COLUMNS: Final = (
    NAME,
    _number("Desired", "Nodes that should run the pod.", "status", "desiredNumberScheduled"),
    _number("Current", "Nodes that run it, and should.", "status", "currentNumberScheduled"),
    _number("Ready", "Nodes whose pod is ready.", "status", "numberReady"),
    _number("Up-to-date", "Nodes whose pod is of the current template.", "status", "updatedNumberScheduled"),
    _number("Available", "Nodes whose pod has been ready for long enough.", "status", "numberAvailable"),
    column(
        "Node Selector",
        "Labels of the nodes that should run it.",
        lambda obj, now: labels_text(template_of(obj).get("nodeSelector")),
    ),
    AGE,
    *wide_columns(),
)
