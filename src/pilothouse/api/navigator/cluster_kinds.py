"""The kinds of the group ``navigator.jetstack.io``: which Struct, columns, defaults and rules make up each version."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

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
from pilothouse.meta import names
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Column, Kind, Object, Resource
from pilothouse.meta.schema.struct_schemas import schema_of

CATEGORIES: Final = ("all", "pilothouse")
AGE: Final = Column(
    name="Age", type="date", path=".metadata.creationTimestamp", description="Time since it was created."
)

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
    """The lowest version that any node of a cluster reports; empty if none does."""
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


def _condition(name: str, kind: str, description: str, *, priority: int = 0) -> Column:
    return Column(
        name=name,
        path=f'.status.conditions[?(@.type=="{kind}")].status',
        description=description,
        priority=priority,
    )


_VERSION: Final = Column(name="Version", path=".spec.version", description="The version that is asked for.")
_WANTED: Final = Column(name="Wanted", path=".spec.version", description="The version that is asked for.")
_RUNNING: Final = Column(name="Version", path=".status.version", description="The lowest version that runs.")
_ACCEPTED: Final = _condition(
    "Accepted", "VersionAccepted", "Whether the version that is asked for can be rolled out."
)
_PAUSED: Final = Column(
    name="Paused",
    type="boolean",
    path=".spec.paused",
    description="Set while nothing is changed.",
    priority=1,
)
_HEALTH: Final = Column(
    name="Health", path=".status.health", description="The health that the cluster reports."
)
_REPLICAS: Final = (
    Column(name="Ready", type="integer", path=".status.readyReplicas", description="Nodes that are ready."),
    Column(name="Nodes", type="integer", path=".status.replicas", description="Nodes that there are."),
)
_PROGRESS: Final = (
    _condition("Available", "Available", "Whether it serves."),
    _condition("Progressing", "Progressing", "Whether something is being changed."),
)
_DEGRADED: Final = _condition("Degraded", "Degraded", "Whether something is wrong that may need you.")
_WIDE: Final = (
    Column(name="Running", path=".status.version", description="The lowest version that runs.", priority=1),
    _PAUSED,
    Column(
        name="Message",
        path='.status.conditions[?(@.type=="Progressing")].message',
        description="What is being changed, or waited for.",
        priority=1,
    ),
)

_FULLEST: Final = Column(
    name="Disk(%)",
    type="integer",
    path=".status.fullestVolume.usedPercent",
    description="How full the volume with the least room is.",
    priority=1,
)

ELASTICSEARCH_V1BETA1: Final = Kind(
    group=GROUP,
    version=v1beta1.VERSION,
    name="ElasticsearchCluster",
    plural="elasticsearchclusters",
    short_names=("esc", "elasticsearch"),
    categories=CATEGORIES,
    schema=schema_of(v1beta1.ElasticsearchCluster, v1beta1.PACKAGE),
    status=True,
    columns=(
        _RUNNING,
        _WANTED,
        _ACCEPTED,
        _HEALTH,
        *_REPLICAS,
        *_PROGRESS,
        _DEGRADED,
        AGE,
        _FULLEST,
        *_WIDE[1:],
    ),
    selectable={"spec.version": ".spec.version", "status.health": ".status.health"},
    prepare_update=keep_annotation,
    validate=_validate_elasticsearch_v1beta1,
    protected=protected,
    validate_name=names.label,
)
ELASTICSEARCH_V1ALPHA1: Final = Kind(
    group=GROUP,
    version=v1alpha1.VERSION,
    name="ElasticsearchCluster",
    plural="elasticsearchclusters",
    short_names=("esc", "elasticsearch"),
    categories=CATEGORIES,
    schema=schema_of(v1alpha1.ElasticsearchCluster, v1alpha1.PACKAGE),
    status=True,
    columns=(_WANTED, _ACCEPTED, _HEALTH, *_PROGRESS, _DEGRADED, AGE, _PAUSED),
    selectable={"spec.version": ".spec.version", "status.health": ".status.health"},
    prepare_create=enter_stash,
    prepare_update=keep_stash,
    validate=_validate_elasticsearch_v1alpha1,
    warnings=warnings,
    protected=protected,
    validate_name=names.label,
)
_NO_CASSANDRA: Final = "no controller acts on CassandraClusters yet: it is stored, but no pod is created"
CASSANDRA_V1BETA1: Final = Kind(
    group=GROUP,
    version=v1beta1.VERSION,
    name="CassandraCluster",
    plural="cassandraclusters",
    short_names=("cassandra",),
    categories=CATEGORIES,
    schema=schema_of(v1beta1.CassandraCluster, v1beta1.PACKAGE),
    status=True,
    columns=(_VERSION, *_REPLICAS, *_PROGRESS, AGE, *_WIDE),
    selectable={"spec.version": ".spec.version"},
    default=fill_in_racks,
    prepare_update=keep_annotation,
    validate=_validate_cassandra_v1beta1,
    protected=protected,
    validate_name=names.label,
    unattended=_NO_CASSANDRA,
)
CASSANDRA_V1ALPHA1: Final = Kind(
    group=GROUP,
    version=v1alpha1.VERSION,
    name="CassandraCluster",
    plural="cassandraclusters",
    short_names=("cassandra",),
    categories=CATEGORIES,
    schema=schema_of(v1alpha1.CassandraCluster, v1alpha1.PACKAGE),
    status=True,
    columns=(_VERSION, *_PROGRESS, AGE, _PAUSED),
    selectable={"spec.version": ".spec.version"},
    default=fill_in_racks,
    prepare_create=enter_stash,
    prepare_update=keep_stash,
    validate=_validate_cassandra_v1alpha1,
    warnings=warnings,
    protected=protected,
    validate_name=names.label,
    unattended=_NO_CASSANDRA,
)

_PILOT_CONDITIONS: Final = (
    _condition("Ready", "Ready", "Whether the instance serves."),
    Column(
        name="Decommission",
        type="boolean",
        path=".spec.decommission",
        description="Whether its data is to be moved away.",
    ),
    _condition("Decommissioned", "Decommissioned", "Whether its data has been moved away."),
)
PILOT_V1BETA1: Final = Kind(
    group=GROUP,
    version=v1beta1.VERSION,
    name="Pilot",
    plural="pilots",
    categories=CATEGORIES,
    schema=pilot_schema(),
    status=True,
    columns=(
        Column(name="Phase", path=".status.phase", description="The phase of the instance."),
        *_PILOT_CONDITIONS,
        Column(name="Version", path=".status.version", description="The version that runs."),
        AGE,
        *section_columns(),
        Column(
            name="Disk(%)",
            type="integer",
            path=".status.volume.usedPercent",
            description="How full the volume of its data is.",
            priority=1,
        ),
        Column(
            name="Reason",
            path='.status.conditions[?(@.type=="Ready")].reason',
            description="Why it is ready or not.",
            priority=1,
        ),
    ),
    selectable={"spec.decommission": ".spec.decommission", "status.phase": ".status.phase"},
    default=fill_in_decommission,
    prepare_update=follow_change,
    validate=_validate_pilot_v1beta1,
)
PILOT_V1ALPHA1: Final = Kind(
    group=GROUP,
    version=v1alpha1.VERSION,
    name="Pilot",
    plural="pilots",
    categories=CATEGORIES,
    schema=schema_of(v1alpha1.Pilot, v1alpha1.PACKAGE),
    status=True,
    columns=(*_PILOT_CONDITIONS, AGE, *sections_of(ELASTICSEARCH).columns),
    selectable={"spec.decommission": ".spec.decommission"},
    default=fill_in_decommission,
    prepare_create=enter_stash,
    prepare_update=_update_pilot_v1alpha1,
    validate=_validate_pilot_v1alpha1,
)


def resources() -> tuple[Resource, ...]:
    """Both cluster kinds and the pilots; ``v1beta1`` is preferred and stored."""
    return (
        Resource(
            kinds=(ELASTICSEARCH_V1BETA1, ELASTICSEARCH_V1ALPHA1), storage=v1beta1.VERSION, convert=convert
        ),
        Resource(kinds=(CASSANDRA_V1BETA1, CASSANDRA_V1ALPHA1), storage=v1beta1.VERSION, convert=convert),
        Resource(kinds=(PILOT_V1BETA1, PILOT_V1ALPHA1), storage=v1beta1.VERSION, convert=convert),
    )
