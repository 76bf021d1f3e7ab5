"""What a rule asks of its provider.

queries = rule_queries(terms.spec)
queries.expressions          # of the query language, in the order of the rule's comparisons
queries.candidates[0]        # those of its first candidate, with their levels
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from pilothouse.api.openstorage.actions import object_type
from pilothouse.api.openstorage.aliases import ALIASES
from pilothouse.api.openstorage.levels import LEVELS
from pilothouse.api.openstorage.v1alpha1 import AutopilotRuleSpec, Expression, RuleAction
from pilothouse.rules.object_types import kinds_of, type_of_rule
from pilothouse.rules.samples import QueryFailure

VOLUME_INFO: Final = "pilothouse_volume_info"
"""Says on which device, disk, tier and node a volume is."""
_ABOVE_DEVICES: Final = frozenset({"application", "workload", "pod", "volume"})


class LevelQuery(NamedTuple):
    text: str
    level: str
    """Whose metric it is."""


class RuleQueries(msgspec.Struct, frozen=True):
    provider: str
    about: str = ""
    """The type of the rule's objects."""
    conditions: tuple[LevelQuery, ...] = ()
    candidates: tuple[tuple[LevelQuery, ...], ...] = ()
    refusal: QueryFailure | None = None
    """Why the rule can't be evaluated by any provider."""
    needs_info: bool = False
    """Whether it looks at devices or pools of other objects, or acts on them."""

    @property
    def expressions(self) -> tuple[str, ...]:
        return tuple(one.text for one in self.conditions)

    @property
    def every(self) -> tuple[str, ...]:
        """All that is asked at some time, each once."""
        candidates = (one.text for each in self.candidates for one in each)
        info = (VOLUME_INFO,) if self.needs_info else ()
        return tuple(dict.fromkeys((*self.expressions, *candidates, *info)))


def rule_queries(spec: AutopilotRuleSpec) -> RuleQueries:
    about = type_of_rule(spec)
    conditions = tuple(_query(one, about) for one in spec.conditions.expressions)
    candidates = tuple(tuple(_query(one, about) for one in each.when) for each in spec.candidates)
    expressions = [*spec.conditions.expressions, *(one for each in spec.candidates for one in each.when)]
    refusal = None
    if not kinds_of(about):
        refusal = QueryFailure("NotSupported", f"objects of type {about or 'none'} can't be watched")
    elif missing := next((one for one in expressions if not query_of(one)), None):
        what = missing.key_alias or "an empty expression"
        refusal = QueryFailure("NotSupported", f"{what} can't be evaluated")
    levels = {one.level for one in (*conditions, *(one for each in candidates for one in each))}
    levels |= {object_type(action.name) for action in every_action(spec)}
    return RuleQueries(
        spec.conditions.provider, about, conditions, candidates, refusal, _needs_info(about, levels)
    )


def every_action(spec: AutopilotRuleSpec) -> tuple[RuleAction, ...]:
    """The actions of a rule, or of all its candidates."""
    return (*spec.actions, *(action for each in spec.candidates for action in each.actions))


def query_of(expression: Expression) -> str:
    """What an expression of a rule means in the query language; empty if nothing can compute it."""
    if expression.key_alias:
        return ALIASES.get(expression.key_alias, "")
    return expression.key or expression.expression or ""


def text_of(expression: Expression) -> str:
    """As people wrote it."""
    return expression.key_alias or expression.key or expression.expression or ""


def _query(expression: Expression, about: str) -> LevelQuery:
    return LevelQuery(query_of(expression), expression.level or about)


def _needs_info(about: str, levels: set[str]) -> bool:
    others = levels.intersection(LEVELS) - {about}
    if about in _ABOVE_DEVICES:
        return bool(others & {"device", "storagepool"})
    return "device" in others
