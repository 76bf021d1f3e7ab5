"""ApplicationPolicies as AutopilotRules: pure, and the same in the controller and in commands.

found = expand("orders", spec)               # of an ApplicationPolicy with the name orders
found.rules                                  # name and spec of each rule that could be made
found.problems                               # with the path of the field, and what there is instead
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pilothouse.api.policies.module_registry import BUILT_IN, find_module, modules
from pilothouse.api.policies.policy_module import PolicyModule, PolicyTemplate, RuleFields
from pilothouse.api.policies.policy_parameters import ParameterError, ParameterValue, PolicyParameter, shown

_LONGEST_NAME: Final = 253
_ASKING: Final = ("approvalRequired", "recommend")

Spec = Mapping[str, Any]
"""The spec of an ApplicationPolicy, as in JSON."""


class ExpandedPolicy(msgspec.Struct, frozen=True):
    """A policy as a rule."""

    policy: str
    name: str
    """Of the AutopilotRule."""
    spec: RuleFields
    template: PolicyTemplate


class PolicyProblem(msgspec.Struct, frozen=True):
    """Why a policy can't be expanded."""

    reason: str
    """In one word, for the condition: UnknownModule, UnknownPolicy, UnknownParameter, InvalidParameter …"""
    path: str
    value: str
    message: str
    choices: tuple[str, ...] = ()
    """What there is instead, if it is one of a few."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class Expansion(msgspec.Struct, frozen=True):
    rules: tuple[ExpandedPolicy, ...] = ()
    problems: tuple[PolicyProblem, ...] = ()


def expand(name: str, spec: Spec) -> Expansion:
    """The rules of the ApplicationPolicy of this name: all that can be made, and why others can't."""
    module = find_module(str(spec.get("application", "")))
    if module is None:
        known = tuple(each.name for each in modules())
        wanted = str(spec.get("application", ""))
        message = f"there is no module {shown(wanted)}; there are {', '.join(known)}"
        return Expansion(
            problems=(PolicyProblem("UnknownModule", "spec.application", wanted, message, known),)
        )
    rules: list[ExpandedPolicy] = []
    problems: list[PolicyProblem] = []
    for index, policy in enumerate(spec.get("policies") or ()):
        found, wrong = _expanded(name, module, policy, spec, f"spec.policies[{index}]")
        problems += wrong
        if found is not None:
            rules.append(found)
    return Expansion(tuple(rules), tuple(problems))


def built_in_problems(spec: Spec) -> Sequence[PolicyProblem]:
    """The problems of policies of our own modules; other modules may be known to controllers alone."""
    if not any(each.name == spec.get("application") for each in BUILT_IN):
        return ()
    return expand("", spec).problems


def rule_name(name: str, policy: str) -> str:
    """``<name>-<policy>``; shortened, with a hash, if that is too long for a name."""
    whole = f"{name}-{policy}"
    if len(whole) <= _LONGEST_NAME:
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()[:10]
    return f"{whole[: _LONGEST_NAME - 11].rstrip('.-')}-{digest}"


def _expanded(
    name: str, module: PolicyModule, policy: Mapping[str, Any], spec: Spec, path: str
) -> tuple[ExpandedPolicy | None, list[PolicyProblem]]:
    wanted = str(policy.get("name", ""))
    template = module.find(wanted)
    if template is None:
        known = tuple(each.name for each in module.policies)
        message = f"{module.name} has no policy {shown(wanted)}; it has {', '.join(known)}"
        return None, [PolicyProblem("UnknownPolicy", f"{path}.name", wanted, message, known)]
    values, problems = _values(template, policy.get("parameters") or {}, f"{path}.parameters")
    enforcement = policy.get("enforcement") or template.enforcement
    if template.asks and enforcement not in _ASKING:
        message = f"{wanted} leaves the decision to a person; use one of {', '.join(_ASKING)}"
        problems.append(
            PolicyProblem("InvalidEnforcement", f"{path}.enforcement", str(enforcement), message, _ASKING)
        )
    if problems:
        return None, problems
    try:
        fields: RuleFields = template.build(values)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
        # It may be another package's.
        message = f"{wanted} of module {module.name} builds no rule: {type(problem).__name__}: {problem}"
        return None, [PolicyProblem("InvalidRule", f"{path}.parameters", wanted, message)]
    for field in ("selector", "namespaceSelector"):
        if selector := spec.get(field):
            fields[field] = selector
    if enforcement:
        fields["enforcement"] = enforcement
    return ExpandedPolicy(wanted, rule_name(name, wanted), fields, template), []


def _values(
    template: PolicyTemplate, given: Mapping[str, str], path: str
) -> tuple[dict[str, ParameterValue], list[PolicyProblem]]:
    values: dict[str, ParameterValue] = {}
    problems: list[PolicyProblem] = []
    known: dict[str, PolicyParameter] = {each.name: each for each in template.parameters}
    for name in sorted(given.keys() - known.keys()):
        names = tuple(known)
        message = f"{template.name} has no parameter {shown(name)}; it has {', '.join(names)}"
        problems.append(PolicyProblem("UnknownParameter", f"{path}.{name}", name, message, names))
    for name, parameter in known.items():
        try:
            values[name] = parameter.read(str(given[name])) if name in given else parameter.default_value
        except ParameterError as problem:
            problems.append(
                PolicyProblem("InvalidParameter", f"{path}.{name}", str(given[name]), str(problem))
            )
    return values, problems
