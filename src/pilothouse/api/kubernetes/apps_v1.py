"""``apps/v1``: StatefulSets and the revisions of their templates, and kinds stored without a controller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pilothouse.api.kubernetes import workloads
from pilothouse.api.kubernetes.kind_builders import native
from pilothouse.api.kubernetes.pods.defaults import default_spec
from pilothouse.api.kubernetes.pods.validation import check_template
from pilothouse.api.kubernetes.printer_cells import AGE, NAME, NONE, column, container_columns
from pilothouse.api.kubernetes.shared_checks import (
    Problems,
    count_or_percent,
    dns_label,
    not_negative,
    unchanged,
)
from pilothouse.api.kubernetes.storage import check_claim_spec
from pilothouse.meta.fields import FieldError, element
from pilothouse.meta.kind import Kind, Object, Resource, ScalePaths, single
from pilothouse.meta.names import label

_CHANGEABLE: Final = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip
_FIXED: Final = (
    "updates to statefulset spec for fields other than "
    + ", ".join(f"'{field}'" for field in _CHANGEABLE[:-1])
    + f" and '{_CHANGEABLE[-1]}' are forbidden"
)
_WORKLOAD: Final[dict[str, Any]] = {"categories": ("all",), "status": True, "generation": True}
_REPLICATED: Final = {**_WORKLOAD, "scale": ScalePaths(selector=".spec.selector")}
_COUNTED: Final = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")


def resources() -> tuple[Resource, ...]:
    sets = native(
        "apps/v1",
        "StatefulSet",
        short_names=("sts",),
        columns=_SET_COLUMNS,
        validate_name=label,
        default=default_set,
        prepare_create=_prepare_set,
        validate=validate_set,
        **_REPLICATED,
    )
    revisions = native(
        "apps/v1",
        "ControllerRevision",
        columns=_REVISION_COLUMNS,
        validate=_validate_revision,
    )
    return single(sets), single(revisions), *(single(kind) for kind in _stored_only())


def _stored_only() -> Iterator[Kind]:
    yield native(
        "apps/v1",
        "Deployment",
        short_names=("deploy",),
        columns=workloads.DEPLOYMENT_COLUMNS,
        default=workloads.default_deployment,
        status_metadata=("annotations",),
        validate=workloads.validate_deployment,
        unattended="no controller acts on Deployments yet: it is stored, but no pod is created",
        **_REPLICATED,
    )
    yield native(
        "apps/v1",
        "ReplicaSet",
        short_names=("rs",),
        columns=workloads.REPLICA_SET_COLUMNS,
        selectable={"status.replicas": ".status.replicas"},
        default=workloads.default_template,
        prepare_create=_prepare_replicas,
        validate=workloads.validate_replica_set,
        unattended="no controller acts on ReplicaSets yet: it is stored, but no pod is created",
        **_REPLICATED,
    )
    yield native(
        "apps/v1",
        "DaemonSet",
        short_names=("ds",),
        columns=workloads.DAEMON_SET_COLUMNS,
        default=workloads.default_daemon_set,
        prepare_create=_prepare_daemons,
        validate=workloads.validate_daemon_set,
        unattended="no controller acts on DaemonSets yet: it is stored, but no pod is created",
        **_WORKLOAD,
    )


def _prepare_daemons(obj: Object) -> None:
    obj["status"] = {
        "currentNumberScheduled": 0,
        "desiredNumberScheduled": 0,
        "numberMisscheduled": 0,
        "numberReady": 0,
    }


def _prepare_replicas(obj: Object) -> None:
    obj["status"] = {"replicas": 0}


def default_set(obj: Object) -> None:
    spec = obj["spec"]
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        strategy["rollingUpdate"].setdefault("partition", 0)
    default_spec(spec.setdefault("template", {}).setdefault("spec", {}))
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim.setdefault("status", {}).setdefault("phase", "Pending")


def _prepare_set(obj: Object) -> None:
    obj["status"] = {"availableReplicas": 0, "replicas": 0}


def validate_set(new: Object, old: Object | None) -> Problems:
    if old is not None and new.get("status") != old.get("status"):
        yield from _check_status(new.get("status") or {}, old.get("status") or {})
    if old is None or new["spec"] != old["spec"]:
        yield from _check_set_spec(new["spec"], old)


def _check_status(status: Object, before: Object) -> Problems:
    """At most as many pods are ready as exist, and as many available as are ready."""
    for field in ("replicas", *_COUNTED, "observedGeneration", "collisionCount"):
        yield from not_negative(f"status.{field}", status.get(field))
    replicas = status.get("replicas", 0)
    for field in _COUNTED:
        count = status.get(field, 0)
        if count > replicas:
            yield FieldError.invalid(f"status.{field}", count, "cannot be greater than status.replicas")
    available = status.get("availableReplicas", 0)
    if available > status.get("readyReplicas", 0):
        yield FieldError.invalid(
            "status.availableReplicas", available, "cannot be greater than status.readyReplicas"
        )
    collisions = status.get("collisionCount") or 0
    if 0 <= collisions < (before.get("collisionCount") or 0):
        yield FieldError.invalid("status.collisionCount", collisions, "cannot be decremented")


def _check_set_spec(spec: Object, old: Object | None) -> Problems:
    yield from _check_strategy(spec["updateStrategy"], "spec.updateStrategy")
    for field in ("replicas", "minReadySeconds", "revisionHistoryLimit"):
        yield from not_negative(f"spec.{field}", spec.get(field))
    yield from not_negative("spec.ordinals.start", (spec.get("ordinals") or {}).get("start"))
    if old is None and spec.get("serviceName"):
        yield from dns_label("spec.serviceName", spec["serviceName"])
    yield from workloads.check_selector(spec, "statefulset")
    yield from _check_claims(spec)
    template = spec["template"]
    if old is None or template != old["spec"].get("template"):
        claims = [each["metadata"].get("name", "") for each in spec.get("volumeClaimTemplates") or ()]
        yield from check_template(template, "spec.template", claims)
    yield from workloads.check_lasting(template, "StatefulSet")
    if old is not None:
        before = old["spec"]
        fields = {*spec, *before} - {*_CHANGEABLE}
        if any(spec.get(field) != before.get(field) for field in fields):
            yield FieldError.forbidden("spec", _FIXED)


def _check_strategy(strategy: Object, path: str) -> Problems:
    rolling = strategy.get("rollingUpdate")
    if rolling is None:
        return
    if strategy.get("type") == "OnDelete":
        yield FieldError.invalid(
            f"{path}.rollingUpdate", rolling, "only allowed for updateStrategy 'RollingUpdate'"
        )
        return
    yield from not_negative(f"{path}.rollingUpdate.partition", rolling.get("partition"))
    most = rolling.get("maxUnavailable")
    if most is not None:
        yield from count_or_percent(f"{path}.rollingUpdate.maxUnavailable", most)
        if most in (0, "0%"):
            yield FieldError.invalid(f"{path}.rollingUpdate.maxUnavailable", most, "cannot be 0")


def _check_claims(spec: Object) -> Problems:
    seen: set[str] = set()
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        at = element("spec.volumeClaimTemplates", index)
        name = (claim.get("metadata") or {}).get("name", "")
        yield from dns_label(f"{at}.metadata.name", name)
        if name and name in seen:
            yield FieldError.duplicate(f"{at}.metadata.name", name)
        seen.add(name)
        yield from check_claim_spec(claim.get("spec") or {}, f"{at}.spec")


def _validate_revision(new: Object, old: Object | None) -> Problems:
    yield from not_negative("revision", new.get("revision"))
    if old is not None:
        yield from unchanged("data", new.get("data"), old.get("data"))


def _controller(obj: Object, now: float) -> str:
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            group = owner.get("apiVersion", "").rpartition("/")[0]
            kind = owner.get("kind", "").lower()
            return f"{kind}.{group}/{owner.get('name')}" if group else f"{kind}/{owner.get('name')}"
    return NONE


_SET_COLUMNS: Final = (
    NAME,
    workloads.READY,
    AGE,
    *container_columns(workloads.template_of, wide=True),
)
_REVISION_COLUMNS: Final = (
    NAME,
    column("Controller", "The object whose template this was.", _controller),
    column("Revision", "Its number.", lambda obj, now: obj.get("revision", 0)),
    AGE,
)
