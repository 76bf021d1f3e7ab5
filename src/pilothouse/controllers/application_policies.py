"""ApplicationPolicies: each of their policies becomes an AutopilotRule ``<name>-<policy>``.

A rule is owned by its ApplicationPolicy: one that was edited by hand is reset, with the event
``RuleReset`` on both, one whose policy was removed is deleted, and all go with the object. A rule of that
name with another owner, or none, is not touched. A policy that can't be expanded, or into no valid rule,
leaves its rule as it was: a mistake in a parameter takes no protection away. What follows from a rule is up
to the controllers in ``pilothouse.rules``.

The condition ``Ready`` says whether all rules are made and followed, and else what there is instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from pilothouse.api.kind_names import ApplicationPolicy, AutopilotRule, AutopilotRuleObject
from pilothouse.api.objects import Object, Tree, owner_reference
from pilothouse.api.openstorage.rule_validation import check_rule
from pilothouse.api.openstorage.v1alpha1 import AutopilotRuleSpec
from pilothouse.api.policies.expansion import ExpandedPolicy, expand, rule_name
from pilothouse.api.policies.module_registry import InvalidModule
from pilothouse.base.rfc3339 import format_time, parse_time
from pilothouse.meta.conditions import find_condition, with_condition
from pilothouse.runtime.controller import Names, controller
from pilothouse.runtime.intents import (
    Create,
    Delete,
    Intent,
    RecordEvent,
    RequeueAfter,
    SetStatus,
    Update,
    Wait,
)
from pilothouse.runtime.snapshot import Snapshot

READY: Final = "Ready"
RULE_RESET: Final = "RuleReset"
SILENCE: Final = 180.0
"""Seconds after which an object without any value lacks its metrics."""
_LOOK: Final = 60.0
"""Seconds between two looks at objects that have no value."""
_INITIALIZING: Final = "Initializing"
_MOST_PROBLEMS: Final = 5
_CONTROLLERS: Final = "pilothouse-"
"""How the field managers of controllers begin."""


class NotReadyReason(msgspec.Struct, frozen=True):
    """Why a policy is not followed: a reason of the condition ``Ready``."""

    reason: str
    message: str
    remedy: str = ""


def policies_of_name(rule: Object, world: Snapshot) -> Names:
    """The policies that have, or want, a rule of this name."""
    for policy in world.all(ApplicationPolicy):
        wanted = (rule_name(policy.name, str(each.get("name", ""))) for each in _listed(policy))
        if rule.name in wanted:
            yield policy.key


@controller(
    ApplicationPolicy, owns=AutopilotRule, also={AutopilotRule: policies_of_name}, reads=AutopilotRuleObject
)
def application_policies(policy: Object, world: Snapshot) -> Iterator[Intent]:
    """Make the rules of a policy, and say whether they are followed."""
    if policy.deleting:
        return
    try:
        expansion = expand(policy.name, policy.spec)
    except InvalidModule as problem:
        reasons = [NotReadyReason("InvalidModule", str(problem), "remove or correct the package")]
        yield from _report(policy, (), reasons, world.now)
        return
    reasons = [NotReadyReason(each.reason, str(each)) for each in expansion.problems]
    made: list[ExpandedPolicy] = []
    for wanted in expansion.rules:
        if why := _why_invalid(wanted):
            message = f"policy {wanted.policy} makes a rule that is not valid: {why}"
            reasons.append(NotReadyReason("InvalidRule", message, "correct its parameters or its module"))
            continue
        found = world.find(AutopilotRule, "", wanted.name)
        if found is None:
            yield Create(_tree(wanted, policy), because=f"policy {wanted.policy} has no rule")
        elif (found.controller or {}).get("uid") != policy.uid:
            reasons.append(
                NotReadyReason(
                    "NameTaken",
                    f"there is an AutopilotRule {wanted.name} that is not of this policy; it is left alone",
                    "delete or rename that rule",
                )
            )
            continue
        elif found.deleting:
            reasons.append(NotReadyReason("RuleTerminating", f"rule {wanted.name} is being deleted"))
            continue
        elif not _same(found.spec, wanted.spec):
            yield Update(
                found,
                {**found.tree, "spec": _normalized(wanted.spec)},
                because=f"rule {wanted.name} is not as policy {wanted.policy} has it",
            )
            if edited := _edited_by_hand(found, wanted, policy):
                because = (
                    f"rule {wanted.name} is as policy {wanted.policy} has it again; reset: {edited}; edit "
                    f"spec.policies of ApplicationPolicy {policy.name} instead"
                )
                yield RecordEvent(found, event=RULE_RESET, warning=True, because=because)
                yield RecordEvent(policy, event=RULE_RESET, warning=True, because=because)
        else:
            reasons += _followed(found, wanted, world)
        made.append(wanted)
    yield from _removed(policy, world)
    yield from _report(policy, made, reasons, world.now)
    if any(_initializing(rule, world) for rule in world.owned(AutopilotRule, policy)):
        yield RequeueAfter(_LOOK, because="objects have no value of the rule's metrics yet")


def _why_invalid(wanted: ExpandedPolicy) -> str:
    """Why an API server would refuse a rule; empty if it would not."""
    try:
        spec = _normalized(wanted.spec)
    except msgspec.ValidationError as problem:
        return str(problem)
    return "; ".join(str(each) for each in check_rule({"spec": spec}, None))


def _edited_by_hand(found: Object, wanted: ExpandedPolicy, policy: Object) -> str:
    """Which fields somebody else has changed, and who; empty if nobody has.

    A field that was removed has no manager. It counts if nothing else can explain the difference: the policy
    is the one that the rule was made from, and no other field differs that a controller wrote last."""
    was, to = _or_none(found.spec), _or_none(wanted.spec)
    fields = [
        each.encode_name
        for each in msgspec.structs.fields(AutopilotRuleSpec)
        if was is None or getattr(was, each.name) != getattr(to, each.name)
    ]
    managers = {name: next(iter(found.managers("spec", name)), "") for name in fields}
    others = {name: by for name, by in managers.items() if by and not by.startswith(_CONTROLLERS)}
    if others:
        return f"{', '.join(others)} (changed by {', '.join(dict.fromkeys(others.values()))})"
    same_policy = policy.status.get("observedGeneration") == policy.generation
    return ", ".join(fields) if same_policy and not any(managers.values()) else ""


def _removed(policy: Object, world: Snapshot) -> Iterator[Intent]:
    """Delete the rules of policies that are not listed any more."""
    listed = {rule_name(policy.name, str(each.get("name", ""))) for each in _listed(policy)}
    for rule in world.owned(AutopilotRule, policy):
        if rule.name not in listed and not rule.deleting:
            yield Delete(rule, because=f"ApplicationPolicy {policy.name} has no policy for rule {rule.name}")


def _followed(rule: Object, wanted: ExpandedPolicy, world: Snapshot) -> Iterator[NotReadyReason]:
    """What keeps a rule from being followed, by its own condition and by its objects."""
    ready = find_condition(rule.status.get("conditions"), READY)
    if ready is not None and ready.get("status") == "False":
        message = f"rule {rule.name}: {ready.get('message', '')}"
        yield NotReadyReason(str(ready.get("reason") or "RuleNotReady"), message)
        return
    waiting = _initializing(rule, world)
    since = min((_moment(one.status.get("since")) for one in waiting), default=world.now)
    if waiting and world.now - since >= SILENCE:
        sources = [each for each in wanted.template.sources if not each.optional]
        needed = "; ".join(f"{', '.join(each.metrics)} of {each.exporter}" for each in sources)
        first = f"{waiting[0].status.get('object', {}).get('name', waiting[0].name)}"
        yield NotReadyReason(
            "NoData",
            f"rule {rule.name}: {len(waiting)} objects such as {first} have no value; it needs {needed}",
            f"run the exporter beside the application, and see `pilothouse policy show` {wanted.policy}",
        )


def _initializing(rule: Object, world: Snapshot) -> list[Object]:
    """The objects of a rule that have had no value, unless others have had one."""
    every = world.owned(AutopilotRuleObject, rule)
    found = [one for one in every if one.status.get("state") == _INITIALIZING]
    return found if len(found) == len(every) else []


def _report(
    policy: Object, made: list[ExpandedPolicy] | tuple[()], reasons: list[NotReadyReason], now: float
) -> Iterator[Intent]:
    if reasons:
        more = f"; and {len(reasons) - _MOST_PROBLEMS} more" if len(reasons) > _MOST_PROBLEMS else ""
        reason = reasons[0].reason
        message = "; ".join(each.message for each in reasons[:_MOST_PROBLEMS]) + more
    else:
        reason, message = "Expanded", f"rules: {', '.join(sorted(each.name for each in made))}"
    condition = {
        "type": READY,
        "status": "False" if reasons else "True",
        "reason": reason,
        "message": message,
        "observedGeneration": policy.generation,
    }
    status: Tree = {
        **policy.status,
        "observedGeneration": policy.generation,
        "rules": [{"policy": each.policy, "name": each.name} for each in made],
        "ruleCount": len(made),
        "conditions": with_condition(policy.status.get("conditions"), condition, now=format_time(now)),
    }
    if status != policy.status:
        yield SetStatus(policy, status, because=message)
    if reasons:
        yield Wait(reason, because=message, remedy=reasons[0].remedy)


def _tree(wanted: ExpandedPolicy, policy: Object) -> Tree:
    return {
        "apiVersion": AutopilotRule.api_version,
        "kind": AutopilotRule.kind,
        "metadata": {"name": wanted.name, "ownerReferences": [owner_reference(policy)]},
        "spec": _normalized(wanted.spec),
    }


def _normalized(spec: Mapping[str, Any]) -> Tree:
    found: Tree = msgspec.to_builtins(msgspec.convert(spec, AutopilotRuleSpec))
    return found


def _same(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether two specs are equal, but for the defaults that an API server adds."""
    one = _or_none(found)
    return one is not None and one == _or_none(wanted)


def _or_none(spec: Mapping[str, Any]) -> AutopilotRuleSpec | None:
    """None if the spec is not valid."""
    try:
        return msgspec.convert(spec, AutopilotRuleSpec)
    except msgspec.ValidationError:
        return None


def _moment(text: Any) -> float:
    try:
        return parse_time(str(text))
    except ValueError:
        return float("inf")


def _listed(policy: Object) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = list(policy.spec.get("policies") or ())
    return found
