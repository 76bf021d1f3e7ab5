"""Whether an action may begin: not while rules are paused.

if pause := pause_of(action, stateful_set, world):
    yield pause
"""

from __future__ import annotations

from typing import Final

from pilothouse.api.kind_names import AutopilotRule, ConfigMap, KindName, Namespace
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.pauses import PAUSE_ALL, PAUSED, is_paused, pauses_all
from pilothouse.controllers.application_actions.action_status import finished
from pilothouse.runtime.intents import SetStatus, Wait
from pilothouse.runtime.snapshot import Snapshot

PAUSE_READS: Final[tuple[KindName, ...]] = (AutopilotRule, Namespace, ConfigMap)
"""The kinds that say so."""
START_SECONDS: Final = 600.0
"""How long an action waits while the object alone is paused: meanwhile it counts against budgets that objects
of other owners share."""
_POLL: Final = 5.0


def pause_of(action: Object, about: Object, world: Snapshot) -> Wait | SetStatus | None:
    """A wait, if rules are paused for this object, or the failure after a while; None if they are not."""
    rule, where, name = str(action.spec.get("rule", "")), "", ""
    everything = world.find(ConfigMap, *PAUSE_ALL)
    if everything is not None and pauses_all(everything.get("data")):
        where, name = "all rules are paused", "--all"
    for noun, named, text, flag in (
        (AutopilotRule, rule, f"rule {rule} is paused", rule),
        (Namespace, about.namespace, f"namespace {about.namespace} is paused", f"-n {about.namespace}"),
    ):
        found = world.find(noun, "", named) if named else None
        if found is not None and is_paused(found.annotations):
            where, name = text, flag
    if where:
        return Wait("Paused", because=where, remedy=f"pilothouse rule resume {name}", seconds=_POLL)
    if not is_paused(about.annotations):
        return None
    message = f"{about.kind} {about.name} is paused"
    if world.now >= action.created + START_SECONDS:
        return finished(action, "Failed", "Paused", message, now=world.now, event="Paused")
    remedy = f"kubectl annotate {about.noun.resource} {about.name} -n {about.namespace} {PAUSED}-"
    return Wait("Paused", because=message, remedy=remedy, seconds=_POLL)
