"""What a rule asks of its provider.

queries = rule_queries(terms.spec)
queries.expressions          # of the query language, in the order of the rule's comparisons
"""

from __future__ import annotations

import msgspec

from pilothouse.api.openstorage.actions import object_type
from pilothouse.api.openstorage.aliases import ALIASES
from pilothouse.api.openstorage.v1alpha1 import AutopilotRuleSpec, Expression
from pilothouse.rules.samples import QueryFailure


class RuleQueries(msgspec.Struct, frozen=True):
    provider: str
    expressions: tuple[str, ...] = ()
    refusal: QueryFailure | None = None
    """Why the rule can't be evaluated by any provider."""


def rule_queries(spec: AutopilotRuleSpec) -> RuleQueries:
    kind = object_type(spec.actions[0].name)
    texts = tuple(map(query_of, spec.conditions.expressions))
    refusal = None
    if kind != "volume":
        refusal = QueryFailure("NotSupported", f"objects of type {kind} can't be watched, only volumes")
    elif not all(texts):
        missing = next(one for one, text in zip(spec.conditions.expressions, texts, strict=True) if not text)
        what = missing.key_alias or "an empty expression"
        refusal = QueryFailure("NotSupported", f"{what} can't be evaluated")
    return RuleQueries(spec.conditions.provider, texts, refusal)


def query_of(expression: Expression) -> str:
    """What an expression of a rule means in the query language; empty if nothing can compute it."""
    if expression.key_alias:
        return ALIASES.get(expression.key_alias, "")
    return expression.key or expression.expression or ""
