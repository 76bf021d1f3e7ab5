"""``events.k8s.io/v1``: a second view of the core group's events."""

from __future__ import annotations

from pilothouse.api.kubernetes import events
from pilothouse.api.kubernetes.core_v1 import event_kind
from pilothouse.api.kubernetes.kind_builders import native
from pilothouse.meta.kind import Resource


def resources() -> tuple[Resource, ...]:
    event = native(
        "events.k8s.io/v1",
        "Event",
        short_names=("ev",),
        columns=events.GROUPED_COLUMNS,
        selectable=events.GROUPED_SELECTABLE,
        validate=events.validate_grouped,
        time_to_live=events.time_to_live,
        create_on_update=True,
    )
    return (
        Resource(
            kinds=(event,),
            storage=events.STORED,
            key=events.KEY,
            convert=events.convert,
            stored_as=event_kind(),
        ),
    )
