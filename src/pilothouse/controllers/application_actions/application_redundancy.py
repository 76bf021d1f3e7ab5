"""``openstorage.io.action.application/redundancy``: has an application keep an exact number of copies.

    spec:
      action: openstorage.io.action.application/redundancy
      object: {kind: …, name: demo, uid: …}
      target: {from: "1", to: "2"}

It sets the field of the cluster that its application names, and is done when the cluster says ``Redundant``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pilothouse.api.kind_names import ApplicationAction, Pilot, StatefulSet
from pilothouse.api.objects import Object, Tree
from pilothouse.api.openstorage.actions import REDUNDANCY
from pilothouse.controllers.application_actions.action_pauses import PAUSE_READS
from pilothouse.controllers.application_actions.action_status import SERVICE_ACCOUNT, finished, is_finished
from pilothouse.controllers.application_actions.field_change import (
    ChangeProgress,
    FieldChange,
    change_field,
    running_in_namespace,
)
from pilothouse.controllers.application_actions.target_cluster import target_cluster
from pilothouse.controllers.application_actions.workload_scale import CLUSTERS
from pilothouse.runtime.controller import controller
from pilothouse.runtime.intents import Intent, SetStatus
from pilothouse.runtime.snapshot import Snapshot

COPY_SECONDS: Final = 6 * 3600.0
"""How long copies may take to be built."""
REDUNDANT: Final = "Redundant"
_in_namespace = running_in_namespace(REDUNDANCY)


@controller(
    ApplicationAction,
    also=dict.fromkeys(CLUSTERS, _in_namespace),
    reads=(StatefulSet, Pilot, *PAUSE_READS),
    impersonate=SERVICE_ACCOUNT,
)
def application_redundancy(action: Object, world: Snapshot) -> Iterator[Intent]:
    """Have an application keep the number of copies that an action names."""
    if action.spec.get("action") != REDUNDANCY or action.deleting or is_finished(action):
        return
    found = target_cluster(action, world)
    if isinstance(found, SetStatus):
        yield found
        return
    cluster, application = found
    if not application.copies:
        message = f"{cluster.kind} {cluster.name} has no field for the number of its copies"
        yield finished(action, "Declined", "NoField", message, now=world.now)
        return
    to = str(action.at("spec", "target", "to", default=""))
    if not (to.isascii() and to.isdigit()):
        message = f"spec.target.to: {to!r} is not a number of copies"
        yield finished(action, "Failed", "InvalidTarget", message, now=world.now)
        return
    path = ("spec", *application.copies)
    current = cluster.at(*path)
    change = FieldChange(
        cluster, ".".join(path), path, "" if current is None else str(current), to, _nested(path, int(to))
    )
    yield from change_field(action, change, _progress(cluster), world)


def _progress(cluster: Object) -> ChangeProgress:
    said = cluster.condition(REDUNDANT) or {}
    current = said.get("observedGeneration") == cluster.generation
    message = str(said.get("message") or "") if current else ""
    return ChangeProgress(
        done=current and said.get("status") == "True",
        message=message or f"{cluster.kind} {cluster.name} has not reported on its copies yet",
        reason="CopiesKept",
        seconds=COPY_SECONDS,
    )


def _nested(path: tuple[str, ...], value: int) -> Tree:
    nested: Any = value
    for name in reversed(path):
        nested = {name: nested}
    return dict(nested)
