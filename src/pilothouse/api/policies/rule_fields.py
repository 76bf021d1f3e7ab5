"""Parts of an AutopilotRule's spec, for the modules that build them.

rule(conditions(expression("up", "Lt", "1")), object="volume", actions=(action(RESIZE, maxsize="1Ti"),))
"""

from __future__ import annotations

from typing import Any

from pilothouse.api.policies.policy_module import RuleFields
from pilothouse.api.policies.policy_parameters import ParameterValue

Text = str | ParameterValue


def expression(key: str, operator: str, value: Text, *, clear_at: Text = "", on: str = "") -> RuleFields:
    """A comparison of PromQL, or of an alias such as ``VolumeUsagePercent``, with a number."""
    found: RuleFields = {"keyAlias" if key.isidentifier() and key[0].isupper() else "key": key}
    found |= {"operator": operator, "values": [str(value)]}
    if str(clear_at):
        found["clearAt"] = str(clear_at)
    if on:
        found["on"] = on
    return found


def conditions(*expressions: RuleFields, hold: int = 60, required: int = 0) -> RuleFields:
    """Comparisons that have to hold for so many seconds: all of them, or ``required``."""
    found: RuleFields = {"expressions": list(expressions), "for": hold}
    if required:
        found["requiredMatches"] = required
    return found


def action(name: str, **parameters: Text) -> RuleFields:
    """An action; parameters that are empty are left out."""
    texts = {key: _text(value) for key, value in parameters.items()}
    return {"name": name, "params": {key: text for key, text in texts.items() if text}}


def candidate(name: str, *when: RuleFields, actions: tuple[RuleFields, ...]) -> RuleFields:
    """A cause, and what is done about it."""
    return {"name": name, "when": list(when), "actions": list(actions)}


def rule(
    when: RuleFields,
    *,
    object: str,
    actions: tuple[RuleFields, ...] = (),
    candidates: tuple[RuleFields, ...] = (),
    **fields: Any,
) -> RuleFields:
    """The spec of a rule about objects of a type."""
    found: RuleFields = {"object": object, "conditions": when, **fields}
    if actions:
        found["actions"] = list(actions)
    if candidates:
        found["candidates"] = list(candidates)
    return found


def _text(value: Text) -> str:
    return value.text if isinstance(value, ParameterValue) else value
