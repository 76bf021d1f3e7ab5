"""Events, served as ``v1`` and as ``events.k8s.io/v1``.

Both resources share one key in the store, which holds the core form; ``convert`` translates, without loss,
since only field names differ. It goes by the object's ``apiVersion``, because both groups call their version
``v1``; the stored form therefore has a version name of its own in the newer group.
"""

from __future__ import annotations

from typing import Any, Final

from pilothouse.api.kubernetes.printer_cells import UNKNOWN, Cell, at, column, since
from pilothouse.api.kubernetes.shared_checks import Problems, unchanged
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Column, Object
from pilothouse.meta.names import qualified_name

KEY: Final = "events"
CORE: Final = "v1"
GROUPED: Final = "events.k8s.io/v1"
STORED: Final = "core"
"""The newer group's version name of the stored form."""
TIME_TO_LIVE: Final = 3600.0

_GROUPED_NAMES: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_CORE_NAMES: Final = {grouped: core for core, grouped in _GROUPED_NAMES.items()}
_REFERENCE: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_LIMITS: Final = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
_FIXED: Final = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type",
    "eventTime", "action", "related", "reportingComponent", "reportingInstance",
)  # fmt: skip


def convert(obj: Object, source: str, target: str) -> Object:
    """The event in the other form."""
    if obj["apiVersion"] == CORE:
        return _renamed(obj, GROUPED, _GROUPED_NAMES)
    return _renamed(obj, CORE, _CORE_NAMES)


def _renamed(obj: Object, api_version: str, names: dict[str, str]) -> Object:
    return {**{names.get(field, field): value for field, value in obj.items()}, "apiVersion": api_version}


def time_to_live(obj: Object) -> float:
    return TIME_TO_LIVE


def validate_core(new: Object, old: Object | None) -> Problems:
    """An event of ``v1``: lenient, as old recorders write them."""
    yield from _check(new, grouped=False)


def validate_grouped(new: Object, old: Object | None) -> Problems:
    """An event of ``events.k8s.io/v1``: strict."""
    event = _renamed(new, CORE, _CORE_NAMES)
    yield from _check(event, grouped=True)
    series = new.get("series")
    if old is None or series != old.get("series"):
        yield from _check_series(series)
    if old is None:
        if not new.get("eventTime"):
            yield FieldError.required("eventTime")
        if new.get("type") not in ("Normal", "Warning"):
            yield FieldError.invalid("type", "", f"has invalid value: {new.get('type', '')}")
        for field in ("firstTimestamp", "lastTimestamp", "count", "source"):
            if event.get(field):
                yield FieldError.invalid(field, "", "needs to be unset")
        return
    before = _renamed(old, CORE, _CORE_NAMES) if old["apiVersion"] != CORE else old
    for field in _FIXED:
        yield from unchanged(field, event.get(field) or None, before.get(field) or None)


def _check_series(series: Any) -> Problems:
    if series is None:
        return
    if series.get("count", 0) < 2:
        yield FieldError.invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield FieldError.required("series.lastObservedTime")


def _check(event: Object, *, grouped: bool) -> Problems:
    namespace = event["metadata"].get("namespace", "")
    involved = (event.get("involvedObject") or {}).get("namespace", "")
    if not event.get("eventTime"):
        fits = namespace == involved if involved else namespace in ("", "default")
    else:
        fits = bool(involved) or namespace in ("default", "kube-system")
    if not fits:
        yield FieldError.invalid("involvedObject.namespace", involved, "does not match event.namespace")
    if not event.get("eventTime"):
        return
    reporter = event.get("reportingComponent", "")
    path = "reportingController" if grouped else "reportingComponent"
    if not reporter:
        yield FieldError.required(path)
    elif qualified_name(reporter):
        yield FieldError.invalid(path, reporter, qualified_name(reporter))
    for field, limit in _LIMITS.items():
        if not event.get(field) and field != "message":
            yield FieldError.required(field)
        elif len((event.get(field) or "").encode(errors="surrogatepass")) > limit:
            yield FieldError.invalid(field, "", f"can have at most {limit} characters")


def _first(event: Object, now: float) -> str:
    return since(event.get("firstTimestamp") or event.get("eventTime"), now)


def _last(event: Object, now: float) -> str:
    if event.get("series"):
        return since(event["series"].get("lastObservedTime"), now)
    return since(event["lastTimestamp"], now) if event.get("lastTimestamp") else _first(event, now)


def _count(event: Object, now: float) -> int:
    if event.get("series"):
        return int(event["series"].get("count", 0))
    return int(event.get("count") or 1)


def _object(event: Object, now: float) -> str:
    involved = event.get("involvedObject") or {}
    kind = str(involved.get("kind", "")).lower()
    return f"{kind}/{involved['name']}" if involved.get("name") else kind


def _source(event: Object, now: float) -> str:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    host = source.get("host") or event.get("reportingInstance") or ""
    return f"{component}, {host}" if host else str(component)


def _columns(view: Any) -> tuple[Column, ...]:
    def seen(cell: Cell) -> Cell:
        return lambda event, now: cell(view(event), now)

    return (
        column("Last Seen", "How long ago it last happened.", seen(_last)),
        column("Type", "Normal or Warning.", seen(at("type"))),
        column("Reason", "Why, in a word.", seen(at("reason"))),
        column("Object", "What it happened to.", seen(_object)),
        column("Subobject", "Which part of it.", seen(at("involvedObject", "fieldPath")), wide=True),
        column("Source", "The component that reported it.", seen(_source), wide=True),
        column("Message", "What happened.", seen(lambda event, now: (event.get("message") or "").strip())),
        column("First Seen", "How long ago it first happened.", seen(_first), wide=True),
        column("Count", "How often it happened.", seen(_count), wide=True),
        column(
            "Name", "The event's own name.", at("metadata", "name", missing=UNKNOWN), wide=True, format="name"
        ),
    )


CORE_COLUMNS: Final = _columns(lambda event: event)
GROUPED_COLUMNS: Final = _columns(lambda event: _renamed(event, CORE, _CORE_NAMES))
CORE_SELECTABLE: Final = {
    **{f"involvedObject.{field}": f".involvedObject.{field}" for field in _REFERENCE},
    "reason": ".reason",
    "reportingComponent": ".reportingComponent",
    "source": ".source.component|.reportingComponent",
    "type": ".type",
}
GROUPED_SELECTABLE: Final = {
    **{f"regarding.{field}": f".regarding.{field}" for field in _REFERENCE},
    "reason": ".reason",
    "reportingController": ".reportingController",
    "type": ".type",
}
