"""Runs a schema's CEL rules over an object.

    rules = CelRules(make_plan(schema, lambda node: bool(node.rules)))
    rules.check(obj, stored, found)     # found: what validation has found so far

``self`` is the part of the object that the rule's node describes. A rule with ``oldSelf`` runs only where
that part existed before, unless it takes ``oldSelf`` as an optional; parts are matched as in ``validation``.
Faults of unchanged parts are tolerated. Rules rely on types: if the object has faults of type, presence,
enumeration or length, none runs and one more error says so. Rules are compiled on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pilothouse.meta import fields
from pilothouse.meta.cel import cost_estimate
from pilothouse.meta.cel.expressions import (
    BudgetExceeded,
    CelError,
    CelExpression,
    Values,
    compile_message,
    compile_rule,
)
from pilothouse.meta.fields import FieldError, child, element, entry
from pilothouse.meta.schema.model import UNSET, Schema, ValidationRule
from pilothouse.meta.schema.schema_plan import SchemaPlan
from pilothouse.meta.schema.validation import correlate, unchanged

_BLOCKING = {fields.REQUIRED, fields.NOT_SUPPORTED, fields.TOO_LONG, fields.TOO_MANY, fields.TYPE_INVALID}
_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
_MAX_MESSAGE = 5 * 1024
_EACH = 100
"""The fixed cost of an evaluation, in units of ``cost_estimate``."""
_MUCH = 100_000


class _Compiled(NamedTuple):
    rule: ValidationRule
    test: CelExpression
    message: CelExpression | None


class _Group(NamedTuple):
    """The rules of one node, which share its values."""

    rules: tuple[_Compiled, ...]
    reads: frozenset[str] | None
    failures: tuple[str, ...]
    """Why rules don't compile; another version of the server stored such a schema."""


class _Exhausted(Exception):
    """Ends the run; ``fault`` says why."""

    def __init__(self, fault: FieldError) -> None:
        super().__init__(str(fault))
        self.fault = fault


class CelRules:
    """The rules of a schema; the plan leads to the nodes that have rules."""

    def __init__(self, plan: SchemaPlan) -> None:
        self._plan = plan
        self._compiled: dict[int, _Group] = {}

    def check(self, obj: Any, old: Any, found: Sequence[FieldError]) -> list[FieldError]:
        """The faults that the rules find; ``old`` is UNSET on create."""
        if any(fault.reason in _BLOCKING for fault in found):
            return [FieldError.invalid("<nil>", "null", _NOT_CHECKED)]
        broken: list[FieldError] = []
        try:
            _Run(self._group, broken).node(self._plan, obj, old, "")
        except _Exhausted as stop:
            broken.append(stop.fault)
        return broken

    def _group(self, schema: Schema) -> _Group:
        group = self._compiled.get(id(schema))
        if group is None:
            group = self._compiled[id(schema)] = _compile_all(schema)
        return group


