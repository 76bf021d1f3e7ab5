"""Metrics of an object's state: pure functions of the stored object.

    view = view_of(kind)
    view.lines(obj)        # one text per measure: 'pilothouse_object_status_phase{…,phase="Running"} 1\\n…'

Our kinds share metrics with the labels ``group`` and ``kind``, so that one alert covers them all. As in
kube-state-metrics, absent values have no line and each possible state has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from pilothouse.base.prometheus_text import header, labels, quoted
from pilothouse.base.rfc3339 import TimeError, parse_time
from pilothouse.meta.kind import Kind, Object
from pilothouse.meta.schema.model import Schema

Sample = tuple[str, float]
"""A value, and the labels that it has besides those of its object."""
STATUSES = ("true", "false", "unknown")
_PHASES = (("status", "phase"), ("status", "state"), ("spec", "approvalState"), ("outcome",))
"""Where kinds have what they call the state of the whole."""


class Measure(msgspec.Struct, frozen=True):
    """One metric family, and how it is read from an object."""

    name: str
    help: str
    read: Callable[[Object], Iterable[Sample]]
    type: str = "gauge"

    @property
    def header(self) -> str:
        return header(self.name, self.type, self.help)


class KindMetrics(msgspec.Struct, frozen=True):
    """The metrics of the objects of one kind."""

    name: Callable[[Object], str]
    """The labels that say which object it is."""
    measures: tuple[Measure, ...]

    def lines(self, obj: Object) -> list[str]:
        """A text for each metric, perhaps empty."""
        base = self.name(obj)
        return [
            "".join([f"{measure.name}{{{base}{more}}} {value}\n" for more, value in measure.read(obj)])
            for measure in self.measures
        ]


def view_of(kind: Kind) -> KindMetrics:
    fixed = labels(group=kind.group, kind=kind.name)

    def name(obj: Object) -> str:
        metadata = obj["metadata"]
        return f"{fixed},namespace={quoted(metadata.get('namespace', ''))},name={quoted(metadata['name'])}"

    prefix = "pilothouse_object"
    return KindMetrics(
        name,
        (
            Measure(f"{prefix}_info", "An object, its version and who owns it.", _info),
            Measure(f"{prefix}_created", "When it was created, in seconds since 1970.", created),
            Measure(f"{prefix}_deletion_timestamp", "When its deletion was requested.", deleted),
            Measure(f"{prefix}_generation", "How often its spec has changed.", generation),
            Measure(f"{prefix}_observed_generation", "The spec that was last acted on.", observed_generation),
            Measure(f"{prefix}_status_phase", "Its phase.", _phase(kind.schema)),
            Measure(f"{prefix}_status_health", "The health that it reports.", _health(kind.schema)),
            Measure(f"{prefix}_status_condition", "Its conditions.", conditions),
            Measure(f"{prefix}_spec_replicas", "Replicas wanted, by pool.", _wanted),
            *(
                Measure(f"{prefix}_status_{name}", help, _counted(field))
                for name, field, help in (
                    ("replicas", "replicas", "Replicas that there are, by pool."),
                    ("replicas_ready", "readyReplicas", "Replicas that are ready, by pool."),
                    (
                        "replicas_current",
                        "currentReplicas",
                        "Replicas that run what they ran before, by pool.",
                    ),
                    ("replicas_updated", "updatedReplicas", "Replicas that run what is wanted, by pool."),
                )
            ),
        ),
    )


def moment(text: object) -> Iterator[Sample]:
    """A time as seconds since 1970."""
    if isinstance(text, str):
        try:
            yield "", parse_time(text)
        except TimeError:
            return


def created(obj: Object) -> Iterable[Sample]:
    return moment(obj["metadata"].get("creationTimestamp"))


def deleted(obj: Object) -> Iterable[Sample]:
    return moment(obj["metadata"].get("deletionTimestamp"))


def generation(obj: Object) -> Iterable[Sample]:
    return number(obj["metadata"].get("generation"))


def observed_generation(obj: Object) -> Iterable[Sample]:
    return number(part(obj, "status").get("observedGeneration"))


def number(value: object) -> Iterator[Sample]:
    if isinstance(value, int | float):
        yield "", value


def conditions(obj: Object) -> Iterator[Sample]:
    """Each condition with each status that it may have."""
    latest = {each["type"]: each for each in part(obj, "status").get("conditions") or ()}
    for name, condition in latest.items():
        status = str(condition.get("status", "")).lower()
        for each in STATUSES:
            yield f',condition={quoted(name)},status="{each}"', int(each == status)


def states(label: str, value: object, known: Iterable[str]) -> Iterator[Sample]:
    """One of several states; nothing if it is not set."""
    if isinstance(value, str) and value:
        for each in dict.fromkeys((*known, value)):
            yield f",{label}={quoted(each)}", int(each == value)


def part(obj: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """The map at a path, or an empty one."""
    found: Any = obj
    for step in path:
        found = found.get(step)
        if not isinstance(found, dict):
            return {}
    return found  # type: ignore[no-any-return]


def controller(obj: Object) -> tuple[str, str]:
    """Kind and name of the owner that controls the object."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return owner.get("kind", ""), owner.get("name", "")
    return "", ""


def _info(obj: Object) -> Iterator[Sample]:
    owner_kind, owner_name = controller(obj)
    version = part(obj, "spec").get("version")
    more = labels(
        uid=obj["metadata"].get("uid", ""),
        version=version if isinstance(version, str) else "",
        owner_kind=owner_kind,
        owner_name=owner_name,
    )
    yield f",{more}", 1


def _phase(schema: Schema) -> Callable[[Object], Iterable[Sample]]:
    for *place, name in _PHASES:
        node = _node(schema, *place, name)
        if node is not None:
            return _states_at("phase", tuple(place), name, node)
    return _nothing


def _health(schema: Schema) -> Callable[[Object], Iterable[Sample]]:
    node = _node(schema, "status", "health")
    return _nothing if node is None else _states_at("health", ("status",), "health", node)


def _states_at(
    label: str, place: tuple[str, ...], name: str, node: Schema
) -> Callable[[Object], Iterable[Sample]]:
    known = tuple(value for value in node.enum if isinstance(value, str) and value)
    return lambda obj: states(label, part(obj, *place).get(name), known)


def _nothing(obj: Object) -> Iterable[Sample]:
    return ()


def _node(schema: Schema, *path: str) -> Schema | None:
    found: Schema | None = schema
    for step in path:
        if found is None:
            return None
        found = (found.component or found).properties.get(step)
    return found


def _wanted(obj: Object) -> Iterator[Sample]:
    spec = part(obj, "spec")
    pools = {pool["name"]: pool for pool in spec.get("nodePools") or ()}
    for name, pool in pools.items():
        for _, value in number(pool.get("replicas")):
            yield f",pool={quoted(name)}", value
    if not pools:
        for _, value in number(spec.get("replicas")):
            yield ',pool=""', value


def _counted(field: str) -> Callable[[Object], Iterable[Sample]]:
    def read(obj: Object) -> Iterator[Sample]:
        status = part(obj, "status")
        pools = part(status, "nodePools") or {"": status}
        for name, pool in pools.items():
            for _, value in number(pool.get(field)):
                yield f",pool={quoted(name)}", value

    return read
