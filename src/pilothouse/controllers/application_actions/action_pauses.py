"""Pauses, as executors keep to them.

    elif pause := pause_of(action, claim, world):
        yield pause

Every write that moves an action forward comes after one of these. What takes back, or records how far an
action is, does not wait. The kinds in ``PAUSE_READS`` have to be among those that the controller reads.
"""

from __future__ import annotations

from typing import Final

from pilothouse.api.kind_names import AutopilotRule, ConfigMap, Namespace
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.pauses import PAUSE_ALL, PAUSED, is_paused, pauses_all
from pilothouse.controllers.application_actions.action_status import START_SECONDS, finished
from pilothouse.runtime.intents import SetStatus, Wait
from pilothouse.runtime.snapshot import Snapshot

PAUSE_READS: Final = (AutopilotRule, Namespace, ConfigMap)
_POLL: Final = 5.0
_SHORT: Final = {"PersistentVolumeClaim": ("claim", "pvc")}
"""How people and kubectl call a kind."""


def pause_of(action: Object, about: Object, world: Snapshot) -> Wait | SetStatus | None:
    """A wait, if rules are paused for this object. It is limited for a pause of the object alone, which its
    owner sets: actions that are under way count against budgets that objects of other owners share."""
    wait = _of_rules(action, about, world) or _of_object(about)
    if wait is not None and wait.because == _is_paused(about) and world.now >= action.created + START_SECONDS:
        return finished(action, "Failed", "Paused", wait.because, now=world.now, event="Paused")
    return wait


def pause_under_way(action: Object, about: Object, world: Snapshot) -> Wait | None:
    """A wait before a further write of an action that has begun, and that has a time limit of its own."""
    return _of_rules(action, about, world) or _of_object(about)


def _of_rules(action: Object, about: Object, world: Snapshot) -> Wait | None:
    """The pause of all rules, of a namespace or of the rule."""
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
    if not where:
        return None
    return Wait("Paused", because=where, remedy=f"pilothouse rule resume {name}", seconds=_POLL)


def _of_object(about: Object) -> Wait | None:
    if not is_paused(about.annotations):
        return None
    _, short = _SHORT.get(about.kind, (about.kind, about.kind.lower()))
    namespace = f" -n {about.namespace}" if about.namespace else ""
    remedy = f"kubectl annotate {short} {about.name}{namespace} {PAUSED}-"
    return Wait("Paused", because=_is_paused(about), remedy=remedy, seconds=_POLL)


def _is_paused(about: Object) -> str:
    kind, _ = _SHORT.get(about.kind, (about.kind, ""))
    return f"{kind} {about.name} is paused"