class _Run:
    """One run of the rules over an object, and the budget left."""

    def __init__(self, group: Callable[[Schema], _Group], broken: list[FieldError]) -> None:
        self._group = group
        self._broken = broken
        self._left = cost_estimate.OBJECT_LIMIT

    def node(self, plan: SchemaPlan, value: Any, old: Any, path: str) -> None:
        if value is None:
            return
        if plan.wanted:
            self._rules(plan.schema, value, UNSET if old is None else old, path)
        if isinstance(value, dict):
            before = old if isinstance(old, dict) else {}
            for name, inner in plan.properties:
                if name in value:
                    self.node(inner, value[name], before.get(name, UNSET), child(path, name))
            if plan.additional is not None:
                for name, item in value.items():
                    if name not in plan.schema.properties:
                        self.node(plan.additional, item, before.get(name, UNSET), entry(path, name))
        elif isinstance(value, list) and plan.items is not None:
            match = correlate(plan.schema, old)
            for index, item in enumerate(value):
                self.node(plan.items, item, match(item), element(path, index))

    def _rules(self, schema: Schema, value: Any, old: Any, path: str) -> None:
        group = self._group(schema)
        what = schema.type or "object"
        self._broken += [FieldError.invalid(path or "<nil>", what, failure) for failure in group.failures]
        due = [
            each
            for each in group.rules
            if old is not UNSET or not each.test.uses_old or each.rule.optional_old_self
        ]
        if due:
            values = self._values(value, old, group.reads)
            spent = 0
            for compiled in due:
                if spent > _MUCH:  # What an evaluation takes is given back with the values.
                    values, spent = self._values(value, old, group.reads), 0
                before = self._left
                fault = self._test(compiled, schema, values, path)
                spent += before - self._left
                if fault is not None and (compiled.test.uses_old or not unchanged(value, old)):
                    self._broken.append(fault)

    def _values(self, value: Any, old: Any, reads: frozenset[str] | None) -> Values:
        values = Values(value, old, reads)
        self._left -= values.conversion_cost
        return values

    def _test(self, compiled: _Compiled, schema: Schema, values: Values, path: str) -> FieldError | None:
        """The rule's faults; a rule that can't be evaluated counts as violated."""
        rule, test, _ = compiled
        what = schema.type or "object"
        said = (rule.message or rule.rule).strip()
        try:
            if self._evaluate(test, values) is True:
                return None
        except BudgetExceeded as error:
            detail = (
                f"'{error}': no further validation rules will be run due to call cost exceeds limit "
                f"for rule: {said}"
            )
            raise _Exhausted(FieldError.invalid(path or "<nil>", what, detail)) from None
        except CelError as error:
            return FieldError.invalid(path or "<nil>", what, f"{error} evaluating rule: {said}")
        where = path + rule.field_path if path else rule.field_path.removeprefix(".")
        return _error(rule, where, what, self._message(compiled, values))

    def _message(self, compiled: _Compiled, values: Values) -> str:
        rule = compiled.rule
        if compiled.message is not None:
            try:
                said = self._evaluate(compiled.message, values)
            except CelError:
                said = ""  # The rule is violated whether or not its message can be evaluated.
            said = said.strip() if isinstance(said, str) and len(said) <= _MAX_MESSAGE else ""
            if said and "\n" not in said:
                return str(said)
        return rule.message.strip() or f"failed rule: {rule.rule.strip()}"

    def _evaluate(self, expression: CelExpression, values: Values) -> Any:
        self._spend(_EACH)
        cost = expression.cost(values)
        self._spend(min(cost, cost_estimate.CALL_LIMIT))
        return expression.evaluate(values, cost)

    def _spend(self, cost: int) -> None:
        self._left -= cost
        if self._left < 0:
            raise BudgetExceeded("validation failed due to running out of cost budget")


def _compile_all(schema: Schema) -> _Group:
    rules: list[_Compiled] = []
    failures: list[str] = []
    reads: frozenset[str] | None = frozenset()
    for rule in schema.rules:
        try:
            compiled = _compile(rule, schema)
        except CelError as error:
            failures.append(f"rule compile error: {error}")
            continue
        rules.append(compiled)
        for expression in (compiled.test, compiled.message):
            if expression is not None:
                reads = None if reads is None or expression.reads is None else reads | expression.reads
    return _Group(tuple(rules), reads, tuple(failures))


def _compile(rule: ValidationRule, schema: Schema) -> _Compiled:
    test = compile_rule(rule.rule, schema, optional_old=rule.optional_old_self)
    message = None
    if rule.message_expression:
        message = compile_message(rule.message_expression, schema, optional_old=rule.optional_old_self)
    return _Compiled(rule, test, message)


def _error(rule: ValidationRule, path: str, what: str, detail: str) -> FieldError:
    where = path or "<nil>"
    match rule.reason:
        case fields.FORBIDDEN:
            return FieldError.forbidden(where, detail)
        case fields.REQUIRED:
            return FieldError.required(where, detail)
        case fields.DUPLICATE:
            return FieldError.duplicate(where, what)
    return FieldError.invalid(where, what, detail)
