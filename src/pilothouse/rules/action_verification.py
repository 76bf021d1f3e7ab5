"""The condition ``Verified`` of an ApplicationAction: whether it helped, by the metrics that called for it.

    verification(action, rule, one, readings)          # Verification("True", "ConditionsCleared", ...)

It is Unknown until every value that is compared was measured after the action was complete, and final then.
"""

from __future__ import annotations

import math
from typing import Final, Literal, NamedTuple

from pilothouse.api.objects import Object
from pilothouse.base.rfc3339 import parse_time
from pilothouse.rules.reading_text import values_text
from pilothouse.rules.readings import ObjectReading, Readings
from pilothouse.rules.ruled_objects import RuleSettings, terms_of
from pilothouse.rules.verdict import Verdict

VERIFIED: Final = "Verified"
"""The type of the condition."""
_SECOND: Final = 1.0
"""Times in a status are of whole seconds: a sample of the same second may be older."""


class Verification(NamedTuple):
    """What the condition says."""

    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str
    retry: float | None = None
    """In how many seconds to look again; None is never."""


def needs_verification(action: Object) -> bool:
    """Whether a rule fired it, it has succeeded, and it is not known yet whether it helped."""
    return (
        not action.deleting
        and bool(action.spec.get("ruleUid"))
        and action.status.get("phase") == "Succeeded"
        and (action.condition(VERIFIED) or {}).get("status", "Unknown") == "Unknown"
    )


def verification(action: Object, rule: Object | None, one: Object | None, readings: Readings) -> Verification:
    """What is known at this moment about an action that needs it; ``one`` is the object of its rule."""
    if rule is None or rule.uid != action.spec.get("ruleUid"):
        return Verification("Unknown", "RuleGone", "the rule is gone")
    terms = terms_of(rule, RuleSettings())
    if terms is None or rule.generation != action.spec.get("ruleGeneration"):
        message = "the rule was edited after it had fired the action"
        return Verification("Unknown", "RuleChanged", message)
    if one is None:
        return Verification("Unknown", "ObjectGone", "the object is gone")
    reading = readings.of(rule, one)
    since = _completed(action)
    if since is None or reading.verdict is Verdict.UNKNOWN or not _is_later(reading, since):
        message = "there is no sample since the action was complete"
        return Verification("Unknown", "NoSample", message, float(terms.spec.poll_interval))
    values = values_text(terms, reading.causes)
    if reading.verdict is Verdict.MET:
        return Verification("False", "ConditionsMet", f"conditions are still met: {values}")
    return Verification("True", "ConditionsCleared", f"conditions are not met any more: {values}")


def _completed(action: Object) -> float | None:
    """When it was complete; executors that do not say so were seen to be complete at the first look."""
    if (completed := action.moment("status", "completionTime")) is not None:
        return completed
    seen = (action.condition(VERIFIED) or {}).get("lastTransitionTime")
    return parse_time(str(seen)) if seen else None


def _is_later(reading: ObjectReading, since: float) -> bool:
    """Where nothing was sampled, it is not known when that was found."""
    return since + _SECOND <= reading.sampled < math.inf
