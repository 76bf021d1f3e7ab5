"""Why a rule can't be followed that our API server would refuse, and another one has stored.

invalid_because(rule)        # "spec.actions[0].name: Invalid value: …", or empty
"""

from __future__ import annotations

from typing import Final

import msgspec

from pilothouse.api.objects import Object
from pilothouse.api.openstorage import v1alpha1
from pilothouse.api.openstorage.rule_validation import check_rule

_MOST_PROBLEMS: Final = 5
_LONGEST_PROBLEM: Final = 300


def invalid_because(rule: Object) -> str:
    """What is wrong with it, with the paths of the fields; empty if it is valid."""
    try:
        rule.as_type(v1alpha1.AutopilotRule)
    except msgspec.ValidationError as problem:
        what, at, path = str(problem).rpartition(" - at `$.")
        return f"{path.rstrip('`')}: {what}" if at else str(problem)
    problems = list(check_rule(rule.tree, None))
    return "; ".join(str(each)[:_LONGEST_PROBLEM] for each in problems[:_MOST_PROBLEMS])
