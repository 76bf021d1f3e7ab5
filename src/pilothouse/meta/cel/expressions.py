"""The only module that uses the CEL library: compiles rules against a schema, evaluates them.

    rule = compile_rule("self.replicas <= oldSelf.replicas + 1", schema)
    rule.evaluate(Values({"replicas": 3}, {"replicas": 2}))     # True

Compiling reports syntax errors, unknown functions and fields, wrong types, and expressions that are too
expensive even for small operands. An evaluation that could exceed its budget is not run, and one that
iterates too often is stopped (``BudgetExceeded``). Supported: standard CEL, optionals, ``cel.bind``, the
string, math and encoder extensions, and ``functions``. Kubernetes' other libraries (``format.*``, ``semver``,
authorizer, two-variable comprehensions) are undeclared references.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any

import msgspec
from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_encoders, ext_math, ext_optional, ext_strings

from pilothouse.meta.cel import ast, cost_estimate
from pilothouse.meta.cel.field_access import FieldAccess, resolve
from pilothouse.meta.cel.functions import FUNCTIONS, Signature
from pilothouse.meta.schema.model import UNSET, Schema

_encode = msgspec.json.encode

_OLD = "oldSelf"
_WRAPPED = "wrapped_old_self"
"""Stands for the bare old value where ``oldSelf`` is an optional."""
_HAS_OLD = "has_old_self"

MAX_SOURCE = 10_000
"""The maximum length of an expression: compiling takes about 10 ms per thousand characters."""
_CHEAP = 10_000
"""Below this cost for any value of its size, the cost for the value itself isn't computed."""
_SMALL = 16
"""Expressions are priced with this length for every text, list or map that the schema leaves unlimited."""

_TYPES = {
    "bool": cel.Type.BOOL,
    "bytes": cel.Type.BYTES,
    "double": cel.Type.DOUBLE,
    "dyn": cel.Type.DYN,
    "int": cel.Type.INT,
    "list": cel.Type.List(cel.Type.DYN),
    "map": cel.Type.Map(cel.Type.STRING, cel.Type.DYN),
    "string": cel.Type.STRING,
}


class CelError(Exception):
    """An expression can't be compiled, or failed in evaluation."""


class BudgetExceeded(CelError):
    """An expression exceeded its budget."""


class CelExpression:
    """A compiled expression over ``self`` and ``oldSelf``."""

    def __init__(
        self, source: str, tree: ast.Node, compiled: Any, *, uses_old: bool, reads: frozenset[str] | None
    ) -> None:
        self.source = source
        self.uses_old = uses_old
        self.reads = reads
        """The fields of ``self`` and ``oldSelf`` that it reads; None if it uses either as a whole."""
        self._tree = tree
        self._compiled = compiled
        self._known: dict[int, int] = {}

    def cost(self, values: Values) -> int:
        """The maximum cost of an evaluation, in units of ``cost_estimate``."""
        magnitude = values.size.bit_length()
        known = self._known.get(magnitude)
        if known is None:
            any_value = cost_estimate.of_bytes(1 << magnitude)
            known = cost_estimate.cost(self._tree, dict.fromkeys(("self", _OLD, _WRAPPED), any_value))
            self._known[magnitude] = known
        return known if known <= _CHEAP else min(known, cost_estimate.cost(self._tree, values.extents))

    def evaluate(self, values: Values, cost: int | None = None) -> Any:
        """The result; raises if the cost could exceed ``cost_estimate.CALL_LIMIT``.

        ``cost``: the result of ``cost()``, if known.
        """
        if (self.cost(values) if cost is None else cost) > cost_estimate.CALL_LIMIT:
            raise BudgetExceeded("operation cancelled: actual cost limit exceeded")
        try:
            result = self._compiled.eval(values.activation)
        except RuntimeError as error:
            raise _failure(str(error)) from None
        if result.type() == cel.Type.ERROR:
            raise _failure(str(result.value()))
        return result.value()


