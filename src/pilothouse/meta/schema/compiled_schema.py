"""A schema compiled for its four uses.

    shape = CompiledSchema(schema)
    unknown = [] if shape.accepts(obj) else shape.prune(obj)
    shape.default(obj)
    problems = shape.validate(obj, stored)

``accepts`` is the common case: one call into compiled code. Only an object that fails it is walked in Python.
Parts are compiled on first use, and the compilers imported then: they take 25 MB, which a process that only
names kinds (a pilot, the command line) does not need.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from pilothouse.meta.fields import TYPE_INVALID, FieldError
from pilothouse.meta.schema.defaulting import Defaults, drop_nulls
from pilothouse.meta.schema.model import UNSET, Schema
from pilothouse.meta.schema.pruning import prune
from pilothouse.meta.schema.schema_plan import make_plan

if TYPE_CHECKING:
    from pilothouse.meta.cel.validation_rules import CelRules
    from pilothouse.meta.schema.fast_validation import FastValidator


_INDEX: Final = re.compile(r"\[\d+\]")


class CompiledSchema:
    """A compiled schema. Objects are changed in place."""

    def __init__(self, schema: Schema, hints: Mapping[str, str] | None = None) -> None:
        """``hints`` are added to the faults at their paths: ``a.b``, ``list[].a``, ``map.*``."""
        self.schema = schema
        self._hints = hints or {}

    @cached_property
    def _acceptor(self) -> FastValidator:
        from pilothouse.meta.schema.fast_validation import FastValidator

        return FastValidator(self.schema)

    @cached_property
    def _defaults(self) -> Defaults:
        return Defaults(self.schema)

    @cached_property
    def _rules(self) -> CelRules | None:
        plan = make_plan(self.schema, lambda node: bool(node.rules))
        if plan is None:
            return None
        from pilothouse.meta.cel.validation_rules import CelRules

        return CelRules(plan)

    def accepts(self, obj: dict[str, Any]) -> bool:
        """True if no field is unknown and the schema finds no fault (CEL rules are not run)."""
        return self._acceptor.accepts(obj)

    def prune(self, obj: dict[str, Any]) -> list[str]:
        """Remove unknown fields; their sorted paths (``metadata.zork``, ``spec.users[0].q``)."""
        return prune(self.schema, obj)

    def default(self, obj: dict[str, Any], *, accepted: bool = False, keep_nulls: bool = False) -> None:
        """Drop nulls that the schema doesn't allow, then fill in defaults.

        ``accepted``: there are no such nulls. ``keep_nulls``: those outside ``metadata`` stay, for
        ``validate`` to report.
        """
        if not (accepted or self.accepts(obj)):
            if not keep_nulls:
                drop_nulls(self.schema, obj)
            elif (metadata := self.schema.properties.get("metadata")) is not None:
                drop_nulls(metadata, obj.get("metadata"))
        self._defaults.fill(obj)

    def validate(self, obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[FieldError]:
        """All faults, CEL rules included. With ``old``, transition rules run and unchanged faults pass."""
        before = UNSET if old is None else old
        found: list[FieldError] = []
        if not self.accepts(obj):
            from pilothouse.meta.schema.validation import faults

            found = [self._with_hint(each) for each in faults(self.schema, obj, before)]
        return found if self._rules is None else found + self._rules.check(obj, before, found)

    def _with_hint(self, fault: FieldError) -> FieldError:
        if fault.reason != TYPE_INVALID or not self._hints:
            return fault
        form = _INDEX.sub("[]", fault.path)
        hint = self._hints.get(form) or self._hints.get(f"{form.rpartition('.')[0]}.*")
        return fault._replace(detail=f"{fault.detail}; {hint}") if hint else fault
