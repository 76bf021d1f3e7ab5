"""Answers to Questions: what was measured last of the objects of a namespace.

    yield from question_intents(question, world, readings, settings, AnsweredQuestions())

Values are not written at each poll, so they are known to the leading manager alone. It answers a Question
once, in its status, and deletes it a minute after its creation. An answer is about objects in the namespace
of the Question, whatever it asks; about cluster-wide ones if that is ``kube-system``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from pilothouse.api.kind_names import AutopilotRule, KindName, Namespace, PersistentVolumeClaim
from pilothouse.api.objects import Object, Tree
from pilothouse.api.openstorage.actions import CLUSTER_WIDE_RECORDS
from pilothouse.api.pilothouse.v1alpha1 import ObjectReference, QuestionStatus, RuleReading
from pilothouse.base.rfc3339 import format_time
from pilothouse.rules.object_types import (
    is_present,
    kinds_of,
    ruled_kinds,
    type_of_rule,
    types_of,
)
from pilothouse.rules.readings import Readings
from pilothouse.rules.rule_explanations import explained
from pilothouse.rules.rule_selection import RuleSelection
from pilothouse.rules.ruled_objects import RuleSettings, ruled_objects, terms_of
from pilothouse.rules.state_intents import COMPONENT
from pilothouse.runtime.intents import Delete, Intent, RequeueAfter, SetStatus
from pilothouse.runtime.snapshot import Snapshot

KEPT: Final = 60.0
"""Seconds after which a Question is deleted, answered or not."""
MOST_OBJECTS: Final = 500
"""In one answer."""
MOST_QUESTIONS: Final = 60
"""How many of a namespace are answered within a minute: who may ask shall not occupy the manager."""


class AnsweredQuestions:
    """The Questions that were answered within a minute, as long as this manager leads. The stored ones are no
    measure: a client that may ask may also delete Questions that were answered, to ask more."""

    def __init__(self) -> None:
        self._times: dict[str, dict[str, float]] = {}
        """By namespace and uid."""

    def is_room_for(self, question: Object, now: float) -> bool:
        """Whether a Question may be answered; if so, it counts from then on."""
        for namespace, times in list(self._times.items()):
            # After a clock that is set back nothing counts for longer.
            recent = {uid: time for uid, time in times.items() if abs(now - time) < KEPT}
            if recent:
                self._times[namespace] = recent
            else:
                del self._times[namespace]
        times = self._times.setdefault(question.namespace, {})
        if question.uid not in times and len(times) >= MOST_QUESTIONS:
            return False
        times[question.uid] = now
        return True


def question_intents(
    question: Object,
    world: Snapshot,
    readings: Readings,
    settings: RuleSettings,
    answered_before: AnsweredQuestions,
) -> Iterator[Intent]:
    """Answer, once; delete what is a minute old."""
    if question.deleting:
        return
    answered = question.moment("status", "time")
    # Counted from the earlier of the two, for the server's clock may be ahead of the manager's.
    asked = question.created if answered is None else min(question.created, answered)
    left = asked + KEPT - world.now
    if left <= 0:
        yield Delete(question, because="it was asked a minute ago")
        return
    if question.status.get("time") is None:
        status = _answered(question, world, readings, settings, answered_before)
        because = status.message or f"what is known of {len(status.answer)} objects under rules"
        tree: Tree = msgspec.to_builtins(status)
        yield SetStatus(question, tree, because=because)
    # A clock that is set back does not make it older than it can be.
    yield RequeueAfter(min(left, KEPT), because="a Question is deleted after a minute")


def _answered(
    question: Object,
    world: Snapshot,
    readings: Readings,
    settings: RuleSettings,
    answered_before: AnsweredQuestions,
) -> QuestionStatus:
    about = msgspec.convert(question.spec.get("about", {}), ObjectReference)
    kind = next((one for one in ruled_kinds() if one.kind == about.kind), None)
    if not answered_before.is_room_for(question, world.now):
        message = (
            f"{MOST_QUESTIONS} Questions of namespace {question.namespace} were answered within a minute"
        )
        found = QuestionStatus(message=f"{message}: ask again in a minute")
    elif kind is not None:
        found = _of_object(kind, about, question.namespace, world, readings, settings)
    else:
        found = _of_rule(about, question.namespace, world, readings, settings)
    return msgspec.structs.replace(found, time=format_time(world.now), answered_by=COMPONENT)


def _of_object(
    kind: KindName,
    about: ObjectReference,
    namespace: str,
    world: Snapshot,
    readings: Readings,
    settings: RuleSettings,
) -> QuestionStatus:
    visible = kind.namespaced or namespace == CLUSTER_WIDE_RECORDS
    one = world.find(kind, namespace, about.name) if visible else None
    if one is None or (about.uid and one.uid != about.uid):
        where = f" in namespace {namespace}" if kind.namespaced else ""
        return QuestionStatus(message=f"there is no {about.kind} {about.name}{where}")
    if one.deleting or not is_present(one):
        state = "is not bound to a volume" if kind == PersistentVolumeClaim else "has ended"
        return QuestionStatus(message=f"the {about.kind} {about.name} {state}")
    rules = [rule.name for rule in world.all(AutopilotRule)]
    answer = tuple(_explained(one, rules, world, readings, settings))
    message = "" if answer else f"no AutopilotRule selects the {about.kind} {about.name}"
    return QuestionStatus(answer=answer, message=message)


def _of_rule(
    about: ObjectReference, namespace: str, world: Snapshot, readings: Readings, settings: RuleSettings
) -> QuestionStatus:
    rule = world.find(AutopilotRule, "", about.name)
    terms = terms_of(rule, settings) if rule is not None else None
    selected: list[Object] = []
    if terms is not None:
        type_ = type_of_rule(terms.spec)
        selection = RuleSelection.of(terms.spec)
        for kind in kinds_of(type_):
            if kind.namespaced or namespace == CLUSTER_WIDE_RECORDS:
                space = world.find(Namespace, "", namespace) if kind.namespaced else None
                found = world.all(kind, namespace if kind.namespaced else "")
                selected += [
                    one
                    for one in found
                    if is_present(one) and type_ in types_of(one) and selection.matches(one, space)
                ]
    if not selected:
        # The same for a rule that does not exist: who may ask here may not know which rules there are.
        return QuestionStatus(message=f"no AutopilotRule {about.name} selects an object in {namespace}")
    answer = [
        reading
        for one in selected[:MOST_OBJECTS]
        for reading in _explained(one, [about.name], world, readings, settings)
        if reading.rule == about.name
    ]
    return QuestionStatus(answer=tuple(answer), left_out=max(0, len(selected) - MOST_OBJECTS))


def _explained(
    one: Object, rules: list[str], world: Snapshot, readings: Readings, settings: RuleSettings
) -> Iterator[RuleReading]:
    every = ruled_objects(one, world, readings, settings, rules)
    for ruled in every:
        case = ruled.case(world, every, readings, settings)
        yield explained(ruled, case, readings, world.now)
