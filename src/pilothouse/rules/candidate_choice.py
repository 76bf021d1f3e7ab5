"""Which candidate of a rule is taken: the first whose expressions all hold.

    chosen = choose(terms.spec, reading, record)
    chosen.name, chosen.actions        # of the candidate; the rule's own if it has none
    chosen.problem                     # why there is none: the link that failed in each candidate

A candidate that is on record stays the chosen one, whatever is measured later, until the object is Normal or
Triggered again. An expression without a value does not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from pilothouse.api.openstorage.v1alpha1 import AutopilotRuleSpec, Cause, RuleAction
from pilothouse.rules.action_targets import TargetDeclined, TargetNotReady
from pilothouse.rules.object_records import (
    AWAITING_APPROVAL,
    AWAITING_WINDOW,
    IN_PROGRESS,
    PENDING,
    ObjectRecord,
)
from pilothouse.rules.readings import CandidateReading, ObjectReading
from pilothouse.rules.samples import QueryFailure

_IN_FORCE: Final = frozenset({AWAITING_APPROVAL, AWAITING_WINDOW, PENDING, IN_PROGRESS})
"""The states in which what was chosen is not chosen anew."""
_LONGEST: Final = 200


class Choice(msgspec.Struct, frozen=True):
    """What is done about an object."""

    actions: tuple[RuleAction, ...] = ()
    name: str = ""
    """The candidate; empty if the rule has none, or none holds."""
    problem: TargetDeclined | TargetNotReady | None = None
    """Why nothing is done."""


def choose(spec: AutopilotRuleSpec, reading: ObjectReading, record: ObjectRecord) -> Choice:
    if not spec.candidates:
        return Choice(spec.actions)
    by_name = {one.name: one for one in spec.candidates}
    if record.state in _IN_FORCE and record.candidate in by_name:
        return Choice(by_name[record.candidate].actions, record.candidate)
    if isinstance(reading.candidates, QueryFailure):
        failure = reading.candidates
        return Choice(problem=TargetNotReady(f"candidates can't be compared: {failure.reason}"))
    if not reading.candidates:
        return Choice(problem=TargetNotReady("candidates are compared once the conditions are met"))
    for each in reading.candidates:
        if each.holds:
            return Choice(by_name[each.name].actions, each.name)
    return Choice(problem=TargetDeclined(failed_links(reading.candidates)))


def chain_of(reading: ObjectReading, chosen: str) -> tuple[Cause, ...]:
    """All comparisons of the conditions, and of the candidates that were looked at up to the chosen one."""
    found = list(reading.causes)
    for each in reading.candidates if not isinstance(reading.candidates, QueryFailure) else ():
        found.extend(each.causes)
        if each.name == chosen:
            break
    return tuple(found)


def failed_links(candidates: Sequence[CandidateReading]) -> str:
    """The first expression that does not hold in each candidate."""
    parts = []
    for each in candidates:
        link = next((one for one in each.links if not any(cause.held for cause in one)), ())
        parts.append(f"{each.name}: {link_text(link)}")
    return f"no candidate holds: {'; '.join(parts)}"


def link_text(link: Sequence[Cause]) -> str:
    """``on device n1/sdb, rate(…) is 0.2, not Gt 0.8``."""
    if not link:
        return "nothing was compared"
    # Of several, the one that has a value.
    cause = next((one for one in link if one.held is not None), link[0])
    where = f"{cause.level} {cause.object}".strip()
    expression = cause.expression[:_LONGEST]
    compared = " ".join(filter(None, (cause.operator, *cause.threshold)))
    if cause.held is None:
        value = f"is {cause.value}, which is no finite number" if cause.value else "has no data"
        return f"on {where}, {expression} {value}"
    more = f" (of {len(link)} values)" if len(link) > 1 else ""
    return f"on {where}, {expression} is {cause.value}, not {compared or 'met'}{more}"