class Values:
    """The values of ``self`` and ``oldSelf``, converted once for all expressions that read them.

    Without ``old`` there is no earlier value. ``reads`` limits conversion to the fields that are read.
    """

    def __init__(self, value: Any, old: Any = UNSET, reads: frozenset[str] | None = None) -> None:
        before = None if old is UNSET else _part(old, reads)
        now = _part(value, reads)
        self._now, self._before = now, before
        self.size = len(_encode(now)) + (4 if before is None else len(_encode(before)))
        """Their size as JSON, in bytes."""
        data = {
            "self": now,
            _OLD: before,
            _WRAPPED: before,
            _HAS_OLD: old is not UNSET,
        }
        self.activation = _environment().Activation(data)

    @cached_property
    def extents(self) -> Mapping[str, cost_estimate.ValueSize]:
        """Their sizes, part by part."""
        before = cost_estimate.of_value(self._before)
        return {"self": cost_estimate.of_value(self._now), _OLD: before, _WRAPPED: before}

    @cached_property
    def conversion_cost(self) -> int:
        """The maximum cost of converting them, in units of ``cost_estimate``."""
        if self.size <= 256:
            return self.size
        counts = [cost_estimate.weigh(each) for each in (self._now, self._before)]
        return sum(32 * count + weight // 16 for count, weight in counts)


def _part(value: Any, reads: frozenset[str] | None) -> Any:
    if reads is None or not isinstance(value, dict):
        return value
    return {name: value[name] for name in reads if name in value}


def compile_rule(source: str, schema: Schema, *, optional_old: bool = False) -> CelExpression:
    """A rule; its result must be a boolean."""
    return _compile(source, schema, cel.Type.BOOL, optional_old)


def compile_message(source: str, schema: Schema, *, optional_old: bool = False) -> CelExpression:
    """A ``messageExpression``; its result must be a string."""
    return _compile(source, schema, cel.Type.STRING, optional_old)


def _compile(source: str, schema: Schema, wanted: Any, optional_old: bool) -> CelExpression:
    if len(source) > MAX_SOURCE:
        raise CelError(f"must not be longer than {MAX_SOURCE} characters")
    environment = _environment()
    text = source
    scope: dict[str, FieldAccess | None] = {"self": FieldAccess(schema), _OLD: FieldAccess(schema)}
    if optional_old:
        # The line break keeps a comment at the end of the rule from swallowing the bracket.
        text = f"cel.bind({_OLD}, {_HAS_OLD} ? optional.of({_WRAPPED}) : optional.none(), ({source}\n))"
        scope = {"self": FieldAccess(schema), _WRAPPED: FieldAccess(schema)}
    try:
        plain = ast.read(environment.compile(source, disable_check=True).serialize())
        checked = environment.compile(text)
    except RuntimeError as error:
        raise CelError(_readable(str(error))) from None
    returned = checked.return_type()
    if returned not in (wanted, cel.Type.DYN):
        raise CelError(f"must evaluate to a {wanted.name().lower()}, not {returned.name().lower()}")
    tree = ast.read(checked.serialize())
    resolved, problems = resolve(tree, scope)
    if problems:
        raise CelError("; ".join(dict.fromkeys(problems)))
    small = cost_estimate.of_schema(schema, _SMALL)
    least = cost_estimate.cost(resolved, dict.fromkeys(("self", _OLD, _WRAPPED), small))
    if least > cost_estimate.CALL_LIMIT:
        raise CelError(_too_dear(least / cost_estimate.CALL_LIMIT))
    runs = checked if resolved == tree else environment.deserialize(ast.write(resolved))
    return CelExpression(source, resolved, runs, uses_old=ast.mentions(plain, _OLD), reads=_reads(resolved))


def _too_dear(factor: float) -> str:
    by = "more than 100x" if factor > 100 else f"factor of {factor:.1f}x"
    return (
        f"estimated rule cost exceeds budget by {by} (try simplifying the rule, or adding maxItems, "
        "maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )


def _reads(tree: ast.Node) -> frozenset[str] | None:
    found: frozenset[str] = frozenset()
    for name in ("self", _OLD, _WRAPPED):
        fields = ast.fields_of(tree, name)
        if fields is None:
            return None
        found |= fields
    return found


@cache
def _environment() -> Any:
    declared: dict[str, list[Any]] = {}
    for signature in FUNCTIONS:
        declared.setdefault(signature.name, []).append(_overload(signature))
    own = cel.CelExtension("kubernetes", [cel.FunctionDecl(name, each) for name, each in declared.items()])
    return cel.NewEnv(
        variables={
            "self": cel.Type.DYN,
            _OLD: cel.Type.DYN,
            _WRAPPED: cel.Type.DYN,
            _HAS_OLD: cel.Type.BOOL,
        },
        extensions=[
            ext_strings.ExtStrings(),
            ext_math.ExtMath(),
            ext_optional.ExtOptional(),
            ext_bindings.ExtBindings(),
            ext_encoders.ExtEncoders(),
            own,
        ],
    )


def _overload(signature: Signature) -> Any:
    member = "_member" if signature.member else ""
    return cel.Overload(
        f"kubernetes_{signature.name}_{'_'.join(signature.parameters)}{member}",
        _TYPES[signature.result],
        [_TYPES[name] for name in signature.parameters],
        signature.member,
        signature.implementation,
    )


def _readable(error: str) -> str:
    """The compiler's message without status code, source excerpt and pointer."""
    lines = [line for line in error.splitlines() if not line.startswith(" |")]
    joined = "; ".join(line.strip() for line in lines if line.strip())
    joined = re.sub(r"^[A-Z_]+: |\s*\[[A-Z_]+\]$", "", joined)
    joined = re.sub(r"ERROR: <input>:(\d+):(\d+): ", r"line \1, column \2: ", joined)
    return joined.replace(" (in container '')", "")


def _failure(message: str) -> CelError:
    plain = re.sub(r"^[A-Z_]+: |\s*\[[A-Z_]+\]$", "", message)
    if "budget exceeded" in plain.lower():
        return BudgetExceeded(plain)
    return CelError(plain[:1].lower() + plain[1:])
