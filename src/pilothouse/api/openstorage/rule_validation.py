"""Validation of rules, approvals and policies beyond their schemas; yields all problems with their paths."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pilothouse.api.openstorage.actions import name_problems, object_type, parameter_problems, size_problem
from pilothouse.api.openstorage.aliases import ALIASES
from pilothouse.api.openstorage.levels import LEVELS, object_of_rule, reached_from
from pilothouse.api.policies.expansion import built_in_problems
from pilothouse.base.plurals import counted
from pilothouse.meta import names, promql
from pilothouse.meta.fields import FieldError, child, element
from pilothouse.meta.selectors import LabelSelector, SelectorError

_COMPARISONS: Final = ("Gt", "GtEq", "Lt", "LtEq")
_RANGES: Final = ("InRange", "NotInRange")
_TIME: Final = re.compile(r"([01]?[0-9]|2[0-3]):[0-5][0-9]|(0?[1-9]|1[0-2]):[0-5][0-9] ?[AaPp][Mm]")
_QUOTED: Final = 200
"""How much of an expression a message quotes."""

Problems = Iterator[FieldError]


def default_rule(rule: dict[str, Any]) -> None:
    """Store an unquoted ``on``, which YAML 1.1 reads as ``true``, under its name."""
    spec = rule.get("spec")
    if isinstance(spec, dict):
        _rename_unquoted_on(spec.get("conditions"))
        _rename_unquoted_on(spec.get("candidates"))


def _rename_unquoted_on(tree: Any) -> None:
    """In every object below; what is of a wrong type is refused later."""
    if isinstance(tree, list):
        for item in tree:
            _rename_unquoted_on(item)
    elif isinstance(tree, dict):
        if "true" in tree:
            tree.setdefault("on", tree.pop("true"))
        for name in ("expressions", "when"):
            _rename_unquoted_on(tree.get(name))


def check_rule(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> Problems:
    spec = new["spec"]
    if old is not None and spec == old["spec"]:
        return
    yield from _check_selectors(spec)
    conditions = spec["conditions"]
    for index, expression in enumerate(conditions["expressions"]):
        yield from _check_expression(expression, f"spec.conditions.expressions[{index}]")
    wanted, given = conditions.get("requiredMatches", 0), len(conditions["expressions"])
    if wanted > given:
        problem = f"can't be met: there {'is' if given == 1 else 'are'} only {counted(given, 'expression')}"
        yield FieldError.invalid("spec.conditions.requiredMatches", wanted, problem)
    yield from _check_what_is_done(spec)
    if window := spec.get("actionWindow"):
        yield from _check_action_window(window, "spec.actionWindow")
    growth = (spec.get("budget") or {}).get("growthPerDay")
    if growth is not None and (problem := size_problem(growth)):
        yield FieldError.invalid("spec.budget.growthPerDay", growth, problem)


def check_approval(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> Problems:
    if old is not None and new["spec"] == old["spec"]:
        return
    yield from _check_actions(new["spec"].get("actions", ()), "spec.actions")


def check_application_policy(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> Problems:
    spec = new["spec"]
    yield from _check_selectors(spec)
    if problem := names.label(spec["application"]):
        yield FieldError.invalid("spec.application", spec["application"], problem)
    for index, policy in enumerate(spec["policies"]):
        if problem := names.label(policy["name"]):
            yield FieldError.invalid(f"spec.policies[{index}].name", policy["name"], problem)
    if old is None or spec != old["spec"]:
        for found in built_in_problems(spec):
            if found.choices:
                yield FieldError.not_supported(found.path, found.value, found.choices)
            else:
                yield FieldError.invalid(found.path, found.value[:_QUOTED], found.message)


def check_application_action(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> Problems:
    spec = new["spec"]
    if old is not None:
        for name in sorted(spec.keys() | old["spec"].keys()):
            if spec.get(name) != old["spec"].get(name):
                yield FieldError.forbidden(
                    child("spec", name),
                    "a fired action can't be changed; delete it and let the rule fire again",
                )
        return
    yield from name_problems(spec["action"], "spec.action")
    yield from parameter_problems(spec["action"], spec.get("parameters") or {}, "spec.parameters")


def _check_selectors(spec: Mapping[str, Any]) -> Problems:
    for name in ("selector", "namespaceSelector"):
        if selector := spec.get(name):
            try:
                LabelSelector.from_object(selector)
            except SelectorError as error:
                yield FieldError.invalid(child("spec", name), selector, str(error))


def _check_expression(expression: Mapping[str, Any], path: str) -> Problems:
    subjects = [name for name in ("key", "keyAlias", "expression") if expression.get(name)]
    if not subjects:
        yield FieldError.required(path, "needs one of key, keyAlias and expression")
        return
    if len(subjects) > 1:
        yield FieldError.forbidden(
            child(path, subjects[1]), f"{subjects[0]} is given already; only one of them may be set"
        )
        return
    alias = expression.get("keyAlias")
    if alias and alias not in ALIASES:
        yield FieldError.not_supported(child(path, "keyAlias"), alias, ALIASES)
    key = expression.get("key")
    if key and (problem := promql.problem_of(key)):
        yield FieldError.invalid(child(path, "key"), key[:_QUOTED], problem)
    if subjects == ["expression"]:
        for name in ("operator", "values", "clearAt"):
            if expression.get(name):
                yield FieldError.forbidden(child(path, name), "must not be set together with expression")
        return
    operator = expression.get("operator")
    if operator is None:
        yield FieldError.required(child(path, "operator"), "how the metric is compared with the values")
        return
    values = expression.get("values", ())
    yield from _check_values(operator, values, child(path, "values"))
    if (clear_at := expression.get("clearAt")) is not None:
        yield from _check_clear_at(operator, values, clear_at, child(path, "clearAt"))


def _check_values(operator: str, values: list[str], path: str) -> Problems:
    if operator in ("Exists", "DoesNotExist"):
        if values:
            yield FieldError.forbidden(path, f"{operator} takes no values")
        return
    wanted = 1 if operator in _COMPARISONS else 2 if operator in _RANGES else None
    if wanted is not None and len(values) != wanted:
        yield FieldError.invalid(path, list(values), f"{operator} takes exactly {wanted}")
        return
    if not values:
        yield FieldError.required(path, f"{operator} takes at least one")
    numbers: list[float] = []
    for index, value in enumerate(values):
        number = _number(value)
        if number is None:
            yield FieldError.invalid(element(path, index), value, 'must be a number, such as "50"')
        else:
            numbers.append(number)
    if operator in _RANGES and len(numbers) == 2 and numbers[0] > numbers[1]:
        yield FieldError.invalid(path, list(values), "the lower end of the range comes first")


def _check_clear_at(operator: str, values: Sequence[str], clear_at: str, path: str) -> Problems:
    number = _number(clear_at)
    if operator not in _COMPARISONS:
        yield FieldError.forbidden(path, f"is for {', '.join(_COMPARISONS)}, not for {operator}")
    elif number is None:
        yield FieldError.invalid(path, clear_at, 'must be a number, such as "40"')
    elif len(values) == 1 and (threshold := _number(values[0])) is not None:
        above = operator in ("Gt", "GtEq")
        if number > threshold if above else number < threshold:
            side = "above" if above else "below"
            yield FieldError.invalid(path, clear_at, f"must not be {side} the value, which is {values[0]}")


def _check_actions(actions: Any, path: str) -> Problems:
    types: set[str] = set()
    for index, action in enumerate(actions):
        at = element(path, index)
        yield from name_problems(action["name"], child(at, "name"))
        yield from parameter_problems(action["name"], action.get("params") or {}, child(at, "params"))
        if kind := object_type(action["name"]):
            types.add(kind)
            if len(types) > 1:
                yield FieldError.invalid(
                    child(at, "name"),
                    action["name"],
                    f"all actions have to be for one type of object, not {kind} too",
                )
                return


def _check_what_is_done(spec: Mapping[str, Any]) -> Problems:
    """Actions or candidates, for an object from which what they act on and look at is reached."""
    actions, candidates = spec.get("actions") or (), spec.get("candidates") or ()
    if not actions and not candidates:
        yield FieldError.required("spec.actions", "needs actions, or candidates with actions")
        return
    if actions and candidates:
        yield FieldError.forbidden("spec.actions", "must not be set together with candidates")
        return
    about = object_of_rule(spec)
    if actions:
        yield from _check_actions(actions, "spec.actions")
        yield from _check_reached(about, actions, "spec.actions")
    for number, expression in enumerate(spec["conditions"]["expressions"]):
        yield from _check_level(about, expression, f"spec.conditions.expressions[{number}].on")
    for index, candidate in enumerate(candidates):
        path = f"spec.candidates[{index}]"
        for number, expression in enumerate(candidate["when"]):
            at = f"{path}.when[{number}]"
            yield from _check_expression(expression, at)
            yield from _check_level(about, expression, child(at, "on"))
        yield from _check_actions(candidate["actions"], child(path, "actions"))
        yield from _check_reached(about, candidate["actions"], child(path, "actions"))


def _check_reached(about: str, actions: Any, path: str) -> Problems:
    for index, action in enumerate(actions):
        kind = object_type(action["name"])
        if kind in LEVELS and about in LEVELS and kind not in reached_from(about):
            yield FieldError.invalid(
                child(element(path, index), "name"),
                action["name"],
                f"a rule about a {about} does not lead to one {kind}; set spec.object to {kind}",
            )


def _check_level(about: str, expression: Mapping[str, Any], path: str) -> Problems:
    level = expression.get("on")
    if level and about in LEVELS and level not in reached_from(about):
        yield FieldError.not_supported(path, level, reached_from(about))


def _check_action_window(window: Mapping[str, Any], path: str) -> Problems:
    zone = window["timezone"]
    if not _is_zone(zone):
        yield FieldError.invalid(
            child(path, "timezone"), zone, "must be a time zone such as UTC or Europe/Zurich"
        )
    for index, part in enumerate(window["windows"]):
        at = element(child(path, "windows"), index)
        for name in ("startTime", "endTime"):
            if not _TIME.fullmatch(part[name]):
                yield FieldError.invalid(
                    child(at, name), part[name], 'must be a time of day such as "22:30" or "10:30PM"'
                )
        if part["startTime"] == part["endTime"]:
            yield FieldError.invalid(child(at, "endTime"), part["endTime"], "must differ from the start")


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _is_zone(name: str) -> bool:
    """True if the system's time-zone database has it; nothing else is read."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return name == "UTC"
    return True
