"""The invariants of rules and their actions, whatever fails: the simulator checks them on every write."""

from __future__ import annotations

from typing import Final

from pilothouse.api.kind_names import (
    ActionApproval,
    ApplicationAction,
    AutopilotRule,
    AutopilotRuleObject,
    PersistentVolumeClaim,
)
from pilothouse.api.objects import Object
from pilothouse.api.openstorage import v1alpha1
from pilothouse.api.openstorage.actions import FINISHED
from pilothouse.base.quantity import Quantity, parse_quantity
from pilothouse.rules.action_budgets import spent, with_defaults
from pilothouse.rules.action_targets import ActionTarget, has_same_effect
from pilothouse.rules.action_verification import VERIFIED
from pilothouse.runtime.invariants import Invariant, ObjectStates, invariant


@invariant(PersistentVolumeClaim)
def a_claim_is_grown_by_an_action_alone(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    """It never gets smaller, and its size is what some action aims at."""
    if before is None or after is None or before.uid != after.uid:
        return None
    was, size = _request(before), _request(after)
    if size == was:
        return None
    if size < was:
        return f"claim {after.name} is made smaller, from {was} to {size}"
    aims = [parse_quantity(one.at("spec", "target", "to", default="0")) for one in _of(facts, after.uid)]
    return None if size in aims else f"claim {after.name} is grown to {size}, which no action aims at"


@invariant(ApplicationAction)
def one_action_at_a_time_is_under_way_on_an_object(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    if before is not None or after is None:
        return None
    open_ones = [one.name for one in _of(facts, _uid(after)) if one.at("status", "phase") not in FINISHED]
    return f"{' and '.join(open_ones)} are under way on one object" if len(open_ones) > 1 else None


@invariant(ApplicationAction)
def a_trigger_is_on_record_and_has_one_action(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    """Before its action is created, the number of the trigger is in the AutopilotRuleObject."""
    if before is not None or after is None:
        return None
    trigger, rule = after.spec.get("trigger"), after.spec.get("rule")
    same = [
        one for one in _of(facts, _uid(after)) if (one.spec["trigger"], one.spec["rule"]) == (trigger, rule)
    ]
    if len(same) > 1:
        return f"{same[0].name} and {same[1].name} are of one trigger"
    records = [
        one for one in facts.all(AutopilotRuleObject, after.namespace)
        if one.at("status", "object", "uid") == _uid(after) and (one.controller or {}).get("name") == rule
    ]  # fmt: skip
    if not records or records[0].status.get("triggers") != trigger:
        return f"{after.name} is of the trigger {trigger}, which is not on record"
    return None


@invariant(ApplicationAction)
def an_action_starts_from_the_size_that_is_there(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    """A resize under way is not built upon, and no target is above the rule's maxsize."""
    if before is not None or after is None or (claim := facts.of(_uid(after))) is None:
        return None
    to = parse_quantity(after.at("spec", "target", "to", default="0"))
    largest = parse_quantity(after.at("spec", "parameters", "maxsize", default="1Ei"))
    if to > largest:
        return f"{after.name} aims at {to}, and maxsize is {largest}"
    if (request := _request(claim)) > to:
        return f"{after.name} aims at {to}, and claim {claim.name} requests {request}"
    return None


@invariant(ApplicationAction)
def an_action_has_its_approval(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    """Approved for this rule, as it is, and this target."""
    if before is not None or after is None:
        return None
    rule = facts.find(AutopilotRule, "", str(after.spec["rule"]))
    if rule is None or rule.generation != after.spec.get("ruleGeneration"):
        return None
    if rule.spec.get("enforcement") == "recommend":
        return f"{after.name} is of a rule that only recommends"
    if rule.spec.get("enforcement") != "approvalRequired":
        return None
    approval = facts.find(ActionApproval, after.namespace, str(after.spec.get("approval")))
    if approval is None or approval.spec.get("approvalState") != "approved":
        return f"{after.name} is created without an approval"
    approved, aims = approval.at("status", "target", default={}), after.spec.get("target") or {}
    if not has_same_effect(approved, aims):
        return f"{after.name} aims at something else than what was approved"
    return None


@invariant(ApplicationAction)
def a_verification_follows_success_and_is_final(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    """Only what has succeeded is verified; what was found then stays."""
    if after is None or (found := after.condition(VERIFIED)) is None:
        return None
    if after.at("status", "phase") != "Succeeded":
        return f"{after.name} is {after.at('status', 'phase')} and verified"
    earlier = (before.condition(VERIFIED) if before is not None else None) or {}
    if earlier.get("status") in ("True", "False") and earlier != found:
        return f"{after.name} is verified twice: {earlier} and {found}"
    return None


@invariant(ApplicationAction)
def no_rule_spends_more_than_its_budget(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    if before is not None or after is None:
        return None
    rule = facts.find(AutopilotRule, "", str(after.spec["rule"]))
    if rule is None or rule.generation != after.spec.get("ruleGeneration"):
        return None
    budget = with_defaults(rule.as_type(v1alpha1.AutopilotRule).spec.budget)
    others = [
        one for one in facts.all(ApplicationAction)
        if one.spec["rule"] == rule.name and one.uid != after.uid
    ]  # fmt: skip
    if problem := spent(budget, others, _uid(after), ActionTarget(), after.created):
        return f"{after.name} is created, although {problem}"
    return None


def _of(facts: ObjectStates, uid: str) -> list[Object]:
    return [one for one in facts.all(ApplicationAction) if _uid(one) == uid]


def _uid(action: Object) -> str:
    return str(action.at("spec", "object", "uid", default=""))


def _request(claim: Object) -> Quantity:
    return parse_quantity(claim.at("spec", "resources", "requests", "storage", default="0"))


RULE_INVARIANTS: Final[tuple[Invariant, ...]] = (
    a_claim_is_grown_by_an_action_alone,
    one_action_at_a_time_is_under_way_on_an_object,
    a_trigger_is_on_record_and_has_one_action,
    an_action_starts_from_the_size_that_is_there,
    an_action_has_its_approval,
    a_verification_follows_success_and_is_final,
    no_rule_spends_more_than_its_budget,
)
