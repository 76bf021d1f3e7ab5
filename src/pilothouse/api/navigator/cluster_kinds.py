"""The kinds of the group ``navigator.jetstack.io``, in both versions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from pilothouse.api.applications.elasticsearch_application import ELASTICSEARCH
from pilothouse.api.navigator import v1alpha1, v1beta1
from pilothouse.api.navigator.cassandra import fill_in_racks
from pilothouse.api.navigator.clusters import GROUP
from pilothouse.api.navigator.conversion import convert, enter_stash, keep_stash
from pilothouse.api.navigator.deprecated_fields import keep_annotation, warnings
from pilothouse.api.navigator.pilot_schema import pilot_schema, section_columns, sections_of
from pilothouse.api.navigator.pilots import fill_in_decommission, follow_change
from pilothouse.api.navigator.validation.cassandra import check_cassandra
from pilothouse.api.navigator.validation.clusters import UpdateRules, check_pilot_image, protected
from pilothouse.api.navigator.validation.elasticsearch import check_elasticsearch
from pilothouse.api.navigator.validation.pilots import check_pilot
from pilothouse.api.navigator.validation.stashes import check_no_stash, check_stash
from pilothouse.api.own_kinds import AGE, GroupVersion, condition_column, path_column
from pilothouse.meta import names
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Kind, Object, Resource

_V1ALPHA1: Final = GroupVersion(GROUP, v1alpha1.VERSION, v1alpha1.PACKAGE)
_V1BETA1: Final = GroupVersion(GROUP, v1beta1.VERSION, v1beta1.PACKAGE)

_STRICT: Final = UpdateRules(frozen=None, volumes_grow=False)
_STRICT_BUT_TOLD: Final = UpdateRules(
    frozen=None, volumes_grow=False, size_advice=f" in {v1alpha1.VERSION}; {v1beta1.VERSION} lets them grow"
)
_ELASTICSEARCH: Final = UpdateRules(frozen=frozenset({"roles"}), volumes_grow=True)
_CASSANDRA: Final = UpdateRules(frozen=frozenset({"rack", "datacenter"}), volumes_grow=False)


def _validate_elasticsearch_v1beta1(new: Object, old: Object | None) -> Iterable[FieldError]:
    yield from check_no_stash(new)
    yield from check_elasticsearch(new, old, _ELASTICSEARCH, _running(old))


def _validate_elasticsearch_v1alpha1(new: Object, old: Object | None) -> Iterable[FieldError]:
    problems = [
        *check_pilot_image(new["spec"], old),
        *check_elasticsearch(new, old, _STRICT_BUT_TOLD, _running(old)),
    ]
    return [*problems, *check_stash(new, old, ELASTICSEARCH_V1BETA1, problems)]


def _running(stored: Object | None) -> str:
    """The lowest version that any node of a cluster reports, or empty."""
    if stored is None:
        return ""
    source = str(stored["apiVersion"]).rpartition("/")[2]
    whole = convert(stored, source, v1beta1.VERSION)
    return str((whole.get("status") or {}).get("version") or "")


def _validate_cassandra_v1beta1(new: Object, old: Object | None) -> Iterable[FieldError]:
    yield from check_no_stash(new)
    yield from check_cassandra(new, old, _CASSANDRA)


def _validate_cassandra_v1alpha1(new: Object, old: Object | None) -> Iterable[FieldError]:
    problems = [*check_pilot_image(new["spec"], old), *check_cassandra(new, old, _STRICT)]
    return [*problems, *check_stash(new, old, CASSANDRA_V1BETA1, problems)]


def _validate_pilot_v1beta1(new: Object, old: Object | None) -> Iterable[FieldError]:
    yield from check_no_stash(new)
    yield from check_pilot(new, old)


def _validate_pilot_v1alpha1(new: Object, old: Object | None) -> Iterable[FieldError]:
    problems = [*check_pilot(new, old)]
    return [*problems, *check_stash(new, old, PILOT_V1BETA1, problems)]


def _update_pilot_v1alpha1(new: Object, old: Object) -> None:
    keep_stash(new, old)
    follow_change(new, old)


_WANTED: Final = path_column("Wanted", ".spec.version", "The version that is asked for.")
_ACCEPTED: Final = condition_column(
    "Accepted", "VersionAccepted", "Whether the version that is asked for can be rolled out."
)
_HEALTH: Final = path_column("Health", ".status.health", "The health that the cluster reports.")
_REPLICAS: Final = (
    path_column("Ready", ".status.readyReplicas", "Nodes that are ready.", type="integer"),
    path_column("Nodes", ".status.replicas", "Nodes that there are.", type="integer"),
)
_PROGRESS: Final = (
    condition_column("Available", "Available", "Whether it serves."),
    condition_column("Progressing", "Progressing", "Whether something is being changed."),
)
_DEGRADED: Final = condition_column("Degraded", "Degraded", "Whether something is wrong that may need you.")
_PAUSED: Final = path_column(
    "Paused", ".spec.paused", "Set while nothing is changed.", type="boolean", wide=True
)
_MESSAGE: Final = condition_column(
    "Message", "Progressing", "What is being changed, or waited for.", field="message", wide=True
)

_ELASTICSEARCH_CLUSTER: Final[dict[str, Any]] = {
    "short_names": ("esc", "elasticsearch"),
    "selectable": {"spec.version": ".spec.version", "status.health": ".status.health"},
    "protected": protected,
    "validate_name": names.label,
}
ELASTICSEARCH_V1BETA1: Final = _V1BETA1.kind(
    v1beta1.ElasticsearchCluster,
    columns=(
        path_column("Version", ".status.version", "The lowest version that runs."),
        _WANTED,
        _ACCEPTED,
        _HEALTH,
        *_REPLICAS,
        *_PROGRESS,
        _DEGRADED,
        AGE,
        path_column(
            "Disk(%)",
            ".status.fullestVolume.usedPercent",
            "How full the volume with the least room is.",
            type="integer",
            wide=True,
        ),
        _PAUSED,
        _MESSAGE,
    ),
    prepare_update=keep_annotation,
    validate=_validate_elasticsearch_v1beta1,
    **_ELASTICSEARCH_CLUSTER,
)
ELASTICSEARCH_V1ALPHA1: Final = _V1ALPHA1.kind(
    v1alpha1.ElasticsearchCluster,
    columns=(_WANTED, _ACCEPTED, _HEALTH, *_PROGRESS, _DEGRADED, AGE, _PAUSED),
    prepare_create=enter_stash,
    prepare_update=keep_stash,
    validate=_validate_elasticsearch_v1alpha1,
    warnings=warnings,
    **_ELASTICSEARCH_CLUSTER,
)

_VERSION: Final = path_column("Version", ".spec.version", "The version that is asked for.")
_CASSANDRA_CLUSTER: Final[dict[str, Any]] = {
    "short_names": ("cassandra",),
    "selectable": {"spec.version": ".spec.version"},
    "default": fill_in_racks,
    "protected": protected,
    "validate_name": names.label,
    "unattended": "no controller acts on CassandraClusters yet: it is stored, but no pod is created",
}
CASSANDRA_V1BETA1: Final = _V1BETA1.kind(
    v1beta1.CassandraCluster,
    columns=(
        _VERSION,
        *_REPLICAS,
        *_PROGRESS,
        AGE,
        path_column("Running", ".status.version", "The lowest version that runs.", wide=True),
        _PAUSED,
        _MESSAGE,
    ),
    prepare_update=keep_annotation,
    validate=_validate_cassandra_v1beta1,
    **_CASSANDRA_CLUSTER,
)
CASSANDRA_V1ALPHA1: Final = _V1ALPHA1.kind(
    v1alpha1.CassandraCluster,
    columns=(_VERSION, *_PROGRESS, AGE, _PAUSED),
    prepare_create=enter_stash,
    prepare_update=keep_stash,
    validate=_validate_cassandra_v1alpha1,
    warnings=warnings,
    **_CASSANDRA_CLUSTER,
)

_PILOT_STATE: Final = (
    condition_column("Ready", "Ready", "Whether the instance serves."),
    path_column(
        "Decommission", ".spec.decommission", "Whether its data is to be moved away.", type="boolean"
    ),
    condition_column("Decommissioned", "Decommissioned", "Whether its data has been moved away."),
)
PILOT_V1BETA1: Final = _V1BETA1.kind(
    v1beta1.Pilot,
    schema=pilot_schema(),
    columns=(
        path_column("Phase", ".status.phase", "The phase of the instance."),
        *_PILOT_STATE,
        path_column("Version", ".status.version", "The version that runs."),
        AGE,
        *section_columns(),
        path_column(
            "Disk(%)",
            ".status.volume.usedPercent",
            "How full the volume of its data is.",
            type="integer",
            wide=True,
        ),
        condition_column("Reason", "Ready", "Why it is ready or not.", field="reason", wide=True),
    ),
    selectable={"spec.decommission": ".spec.decommission", "status.phase": ".status.phase"},
    default=fill_in_decommission,
    prepare_update=follow_change,
    validate=_validate_pilot_v1beta1,
)
PILOT_V1ALPHA1: Final = _V1ALPHA1.kind(
    v1alpha1.Pilot,
    columns=(*_PILOT_STATE, AGE, *sections_of(ELASTICSEARCH).columns),
    selectable={"spec.decommission": ".spec.decommission"},
    default=fill_in_decommission,
    prepare_create=enter_stash,
    prepare_update=_update_pilot_v1alpha1,
    validate=_validate_pilot_v1alpha1,
)


def _resource(*kinds: Kind) -> Resource:
    return Resource(kinds=kinds, storage=v1beta1.VERSION, convert=convert)


def resources() -> tuple[Resource, ...]:
    """Both cluster kinds and the pilots; ``v1beta1`` is preferred and stored."""
    return (
        _resource(ELASTICSEARCH_V1BETA1, ELASTICSEARCH_V1ALPHA1),
        _resource(CASSANDRA_V1BETA1, CASSANDRA_V1ALPHA1),
        _resource(PILOT_V1BETA1, PILOT_V1ALPHA1),
    )
