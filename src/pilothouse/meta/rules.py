"""Running a schema's CEL rules over an object.

    rules = Rules(schema)
    rules.check(obj, stored, found)     # found: what validation has found so far

A rule sees the part of the object that its node describes as ``self``. A rule that mentions ``oldSelf`` is about a change: it
runs only where that part existed before, unless it takes ``oldSelf`` as an optional. Parts are matched as in
``validating``. A rule that is broken by a part which didn't change is tolerated.

Rules may rely on the types, so while the object has faults of type, presence, enumeration or length none is run, and one more
error says so. Rules are compiled when they are first run, and once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from pilothouse.meta import fields
from pilothouse.meta.cel import BudgetExceeded, CelError, Expression, compile_message, compile_rule
from pilothouse.meta.fields import FieldError, child, element, entry
from pilothouse.meta.schema import UNSET, Rule, Schema
from pilothouse.meta.schema_plan import Plan, make_plan
from pilothouse.meta.validating import correlate, unchanged

_BLOCKING = {fields.REQUIRED, fields.NOT_SUPPORTED, fields.TOO_LONG, fields.TOO_MANY, fields.TYPE_INVALID}
_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
_MAX_MESSAGE = 5 * 1024


class _Compiled(NamedTuple):
    rule: Rule
    test: Expression
    message: Expression | None


class _Exhausted(Exception):
    """No further rule is run."""


class Rules:
    """The rules of a schema."""

    def __init__(self, schema: Schema) -> None:
        self._plan = make_plan(schema, lambda node: any(True for _ in rules_of(node)))
        self._compiled: dict[int, tuple[_Compiled, ...]] = {}

    def check(self, obj: Any, old: Any, found: Sequence[FieldError]) -> list[FieldError]:
        """What the rules say; ``old`` is UNSET when an object is created."""
        if self._plan is None:
            return []
        if any(fault.reason in _BLOCKING for fault in found):
            return [FieldError.invalid("<nil>", "null", _NOT_CHECKED)]
        broken: list[FieldError] = []
        with contextlib.suppress(_Exhausted):
            self._node(self._plan, obj, old, "", broken)
        return broken

    def _node(self, plan: Plan, value: Any, old: Any, path: str, broken: list[FieldError]) -> None:
        if value is None:
            return
        if plan.wanted:
            for compiled in self._rules(plan.schema):
                _run(compiled, plan.schema, value, old, path, broken)
        if isinstance(value, dict):
            before = old if isinstance(old, dict) else {}
            for name, inner in plan.properties:
                if name in value:
                    self._node(inner, value[name], before.get(name, UNSET), child(path, name), broken)
            if plan.additional is not None:
                for name, item in value.items():
                    if name not in plan.schema.properties:
                        self._node(plan.additional, item, before.get(name, UNSET), entry(path, name), broken)
        elif isinstance(value, list) and plan.items is not None:
            match = correlate(plan.schema, old)
            for index, item in enumerate(value):
                self._node(plan.items, item, match(item), element(path, index), broken)

    def _rules(self, schema: Schema) -> tuple[_Compiled, ...]:
        compiled = self._compiled.get(id(schema))
        if compiled is None:
            compiled = tuple(_compile(rule, schema) for rule in rules_of(schema))
            self._compiled[id(schema)] = compiled
        return compiled


def rules_of(schema: Schema) -> tuple[Rule, ...]:
    """A node's own rules and those inside its ``allOf``."""
    return schema.rules + tuple(rule for each in schema.all_of for rule in rules_of(each))


def _compile(rule: Rule, schema: Schema) -> _Compiled:
    test = compile_rule(rule.rule, schema, optional_old=rule.optional_old_self)
    message = None
    if rule.message_expression:
        message = compile_message(rule.message_expression, schema, optional_old=rule.optional_old_self)
    return _Compiled(rule, test, message)


def _run(
    compiled: _Compiled, schema: Schema, value: Any, old: Any, path: str, broken: list[FieldError]
) -> None:
    rule, test, _ = compiled
    before = UNSET if old is None else old
    if test.uses_old and before is UNSET and not rule.optional_old_self:
        return
    what = schema.type or "object"
    said = (rule.message or rule.rule).strip()
    try:
        if test.evaluate(value, before) is True:
            return
    except BudgetExceeded as error:
        detail = f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {said}"
        broken.append(FieldError.invalid(path or "<nil>", what, detail))
        raise _Exhausted from None
    except CelError as error:
        broken.append(FieldError.invalid(path or "<nil>", what, f"{error} evaluating rule: {said}"))
        return
    if not test.uses_old and unchanged(value, before):
        return
    detail = _message(compiled, value, before)
    broken.append(
        _error(rule, path + rule.field_path if path else rule.field_path.removeprefix("."), what, detail)
    )


def _message(compiled: _Compiled, value: Any, old: Any) -> str:
    rule = compiled.rule
    if compiled.message is not None and not (compiled.message.uses_old and old is UNSET):
        try:
            said = compiled.message.evaluate(value, old)
        except CelError:
            said = (
                ""  # The rule is broken whether or not its message can be worked out; the fixed text serves.
            )
        if isinstance(said, str) and said.strip() and "\n" not in said.strip() and len(said) <= _MAX_MESSAGE:
            return said.strip()
    return rule.message.strip() or f"failed rule: {rule.rule.strip()}"


def _error(rule: Rule, path: str, what: str, detail: str) -> FieldError:
    where = path or "<nil>"
    match rule.reason:
        case fields.FORBIDDEN:
            return FieldError.forbidden(where, detail)
        case fields.REQUIRED:
            return FieldError.required(where, detail)
        case fields.DUPLICATE:
            return FieldError.duplicate(where, what)
    return FieldError.invalid(where, what, detail)
