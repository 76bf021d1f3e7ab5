"""Selectors of series: ``used_bytes{namespace="db",pod=~"pg-.*"}``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from pilothouse.meta.schema.regular_expressions import ExpressionError, TooManySteps, compile_expression
from pilothouse.rules.promql.label_sets import NAME

Comparison = Literal["=", "!=", "=~", "!~"]
_LONGEST_PATTERN: Final = 4096


class LabelMatcher(msgspec.Struct, frozen=True):
    """One demand on a label; a label that is missing counts as empty."""

    label: str
    comparison: Comparison
    value: str

    def holds(self, found: str) -> bool:
        if self.comparison == "=":
            return found == self.value
        if self.comparison == "!=":
            return found != self.value
        return self._fits(found) == (self.comparison == "=~")

    def _fits(self, found: str) -> bool:
        try:
            # The marks keep an empty match apart from none.
            return compile_expression(f"(?s)^<(?:{self.value})>$").find(f"<{found}>") != ""
        except TooManySteps:
            return False


class SeriesSelector(msgspec.Struct, frozen=True):
    """All demands have to be met."""

    matchers: tuple[LabelMatcher, ...]

    @property
    def name(self) -> str:
        """The metric's name; empty if it is not given literally."""
        for each in self.matchers:
            if each.label == NAME and each.comparison == "=":
                return each.value
        return ""

    def selects(self, labels: Mapping[str, str]) -> bool:
        return all(each.holds(labels.get(each.label, "")) for each in self.matchers)


def pattern_problem(pattern: str) -> str:
    """Why a regular expression can't be used; empty if it can."""
    if len(pattern) > _LONGEST_PATTERN:
        return f"a regular expression of more than {_LONGEST_PATTERN} characters"
    try:
        compile_expression(f"(?s)^<(?:{pattern})>$")
    except ExpressionError as problem:
        return str(problem)
    return ""
