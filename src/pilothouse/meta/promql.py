"""PromQL: parsed and checked here, evaluated by ``rules`` or by a Prometheus.

    problem_of("rate(requests_total[5m]) > 3")        # ""
    problem_of("rate(requests_total)")     # expected type matrix in call to function 'rate', got vector

The parser is imported when the first expression is parsed: a server without rules does not have it in memory.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from promql_parser import Expr

LONGEST: Final = 16 * 1024
"""Of an expression, in characters."""
MOST_OPERATORS: Final = 250
"""Of an expression, brackets included. The parser recurses once for each, and overflows the stack of the
process at some thousands."""
_TEXT: Final = r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`|#[^\n]*)"""
_LEXEMES: Final = re.compile(
    rf"""(?P<skipped>\{{(?:{_TEXT}|[^"'`#{{}}])*\}}|{_TEXT}|["'`].*)"""
    r"""|(?P<operator>[-+*/%^<>=!(\[{]|\b(?:and|or|unless|atan2|offset|bool)\b)""",
    re.IGNORECASE | re.DOTALL,
)


class PromqlError(ValueError):
    """An expression that is not PromQL, or not of the type that is needed."""


def parse(text: str) -> Expr:
    """The expression. Raises ``PromqlError``."""
    import promql_parser

    if len(text) > LONGEST:
        raise PromqlError(f"has {len(text)} characters; at most {LONGEST} are allowed")
    operators = sum(1 for found in _LEXEMES.finditer(text) if found["operator"])
    if operators > MOST_OPERATORS:
        raise PromqlError(f"has {operators} operators and brackets; at most {MOST_OPERATORS} are allowed")
    try:
        return promql_parser.parse(text)
    except (ValueError, RecursionError) as problem:
        raise PromqlError(str(problem)) from None


def problem_of(text: str) -> str:
    """Why this can't be compared for each object; empty if it can: an instant vector or a scalar."""
    import promql_parser

    try:
        expression = parse(text)
    except PromqlError as problem:
        return str(problem)
    while isinstance(expression, promql_parser.ParenExpr):
        expression = expression.expr
    if isinstance(expression, promql_parser.MatrixSelector | promql_parser.SubqueryExpr):
        return "is a range of samples; apply a function such as rate() or avg_over_time() to it"
    if isinstance(expression, promql_parser.StringLiteral):
        return "is a string; a metric is needed"
    return ""
