"""The workload that an action acts on."""

from __future__ import annotations

from pilothouse.api.applications.workload_fields import WORKLOADS
from pilothouse.api.objects import Object
from pilothouse.controllers.application_actions.action_status import finished
from pilothouse.runtime.intents import SetStatus
from pilothouse.runtime.snapshot import Snapshot


def target_workload(action: Object, world: Snapshot) -> Object | SetStatus:
    """The workload; or the failure, if it is gone or none."""
    reference = action.at("spec", "object", default={})
    kind, name = str(reference.get("kind", "")), str(reference.get("name", ""))
    noun = next((each for each in WORKLOADS if each.kind == kind), None)
    if noun is None:
        message = f"{kind} {name} is neither a StatefulSet nor a Deployment"
        return finished(action, "Declined", "NoField", message, now=world.now)
    found = world.find(noun, action.namespace, name)
    if found is None or found.deleting or found.uid != reference.get("uid", found.uid):
        message = f"{kind} {action.namespace}/{name} is gone"
        return finished(action, "Failed", "ObjectGone", message, now=world.now)
    return found
